/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.c - the first collective that differs between the ranks, and ranks that are equal. */
#include <stdlib.h>
#include <string.h>
#include "explain/explain.h"
#include "lib/grow.h"

/* With so few ranks each is shown with its own peer. */
enum { COMPARE_FEW = 16 };

static int compare_order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* ----------------------------------------------------------------------- differences -- */

struct entry {
	const struct explain_op *op;
	int32_t rank;
};

/* The collectives of all ranks, by number and then by rank. */
struct entries {
	struct entry *entry;
	int n, cap;
};

static int entry_order(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;
	const int by = compare_order(a->op->collective, b->op->collective);

	return by ? by : (a->rank > b->rank) - (a->rank < b->rank);
}

static void entries_make(struct entries *all, const struct explain_comm *comm)
{
	*all = (struct entries){0};
	for (int i = 0; i < comm->n; i++) {
		const struct explain_dump *dump = comm->rank[i].dump;

		for (int k = 0; k < dump->nops; k++) {
			if (!dump->op[k].collective)
				continue;
			all->entry =
				tool_grow(all->entry, &all->cap, all->n + 1, sizeof(*all->entry));
			all->entry[all->n++] = (struct entry){&dump->op[k], dump->rank};
		}
	}
	if (all->n > 1)
		qsort(all->entry, (size_t)all->n, sizeof(*all->entry), entry_order);
}

/* In these collectives each rank has counts of its own, and a rank without elements may have no type. */
static int call_has_own_counts(const struct explain_op *op)
{
	const size_t n = strlen(op->kind);

	return op->is_collective && n > 0 && op->kind[n - 1] == 'v';
}

static int call_is_same(const struct explain_op *a, const struct explain_op *b)
{
	const int own = call_has_own_counts(a);

	if (a->kind != b->kind || a->redop != b->redop || a->peer != b->peer)
		return 0;
	if (a->algorithm != b->algorithm && a->algorithm[0] && b->algorithm[0])
		return 0;
	if (a->dtype != b->dtype && !(own && (!a->dtype[0] || !b->dtype[0])))
		return 0;
	return own || (a->count == b->count && a->what == b->what);
}

static int call_has_same_label(const struct explain_op *a, const struct explain_op *b)
{
	return a->tag == b->tag;
}

static void side_add(struct explain_side **side, int *n, int *cap, const struct entry *entry,
		     int (*same)(const struct explain_op *, const struct explain_op *))
{
	int i = 0;

	while (i < *n && !same((*side)[i].op, entry->op))
		i++;
	if (i == *n) {
		*side = tool_grow(*side, cap, *n + 1, sizeof(**side));
		(*side)[(*n)++] = (struct explain_side){.op = entry->op};
	}
	explain_set_add(&(*side)[i].ranks, entry->rank, entry->rank);
}

/* The rarest call first; of equally rare ones the call of the higher rank. */
static int side_order(const void *x, const void *y)
{
	const struct explain_side *a = x, *b = y;
	const int64_t na = explain_set_count(&a->ranks), nb = explain_set_count(&b->ranks);

	if (na != nb)
		return na < nb ? -1 : 1;
	return (a->ranks.span[0].first < b->ranks.span[0].first) -
	       (a->ranks.span[0].first > b->ranks.span[0].first);
}

/* Finds the first collective of which not all calls are the same, and its sides.  Returns its number, or 0. */
static uint64_t compare_find(const struct entries *all, struct explain_side **side, int *n,
			     int *cap,
			     int (*same)(const struct explain_op *, const struct explain_op *))
{
	for (int i = 0, end; i < all->n; i = end) {
		const uint64_t number = all->entry[i].op->collective;
		int differs = 0;

		for (end = i; end < all->n && all->entry[end].op->collective == number; end++)
			differs |= !same(all->entry[i].op, all->entry[end].op);
		if (!differs)
			continue;
		for (; i < end; i++)
			side_add(side, n, cap, &all->entry[i], same);
		qsort(*side, (size_t)*n, sizeof(**side), side_order);
		return number;
	}
	return 0;
}

void explain_find_differences(struct explain_comm *comm)
{
	struct entries all;

	entries_make(&all, comm);
	comm->differs =
		compare_find(&all, &comm->side, &comm->nsides, &comm->cap_sides, call_is_same);
	comm->label_differs = compare_find(&all, &comm->label, &comm->nlabels, &comm->cap_labels,
					   call_has_same_label);
	free(all.entry);
}

/* --------------------------------------------------------------------------- classes -- */

static int class_order_waits(const struct explain_op *a, const struct explain_op *b, int few)
{
	int by = !a - !b;

	if (by || !a)
		return by;
	by = compare_order(a->collective, b->collective);
	by = by ? by : strcmp(a->kind, b->kind);
	by = by ? by : (int)a->state - (int)b->state;
	if (by || (!a->collective && !few))
		return by;
	return strcmp(a->what, b->what);
}

static int class_order_ranks(const struct explain_rank *a, const struct explain_rank *b, int few)
{
	int by = (int)a->counted - (int)b->counted;

	by = by ? by : (int)b->late - (int)a->late;
	by = by ? by : compare_order(a->made, b->made);
	by = by ? by : compare_order(a->done, b->done);
	return by ? by : class_order_waits(a->waits, b->waits, few);
}

static int class_order(const void *x, const void *y)
{
	const struct explain_rank *a = *(const struct explain_rank *const *)x;
	const struct explain_rank *b = *(const struct explain_rank *const *)y;
	const int by = class_order_ranks(a, b, 0);

	return by ? by : (a->rank > b->rank) - (a->rank < b->rank);
}

static int class_order_few(const void *x, const void *y)
{
	const struct explain_rank *a = *(const struct explain_rank *const *)x;
	const struct explain_rank *b = *(const struct explain_rank *const *)y;
	const int by = class_order_ranks(a, b, 1);

	return by ? by : (a->rank > b->rank) - (a->rank < b->rank);
}

int64_t explain_before_file(const struct explain_rank *r, int64_t ms)
{
	if (!ms || !r->dump->written_ms || r->dump->written_ms < ms)
		return -1;
	return r->dump->written_ms - ms;
}

int64_t explain_waited(const struct explain_rank *r)
{
	if (r->waits == NULL)
		return -1;
	return explain_before_file(r, r->waits->started_ms ? r->waits->started_ms
							   : r->waits->issued_ms);
}

static void class_times(struct explain_class *class, const struct explain_rank *r, int is_first)
{
	const int64_t idle = explain_before_file(r, r->last_ms), wait = explain_waited(r);

	if (is_first || idle < class->idle_ms)
		class->idle_ms = idle;
	if (is_first || idle > class->idle_most_ms)
		class->idle_most_ms = idle;
	if (is_first || wait < class->wait_ms)
		class->wait_ms = wait;
	if (is_first || wait > class->wait_most_ms)
		class->wait_most_ms = wait;
	class->mixed |= r->waits != NULL && r->waits->what != class->first->waits->what;
}

void explain_find_classes(struct explain_comm *comm)
{
	const int few = comm->n <= COMPARE_FEW;
	const struct explain_rank **sorted = tool_array((size_t)comm->n, sizeof(*sorted));
	struct explain_class *class = NULL;

	for (int i = 0; i < comm->n; i++)
		sorted[i] = &comm->rank[i];
	qsort(sorted, (size_t)comm->n, sizeof(*sorted), few ? class_order_few : class_order);
	for (int i = 0; i < comm->n; i++) {
		const int is_first = !i || class_order_ranks(class->first, sorted[i], few);

		if (is_first) {
			comm->class = tool_grow(comm->class, &comm->cap_classes, comm->nclasses + 1,
						sizeof(*comm->class));
			class = &comm->class[comm->nclasses++];
			*class = (struct explain_class){.first = sorted[i]};
		}
		explain_set_add(&class->ranks, sorted[i]->rank, sorted[i]->rank);
		class_times(class, sorted[i], is_first);
	}
	free(sorted);
}
