/* SPDX-License-Identifier: BSD-3-Clause */
/* set.c - sets of ranks as spans. */
#include <stdlib.h>
#include <string.h>
#include "explain/explain.h"
#include "lib/grow.h"

/* A text names so many spans, so that a page stays a page. */
enum { SET_NAMED = 16 };

void explain_set_add(struct explain_set *set, int32_t first, int32_t last)
{
	struct explain_span *end = set->n ? &set->span[set->n - 1] : NULL;

	if (last < first)
		return;
	if (end != NULL && first <= end->last + 1) {
		if (last > end->last)
			end->last = last;
		return;
	}
	set->span = tool_grow(set->span, &set->cap, set->n + 1, sizeof(*set->span));
	set->span[set->n++] = (struct explain_span){first, last};
}

int explain_set_has(const struct explain_set *set, int32_t rank)
{
	int low = 0, high = set->n;

	while (low < high) {
		const int mid = (low + high) / 2;

		if (set->span[mid].last < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return low < set->n && set->span[low].first <= rank;
}

void explain_set_insert(struct explain_set *set, int32_t rank)
{
	struct explain_set old = *set;
	int i = 0;

	if (explain_set_has(set, rank))
		return;
	memset(set, 0, sizeof(*set));
	for (; i < old.n && old.span[i].first < rank; i++)
		explain_set_add(set, old.span[i].first, old.span[i].last);
	explain_set_add(set, rank, rank);
	for (; i < old.n; i++)
		explain_set_add(set, old.span[i].first, old.span[i].last);
	explain_set_free(&old);
}

int64_t explain_set_count(const struct explain_set *set)
{
	int64_t count = 0;

	for (int i = 0; i < set->n; i++)
		count += (int64_t)set->span[i].last - set->span[i].first + 1;
	return count;
}

void explain_set_invert(const struct explain_set *set, int32_t nranks, struct explain_set *out)
{
	int32_t from = 0;

	for (int i = 0; i < set->n; i++) {
		explain_set_add(out, from, set->span[i].first - 1);
		from = set->span[i].last + 1;
	}
	explain_set_add(out, from, nranks - 1);
}

void explain_set_subtract(const struct explain_set *set, const struct explain_set *other,
			  struct explain_set *out)
{
	int k = 0;

	for (int i = 0; i < set->n; i++) {
		int32_t from = set->span[i].first;

		while (k < other->n && other->span[k].last < from)
			k++;
		for (int m = k; m < other->n && other->span[m].first <= set->span[i].last; m++) {
			explain_set_add(out, from, other->span[m].first - 1);
			from = other->span[m].last + 1;
		}
		explain_set_add(out, from, set->span[i].last);
	}
}

const char *explain_set_text(const struct explain_set *set, char *text, size_t size)
{
	const int64_t count = explain_set_count(set);
	int64_t named = 0;
	size_t at = (size_t)snprintf(text, size, "%s",
				     count == 0   ? "no rank"
				     : count == 1 ? "rank "
						  : "ranks ");

	for (int i = 0; i < set->n && at < size; i++) {
		const struct explain_span *s = &set->span[i];

		if (i == SET_NAMED) {
			snprintf(text + at, size - at, " and %lld others",
				 (long long)(count - named));
			break;
		}
		named += (int64_t)s->last - s->first + 1;
		at += (size_t)snprintf(text + at, size - at, "%s%d", i ? ", " : "", s->first);
		if (s->last > s->first && at < size)
			at += (size_t)snprintf(text + at, size - at, "-%d", s->last);
	}
	return text;
}

void explain_set_free(struct explain_set *set)
{
	free(set->span);
	memset(set, 0, sizeof(*set));
}
