/* SPDX-License-Identifier: BSD-3-Clause */
/* counters.c - the counters of a communicator, for the program. */
#include "base/error.h"
#include "comm/counts.h"
#include "comm/lane.h"

#include <string.h>

_Static_assert((int)COLL_COUNTER_BUCKETS == (int)PAGE_BUCKETS, "the program sees all buckets");
_Static_assert((int)PAGE_RANKS == 1024, "coll.h says of which ranks there are counters");

/* Returns the first row of counters that `kind` asks for, or -1: it is no kind.  *last: becomes the last row. */
static int counters_rows(int kind, int *last)
{
	const int row = kind == COLL_COUNT_ISEND   ? PAGE_ISEND
			: kind == COLL_COUNT_IRECV ? PAGE_IRECV
			: kind == COLL_COUNT_OTHER ? 0
			: kind_is_valid(kind)      ? kind
						   : -1;

	*last = kind == COLL_COUNT_ALL ? PAGE_KINDS - 1 : row;
	return kind == COLL_COUNT_ALL ? 0 : row;
}

static void counters_add_row(coll_counters_t *sum, const struct page_kind *row)
{
	sum->calls += row->calls;
	sum->bytes += row->bytes;
	sum->ended += row->ended;
	sum->latency_ns += row->latency_ns;
	sum->waited_ns += row->waited_ns;
	for (int i = 0; i < PAGE_BUCKETS; i++)
		sum->bucket[i] += row->bucket[i];
}

static void counters_add_peer(coll_counters_t *sum, struct lane *lane)
{
	const struct page_peer *peer = counts_peer(lane, sum->rank);

	if (!peer)
		return;
	sum->last_waits += peer->last_waits;
	sum->last_ns += peer->last_ns;
	sum->behind += peer->behind;
}

/* The lock is held. */
static void counters_add_lane(coll_counters_t *sum, struct lane *lane, int first, int last)
{
	const struct page_counts *counts = lane->counts;

	counts_refresh(lane);
	for (int i = first; i <= last; i++)
		counters_add_row(sum, &counts->kind[i]);
	sum->stalls += counts->stalls;
	sum->staged += counts->staged;
	sum->staged_bytes += counts->staged_bytes;
	sum->unexpected += counts->unexpected;
	sum->unexpected_bytes += counts->unexpected_bytes;
	sum->unexpected_now += counts->unexpected_now;
	sum->unexpected_memory += counts->unexpected_memory;
	sum->unexpected_memory_most += counts->unexpected_memory_most;
	counters_add_peer(sum, lane);
}

static int counters_read(struct lane *lane, coll_counters_t *sum)
{
	int last;
	const int first = counters_rows(sum->kind, &last);

	if (first < 0)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_get_counters: out->kind is %d, which is neither COLL_KIND_* "
				 "nor COLL_COUNT_*",
				 sum->kind);
	if (sum->rank < 0 || sum->rank >= lane->comm->nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_get_counters: out->rank is %d, but the communicator has "
				 "ranks 0 to %d",
				 sum->rank, lane->comm->nranks - 1);
	if (!lane->counts)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "coll_get_counters: nothing is counted: set the option counters = "
				 "yes (COLL_COUNTERS=yes) before the communicator is made");
	counters_add_lane(sum, lane, first, last);
	return COLL_SUCCESS;
}

/* Adds the counters of the host lane too, if there is one. */
static int counters_read_all(struct lane *lane, coll_counters_t *sum)
{
	struct lane *host = lane_lock_other(lane);
	int code = counters_read(lane, sum);

	if (host && !code)
		code = counters_read(host, sum);
	if (host)
		lane_unlock_other(host);
	return code;
}

coll_result_t coll_get_counters(coll_comm_t comm, coll_counters_t *out)
{
	const size_t least = offsetof(coll_counters_t, calls);
	coll_counters_t sum = {.size = sizeof(sum)};
	struct lane *lane;
	uint64_t size;
	int code;

	if (!out || out->size < least)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_get_counters: out is NULL, or out->size is not set to "
				 "sizeof(coll_counters_t)");
	size = out->size < sizeof(sum) ? out->size : sizeof(sum);
	sum.kind = out->kind;
	if (size >= offsetof(coll_counters_t, last_waits))
		sum.rank = out->rank;
	lane = comm_enter(comm, "coll_get_counters");
	if (!lane)
		return error_code();
	code = counters_read_all(lane, &sum);
	comm_leave(lane);
	if (code)
		return code;
	sum.size = out->size;
	memcpy(out, &sum, size);
	return COLL_SUCCESS;
}
