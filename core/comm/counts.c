/* SPDX-License-Identifier: BSD-3-Clause */
/* counts.c - the counters of a lane: see counts.h. */
#include "comm/counts.h"
#include "base/dtype.h"
#include "base/error.h"
#include "comm/call_log.h"
#include "comm/op.h"
#include "page/page_file.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------- life -- */

int counts_begin(struct lane *lane)
{
	const struct context *first = context_first(lane->context);
	int in_slot;

	if (!first->config || !config_int(first->config, "counters"))
		return COLL_SUCCESS;
	stamp_begin();
	lane->counts_own = calloc(1, sizeof(*lane->counts_own));
	if (!lane->counts_own)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for counters");
	in_slot = lane->slot && !page_add_part(lane->page, lane->slot, PAGE_PART_COUNTS);
	if (!in_slot)
		lane->counts_own->heap = calloc(1, sizeof(*lane->counts_own->heap));
	lane->counts = in_slot ? &lane->slot->counts : lane->counts_own->heap;
	return lane->counts ? COLL_SUCCESS
			    : error_set(COLL_ERR_NO_MEMORY, "no memory for counters");
}

void counts_free(struct lane *lane)
{
	if (lane->counts_own)
		free(lane->counts_own->heap);
	free(lane->counts_own);
	lane->counts_own = NULL;
	lane->counts = NULL;
}

/* ---------------------------------------------------------------------------- calls -- */

/* The row of an operation; 0: it is no call of the program.  Any byte may be in a record that lies in the page. */
static int counts_row(int kind)
{
	return kind_is_valid(kind) ? kind : 0;
}

static void counts_add(struct page_counts *counts, int row, const struct record *record)
{
	counts->kind[row].calls++;
	counts->kind[row].bytes += record->count * coll_dtype_size(signature_dtype(record->meta));
}

void counts_issued(struct lane *lane, const struct record *record, uint64_t *stamp)
{
	const int row = counts_row(record->kind);

	if (row)
		counts_add(lane->counts, row, record);
	*stamp = lane->counts_own->stamp[lane->issued % LOG_RECORDS] = stamp_now();
}

static void counts_add_latency(struct lane *lane, int row, uint64_t ns)
{
	struct page_kind *kind = &lane->counts->kind[row];
	/* The number of bits of ns / 2^PAGE_BUCKET_FIRST. */
	const uint64_t units = ns >> PAGE_BUCKET_FIRST;
	const int bits = units ? 64 - __builtin_clzll(units) : 0;

	kind->ended++;
	kind->latency_ns += ns;
	kind->bucket[bits < PAGE_BUCKETS ? bits : PAGE_BUCKETS - 1]++;
}

void counts_ended(struct lane *lane, int kind, uint64_t stamp, int32_t last_peer)
{
	const int row = counts_row(kind);

	lane->counts_own->last_peer[lane->finished % LOG_RECORDS] = last_peer;
	if (row)
		counts_add_latency(lane, row, stamp_ns(stamp, stamp_now()));
}

void counts_ended_all(struct lane *lane, uint64_t before)
{
	const uint64_t now = stamp_now();
	int row;

	if (before < call_log_before(lane))
		before = call_log_before(lane);
	while (before++ < lane->finished) {
		row = counts_row(call_log_slot(lane, before)->kind);
		lane->counts_own->last_peer[before % LOG_RECORDS] = -1;
		if (row)
			counts_add_latency(
				lane, row,
				stamp_ns(lane->counts_own->stamp[before % LOG_RECORDS], now));
	}
}

void counts_message(struct lane *lane, const struct record *message, uint64_t stamp)
{
	const int row = counts_message_row(message->kind);

	counts_add(lane->counts, row, message);
	counts_add_latency(lane, row, stamp_ns(stamp, stamp_now()));
}

/* The wait for an operation is over, of which the log has the record. */
static void counts_add_last(struct lane *lane, uint64_t number, uint64_t ns)
{
	const int32_t rank = lane->counts_own->last_peer[number % LOG_RECORDS];
	struct page_peer *peer =
		rank < 0 || lane->finished < number ? NULL : counts_peer(lane, rank);

	if (!peer)
		return;
	peer->last_waits++;
	peer->last_ns += ns;
}

void counts_waited(struct lane *lane, uint64_t number, int row, uint64_t stamp)
{
	const struct record *op = call_log_record(lane, number);
	const uint64_t ns = stamp_ns(stamp, stamp_now());

	lane->counts->kind[op ? counts_row(op->kind) : row].waited_ns += ns;
	if (op)
		counts_add_last(lane, number, ns);
	counts_refresh(lane);
}

void counts_refresh(struct lane *lane)
{
	if (!lane->counts || !lane->traffic)
		return;
	lane->counts->unexpected = lane->traffic->match.unexpected_ever;
	lane->counts->unexpected_bytes = lane->traffic->match.unexpected_bytes;
	lane->counts->unexpected_now = lane->traffic->match.unexpected_count;
	lane->counts->unexpected_memory = lane->traffic->match.held;
	lane->counts->unexpected_memory_most = lane->traffic->match.held_most;
}
