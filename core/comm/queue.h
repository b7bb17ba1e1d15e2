/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the operations of a lane in their order. */
#ifndef CORE_COMM_QUEUE_H
#define CORE_COMM_QUEUE_H

#include "comm/op.h"

/* The context's lock is held in all of these. */

/* Moves the operations of the lane.  Returns 1 if any moved. */
int queue_progress(struct lane *lane);
/* The same, but does not poll a backend for operations it does whole. */
int queue_run(struct lane *lane);
/* Before a thread sleeps: looks at the operations that queue_progress may not have looked at.  Returns 1 if any moved. */
int queue_look_at_all(struct lane *lane);
/* After operations were enqueued: starts the operations whose turn has come, and moves the context. */
void queue_issued(struct lane *lane);
/*
 * Appends an idle operation in this state.  The caller then notes the time of issue in the log, and compares a
 * collective with the messages that came for it (comm_client.issued).
 */
static inline void queue_append(struct op *op, uint64_t group, int state)
{
	struct lane *lane = op->lane;

	lane_set_busy(lane);
	op->next = NULL;
	op->logged = call_log_next(lane);
	op->number = lane->issued;
	op->group = group;
	op->engine = lane->engine[op->call.engine];
	op->state = state;
	*op->logged = op->record;
	if (__builtin_expect(lane->counts != NULL, 0)) {
		counts_issued(lane, &op->record, &op->counted);
		op->last_peer = -1;
	}
	if (op->collective) {
		op->seq = op->logged->seq_or_tag = lane->seq++;
		lane->seen->collectives++;
		*call_log_newest_call(lane) = op->call.signature;
	}
	if (lane->queue.tail)
		lane->queue.tail->next = op;
	else
		lane->queue.head = op;
	lane->queue.tail = op;
}
/*
 * Is a barrier due before the operation?  Without barriers a root that never waits could get any number of broadcasts
 * ahead of the other ranks.
 */
static inline int queue_needs_barrier(const struct lane *lane, const struct op *op)
{
	return lane->seq % TAG_SEQ_APART == 0 && lane->seq && op->collective &&
	       lane->context->plugin->backend.transport;
}

/* Takes the oldest operation, which is complete or submitted, out of the queue. */
static inline void queue_pop(struct op *op)
{
	struct lane *lane = op->lane;

	lane->queue.head = op->next;
	if (!lane->queue.head)
		lane->queue.tail = NULL;
	if (op->state == OP_DONE) {
		lane->finished = op->number;
		if (__builtin_expect(lane->counts != NULL, 0))
			counts_ended(lane, op->record.kind, op->counted, op->last_peer);
		if (lane->order)
			lane->client->release(lane, op->number);
		lane->context->sleepers_have_news = 1;
	}
	op_retire(op);
}
/* Returns the oldest collective before `op`, the next operation to start, that is not complete; or `op`. */
const struct op *queue_oldest_collective(struct lane *lane, const struct op *op);
/* Ends every operation of the lane. */
void queue_cancel(struct lane *lane);

#endif
