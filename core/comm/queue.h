/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the operations of a communicator in their order. */
#ifndef CORE_COMM_QUEUE_H
#define CORE_COMM_QUEUE_H

#include "comm/op.h"

/* The context's lock is held in all of these. */

/* Moves the operations of the communicator: 1 if any moved. */
int queue_progress(struct comm *comm);
/* The same, but does not poll a backend for operations it does whole. */
int queue_run(struct comm *comm);
/* Before a thread sleeps: looks at the operations that queue_progress may not have looked at: 1 if any moved. */
int queue_look_at_all(struct comm *comm);
/* After operations were enqueued: starts the operations whose turn has come, and moves the context. */
void queue_issued(struct comm *comm);
/* Appends an idle operation, which becomes one in this state; the log does not have its time and its signature yet. */
static inline void queue_append(struct op *op, uint64_t group, int state)
{
	struct comm *comm = op->comm;

	op->next = NULL;
	op->number = comm_count(comm);
	op->group = group;
	op->engine = comm->engine[op->call.engine];
	op->state = state;
	op->logged = call_log_place(comm, op->number);
	*op->logged = op->record;
	if (op->collective)
		op->seq = op->logged->seq_or_tag = comm->seq++;
	if (comm->queue.tail)
		comm->queue.tail->next = op;
	else
		comm->queue.head = op;
	comm->queue.tail = op;
}
/* Without barriers a root that never waits could get any number of broadcasts ahead of the other ranks. */
static inline int queue_needs_barrier(const struct comm *comm, const struct op *op)
{
	return comm->seq % TAG_SEQ_APART == 0 && comm->seq && op->collective &&
	       comm->context->plugin->backend.transport;
}

/* Takes the oldest operation, which is complete or submitted, out of the queue. */
static inline void queue_pop(struct op *op)
{
	struct comm *comm = op->comm;

	comm->queue.head = op->next;
	if (!comm->queue.head)
		comm->queue.tail = NULL;
	if (op->state == OP_DONE) {
		comm->finished = op->number;
		if (comm->order)
			comm->client->release(comm, op->number);
		comm->context->sleepers_have_news = 1;
	}
	op_retire(op);
}
/* Ends every operation of the communicator. */
void queue_cancel(struct comm *comm);

#endif
