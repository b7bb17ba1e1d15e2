/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts.h - the counters of a lane (page/page.h has their layout), with the option `counters`.  lane->counts is NULL without
 * the option, and a call then pays one test when it is issued and one when it ends.
 *
 * The times are by the processor's time stamp counter, if the kernel takes that for its own clock: reading it twice a call costs
 * half as much as CLOCK_MONOTONIC.  The lock is held in all functions.
 */
#ifndef CORE_COMM_COUNTS_H
#define CORE_COMM_COUNTS_H

#include "base/stamp.h"
#include "comm/comm.h"
#include "page/page.h"

struct op;

/* The parts of lane->counts that only this rank needs. */
struct counts_own {
	uint64_t stamp[LOG_RECORDS]; /* operation `number` was issued at number % LOG_RECORDS */
	struct page_counts
		*heap; /* for a lane without a slot; NULL: the counters are in the slot */
};

/* A part of the lane (struct comm_part), after the part that takes the slot. */
int counts_begin(struct lane *lane);
void counts_free(struct lane *lane);

/* Operation lane->issued is issued.  *stamp: becomes the time of issue, as its stamp in counts_own does. */
void counts_issued(struct lane *lane, const struct record *record, uint64_t *stamp);
/* It has ended. */
void counts_ended(struct lane *lane, int kind, uint64_t stamp);
/* The operations after number `before` up to lane->finished, which were issued with their stamps in counts_own, have ended. */
void counts_ended_all(struct lane *lane, uint64_t before);
/* A message outside the order has ended, which was issued at issued_us by context_now. */
void counts_message(struct lane *lane, const struct record *message);
/* A thread has waited since the stamp for operation `number`, or for something else: 0. */
void counts_waited(struct lane *lane, uint64_t number, uint64_t stamp);
/* Copies what the endpoint counts, for readers of the page. */
void counts_refresh(struct lane *lane);

#endif
