/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.h - the counters of a lane (page/page.h has their layout), with the option `counters`.  lane->counts is NULL without
 * the option, and a call then pays one test when it is issued and one when it ends.
 *
 * The times are by the processor's time stamp counter, if the kernel takes that counter for its own clock: reading the counter
 * twice a call costs half as much as CLOCK_MONOTONIC.  The lock is held in all functions.
 */
#ifndef CORE_COMM_COUNTS_H
#define CORE_COMM_COUNTS_H

#include "base/stamp.h"
#include "comm/comm.h"
#include "page/page.h"

struct op;

/* The parts of lane->counts that only this rank needs. */
struct counts_own {
	uint64_t stamp[LOG_RECORDS];    /* operation `number` was issued at number % LOG_RECORDS */
	int32_t last_peer[LOG_RECORDS]; /* of an operation that has ended: as op->last_peer */
	struct page_counts
		*heap; /* for a lane without a slot; NULL: the counters are in the slot */
};

/* A part of the lane (struct comm_part), after the part that takes the slot. */
int counts_begin(struct lane *lane);
void counts_free(struct lane *lane);

/* Operation lane->issued is issued.  *stamp: becomes the time of issue, as its stamp in counts_own does. */
void counts_issued(struct lane *lane, const struct record *record, uint64_t *stamp);
/* Operation lane->finished, of this kind, which was issued at the stamp, has ended.  last_peer: as op->last_peer. */
void counts_ended(struct lane *lane, int kind, uint64_t stamp, int32_t last_peer);
/* The operations after number `before` up to lane->finished, which were issued with their stamps in counts_own, have ended. */
void counts_ended_all(struct lane *lane, uint64_t before);
/* The row of a message outside the order. */
static inline int counts_message_row(int kind)
{
	return kind == COLL_KIND_SEND ? PAGE_ISEND : PAGE_IRECV;
}
/* A message outside the order, which was issued at the stamp, has ended. */
void counts_message(struct lane *lane, const struct record *message, uint64_t stamp);
/* The counters of a rank of the communicator, or NULL: there are none of ranks from PAGE_RANKS on. */
static inline struct page_peer *counts_peer(struct lane *lane, int rank)
{
	return rank < PAGE_RANKS ? &lane->counts->peer[rank] : NULL;
}
/* A thread has waited since the stamp for operation `number`; number 0: for a message of the row; both 0: for neither. */
void counts_waited(struct lane *lane, uint64_t number, int row, uint64_t stamp);
/* Copies the endpoint's counts of unexpected messages into lane->counts.  counts_waited calls it too. */
void counts_refresh(struct lane *lane);

#endif
