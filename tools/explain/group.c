/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c - the dumps of each communicator beside each other.  A program that makes communicator after communicator may use an
 * id again: a rank's files of one id are numbered, and files with the same number belong together.
 */
#include <stdlib.h>
#include <string.h>
#include "explain/explain.h"
#include "lib/grow.h"

static int order(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Orders by communicator alone. */
static int group_order(const struct explain_dump *a, const struct explain_dump *b)
{
	int by = (a->job > b->job) - (a->job < b->job);

	by = by ? by : strcmp(a->comm, b->comm);
	return by ? by : strcmp(a->backend, b->backend);
}

/* Of each communicator rank after rank, and of each rank the older file first. */
static int group_by_rank(const void *x, const void *y)
{
	const struct explain_dump *a = x, *b = y;
	int by = group_order(a, b);

	by = by ? by : order(a->rank, b->rank);
	by = by ? by : order(a->name_tail, b->name_tail);
	by = by ? by : order(a->written_ms, b->written_ms);
	return by ? by : order(a->pid, b->pid);
}

static int group_by_number(const void *x, const void *y)
{
	const struct explain_dump *a = x, *b = y;
	int by = group_order(a, b);

	by = by ? by : order(a->again, b->again);
	return by ? by : order(a->rank, b->rank);
}

static int group_is_twice(const struct explain_dump *a, const struct explain_dump *b)
{
	return a->name_tail == b->name_tail && a->written_ms == b->written_ms && a->pid == b->pid &&
	       a->nops == b->nops && strcmp(a->host, b->host) == 0;
}

/* The n-th files of ranks belong together only if each rank has all of its files. */
static void group_compare_counts(struct explain *e)
{
	const struct explain_dump *first = NULL, *last = NULL;

	for (int i = 0; i < e->ndumps; i++) {
		const struct explain_dump *d = &e->dump[i];

		if (i + 1 < e->ndumps && group_order(d, d + 1) == 0 && d->rank == d[1].rank)
			continue; /* not the newest file of the rank */
		if (first == NULL || group_order(first, d) != 0) {
			first = d;
		} else if (d->again != first->again && last != first) {
			explain_note(e,
				     "communicator %s: rank %d has %d files of this id, rank %d "
				     "has %d: a rank's file may stand beside files of another "
				     "communicator that had the same id",
				     d->comm, first->rank, first->again + 1, d->rank, d->again + 1);
			last = first;
		}
	}
}

/* Numbers the files of each rank, and drops what was given twice. */
static void group_number(struct explain *e)
{
	int n = 0;

	qsort(e->dump, (size_t)e->ndumps, sizeof(*e->dump), group_by_rank);
	for (int i = 0; i < e->ndumps; i++) {
		struct explain_dump *d = &e->dump[i], *before = n ? &e->dump[n - 1] : NULL;
		const int same = before && group_order(before, d) == 0 && before->rank == d->rank;

		if (same && group_is_twice(before, d)) {
			explain_note(e, "%s: the dump of rank %d is also in %s, and is used once",
				     d->file, d->rank, before->file);
			free(d->op);
			continue;
		}
		d->again = same ? before->again + 1 : 0;
		e->dump[n++] = *d;
	}
	e->ndumps = n;
	group_compare_counts(e);
	qsort(e->dump, (size_t)e->ndumps, sizeof(*e->dump), group_by_number);
}

/* ---------------------------------------------------------------------------- the ranks -- */

/*
 * A backend that does whole calls gives collectives no number of their own.  If a communicator has had nothing but collectives,
 * the numbers of the operations are theirs; else collectives are counted if the dump has all operations.
 */
static int group_only_collectives(const struct explain_dump *first, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < first[i].nops; k++)
			if (first[i].op[k].number && !first[i].op[k].is_collective)
				return 0;
	return 1;
}

static void rank_number(struct explain_dump *dump, int only_collectives)
{
	const int whole = dump->nops > 0 && dump->op[0].number == 1;
	uint64_t count = 0;

	for (int i = 0; i < dump->nops; i++) {
		struct explain_op *op = &dump->op[i];

		if (!op->is_collective || op->collective)
			continue;
		count++;
		op->collective = only_collectives ? op->number : whole ? count : 0;
	}
}

/* Does a wait for operation `a` explain the rank better than for `b`? */
static int rank_waits_rather(const struct explain_op *a, const struct explain_op *b)
{
	if (b == NULL)
		return 1;
	if (!a->number != !b->number)
		return a->number != 0;
	if ((a->state == STATE_QUEUED) != (b->state == STATE_QUEUED))
		return a->state != STATE_QUEUED;
	return !a->number && explain_is_recv(a) && explain_is_send(b);
}

/* busy_ms: the latest time at which the rank was in the library before its newest call. */
static void rank_date(struct explain_rank *r, const struct explain_op *op, int64_t *busy_ms)
{
	if (op->issued_ms > r->last_ms) {
		if (r->last_ms > *busy_ms)
			*busy_ms = r->last_ms;
		r->last_ms = op->issued_ms;
		r->gap_ms = *busy_ms ? r->last_ms - *busy_ms : -1;
	}
	if (op->ended_ms > *busy_ms)
		*busy_ms = op->ended_ms;
}

static void rank_fill(struct explain_rank *r, const struct explain_dump *dump)
{
	int64_t busy_ms = 0;

	*r = (struct explain_rank){.dump = dump, .rank = dump->rank, .gap_ms = -1};

	/* A dump without operations has messages only, and one that begins with operation 1 is whole. */
	r->counted = dump->nops == 0 || dump->op[0].number <= 1;
	for (int i = 0; i < dump->nops; i++) {
		const struct explain_op *op = &dump->op[i];
		const int is_done = op->state == STATE_DONE || op->state == STATE_FAILED;

		if (op->is_collective && !op->collective)
			r->counted = 0;
		if (op->collective) {
			r->counted = 1;
			r->made = op->collective > r->made ? op->collective : r->made;
			if (op->state == STATE_DONE && op->collective > r->done)
				r->done = op->collective;
		}
		rank_date(r, op, &busy_ms);
		r->open += !is_done;
		if (!is_done && rank_waits_rather(op, r->waits))
			r->waits = op;
	}
}

static int group_by_host(const void *x, const void *y)
{
	const char *const *a = x, *const *b = y;

	return strcmp(*a, *b);
}

static int group_hosts(const struct explain_comm *comm)
{
	const char **host = tool_array((size_t)comm->n, sizeof(*host));
	int hosts = 1;

	for (int i = 0; i < comm->n; i++)
		host[i] = comm->rank[i].dump->host;
	qsort(host, (size_t)comm->n, sizeof(*host), group_by_host);
	for (int i = 1; i < comm->n; i++)
		hosts += strcmp(host[i], host[i - 1]) != 0;
	free(host);
	return hosts;
}

static void group_fill(struct explain *e, struct explain_comm *comm, struct explain_dump *first,
		       int n)
{
	const int only_collectives = group_only_collectives(first, n);

	*comm = (struct explain_comm){.head = first, .nranks = first->nranks, .n = n};
	comm->rank = tool_array((size_t)n, sizeof(*comm->rank));
	for (int i = 0; i < n; i++) {
		if (first[i].nranks != comm->nranks)
			explain_note(e,
				     "%s:%d: the head says %d ranks, but %s says %d; the larger "
				     "number is used",
				     first[i].file, first[i].line, first[i].nranks, first->file,
				     first->nranks);
		if (first[i].nranks > comm->nranks)
			comm->nranks = first[i].nranks;
		rank_number(&first[i], only_collectives);
		rank_fill(&comm->rank[i], &first[i]);
		explain_set_add(&comm->present, first[i].rank, first[i].rank);
		if (first[i].process == PROCESS_STOPPED)
			explain_set_add(&comm->stopped, first[i].rank, first[i].rank);
		if (first[i].process == PROCESS_ENDED && !first[i].code)
			explain_set_add(&comm->ended, first[i].rank, first[i].rank);
		comm->failed |= first[i].code != 0;
	}
	explain_set_invert(&comm->present, comm->nranks, &comm->missing);
	comm->hosts = group_hosts(comm);
	explain_find_causes(comm);
}

const struct explain_rank *explain_rank_at(const struct explain_comm *comm, int32_t rank)
{
	int low = 0, high = comm->n;

	while (low < high) {
		const int mid = (low + high) / 2;

		if (comm->rank[mid].rank < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return low < comm->n && comm->rank[low].rank == rank ? &comm->rank[low] : NULL;
}

static int group_waits(const struct explain_comm *comm)
{
	for (int i = 0; i < comm->nclasses; i++)
		if (comm->class[i].first->waits != NULL)
			return 1;
	return 0;
}

/*
 * The gravest cause first; of equal ones a communicator in which ranks wait, since a failure ends the communicators beside it too;
 * then the communicator whose first failure is the earliest.
 */
static int group_by_cause(const void *x, const void *y)
{
	const struct explain_comm *a = x, *b = y;
	int by = order((int)a->cause, (int)b->cause);

	by = by ? by : group_waits(b) - group_waits(a);
	if (!by && a->nfailures && b->nfailures)
		by = order(a->failure[0].ms, b->failure[0].ms);
	return by ? by : group_by_number(a->head, b->head);
}

void explain_group(struct explain *e, struct explain_job *job)
{
	*job = (struct explain_job){0};
	if (e->ndumps == 0)
		return;
	group_number(e);
	for (int i = 0, n; i < e->ndumps; i += n) {
		for (n = 1; i + n < e->ndumps && group_order(&e->dump[i], &e->dump[i + n]) == 0 &&
			    e->dump[i].again == e->dump[i + n].again;)
			n++;
		job->comm = tool_grow(job->comm, &job->cap, job->n + 1, sizeof(*job->comm));
		group_fill(e, &job->comm[job->n++], &e->dump[i], n);
	}
	qsort(job->comm, (size_t)job->n, sizeof(*job->comm), group_by_cause);
}

static void sides_free(struct explain_side *side, int n)
{
	for (int i = 0; i < n; i++)
		explain_set_free(&side[i].ranks);
	free(side);
}

void explain_job_free(struct explain_job *job)
{
	for (int i = 0; i < job->n; i++) {
		struct explain_comm *c = &job->comm[i];

		explain_set_free(&c->present);
		explain_set_free(&c->missing);
		explain_set_free(&c->gone);
		explain_set_free(&c->left);
		explain_set_free(&c->ended);
		explain_set_free(&c->stopped);
		explain_set_free(&c->silent);
		explain_set_free(&c->behind);
		explain_set_free(&c->late);
		sides_free(c->side, c->nsides);
		sides_free(c->label, c->nlabels);
		for (int k = 0; k < c->nfailures; k++)
			explain_set_free(&c->failure[k].ranks);
		for (int k = 0; k < c->nclasses; k++)
			explain_set_free(&c->class[k].ranks);
		free(c->class);
		free(c->failure);
		free(c->lonely);
		free(c->cycle);
		free(c->rank);
	}
	free(job->comm);
	*job = (struct explain_job){0};
}
