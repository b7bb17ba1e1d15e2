/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observed.h - tells the observers of a communicator (observe/observe.h) of its events.
 *
 * LANE_OBSERVED is the whole price of an event that nobody wants: one test of lane->observed.  Callers make this test before they
 * tell of an event, and hold the lock.  The functions below stand apart from the code of the calls, and read the clock.
 *
 * The observers are told of a call in three places: when it is issued (queue.c; composed.c and native_submit.c for calls without a
 * queue), when its engine begins it, and when it ends: by op_end, by native_progress for calls that have left the queue,
 * or by queue_cancel.
 */
#ifndef CORE_COMM_OBSERVED_H
#define CORE_COMM_OBSERVED_H

#include "comm/comm.h"

struct op;

#define OBSERVED_APART __attribute__((noinline))

/* Does an observer want one of these events, COLL_OBSERVE_* bits?  A macro, since each small call asks several times. */
#define LANE_OBSERVED(lane, what) __builtin_expect(((lane)->observed & (what)) != 0, 0)

/*
 * Fills in the fields that all events have.  A caller in a folder right of here fills in the other fields, and observed_tell
 * passes the event on.
 */
OBSERVED_APART void observed_event(coll_observed_t *event, const struct lane *lane, uint32_t what,
				   int phase);
OBSERVED_APART void observed_tell(const struct lane *lane, const coll_observed_t *event);

/* The communicator has a handle now. */
OBSERVED_APART void observed_comm_made(struct comm *comm);
/* The communicator is freed next. */
OBSERVED_APART void observed_comm_ends(struct comm *comm);
void observed_comm_free(struct comm *comm);
/* The number of the communicator for observers, or 0. */
uint64_t observed_number(const struct comm *comm);
/* The communicator has failed. */
OBSERVED_APART void observed_failure(struct lane *lane);

/* A phase COLL_OBSERVED_* of an operation with a number.  code: of COLL_OBSERVED_END. */
OBSERVED_APART void observed_op(struct op *op, int phase, int code);
/* An operation is issued, and begins at the same time if its plan is whole. */
OBSERVED_APART void observed_op_at_once(struct op *op);
/* An operation that the library composes has ended well, with its last step if it has any. */
OBSERVED_APART void observed_op_done(struct op *op);
/* The newest call of a native lane, which has no operation, is issued and begins.  seq: of a collective its number. */
OBSERVED_APART void observed_native_call(struct lane *lane, const struct call *call, uint32_t seq);
/* The queue hands an operation, which begins now, to a backend without a transport. */
OBSERVED_APART void observed_native_op(struct op *op);
/* A backend without a transport has ended the operations after number `before` up to `last`. */
OBSERVED_APART void observed_native_end(struct lane *lane, uint64_t before, uint64_t last,
					int code);

/* A step of an operation begins or ends.  A step that stages a buffer is a COPY. */
OBSERVED_APART void observed_step(const struct op *op, int step, int phase);
/*
 * A short step begins.  A short step after one that has ended at once begins at the time of that END, and the first one at the
 * time of the call's BEGIN.
 */
OBSERVED_APART void observed_short_step(const struct op *op, int step);
/* All short steps of the operation have begun that could.  A step that has ended while it began has taken no time. */
OBSERVED_APART void observed_short_steps_begun(const struct op *op);

/* A thread of the program waits, for operation `number` unless that is 0.  *since: when it began. */
OBSERVED_APART void observed_wait(const struct lane *lane, uint64_t number, int phase,
				  int64_t *since);

#endif
