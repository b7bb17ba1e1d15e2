/* SPDX-License-Identifier: BSD-3-Clause */
/* again.c - the short way of small calls: see again.h. */
#include "compose/again.h"
#include "watch/report.h"
#include "compose/steps.h"
#include "transport/traffic.h"

/* Has the context nothing to look at but messages for this communicator? */
static inline int again_is_quiet(const struct comm *comm)
{
	const struct context *context = comm->context;
	const void *objects = (void *)((uintptr_t)comm->order | (uintptr_t)comm->tasks.limited |
				       (uintptr_t)comm->tasks.awaited | (uintptr_t)comm->native |
				       (uintptr_t)traffic_of(context)->controls);
	const int counts = comm->error | comm->nleft | comm->messages.looks | context->sleepers |
			   context->pending_events | traffic_of(context)->match.controls |
			   context->unflushed |
			   atomic_load_explicit(&context->alarm.news, memory_order_relaxed);

	return !objects && !counts && context->ep &&
	       (!context->busy || (context->busy == comm && !comm->next_busy));
}

/* The operation, which is the only one in the queue, is complete. */
static inline void again_end(struct context *context, struct comm *comm, struct op *op)
{
	comm->queue.head = comm->queue.tail = NULL;
	comm->finished = op->number;
	op->logged->ended_us = context->now_us;
	op_retire(op);
}

/* After the loss of a rank or a control message context_progress is due, which looks for the cause of a loss first. */
static inline int again_is_over(const struct context *context)
{
	return context->pending_events | traffic_of(context)->match.controls;
}

static inline int again_progress(struct context *context)
{
	return context->plugin->backend.transport->progress(context->ep);
}

/* Takes the messages that have come, and moves the operation. */
static inline int again_move(struct context *context, struct comm *comm, struct op *op)
{
	struct recv *recv;
	int moved = 0;

	while ((recv = match_next_done(&traffic_of(context)->match)))
		steps_received(recv);
	if (steps_may_move(op))
		moved = steps_run(op);
	if (!op->steps_left && !comm->error)
		again_end(context, comm, op);
	return moved;
}

/* An idle operation that was made for the same call and can run again as it is; else NULL. */
static inline struct op *again_find(struct comm *comm, const coll_args_t *args)
{
	struct op **at = &comm->queue.cache, *op;

	for (int n = 1; (op = *at) && n <= OP_CACHE_SIZE; n++, at = &op->next) {
		if (call_compare(&op->call, args) < CALL_SAME)
			continue;
		if (!steps_can_repeat(op))
			return NULL;
		if (comm->context
			    ->classify) /* there may be other memory at the same addresses now */
			return op_again(comm, args);
		*at = op->next;
		return op;
	}
	return NULL;
}

/* As op_append, for the only operation of the queue, which starts at once. */
static inline void again_append(struct context *context, struct comm *comm, struct op *op)
{
	op->next = NULL;
	op->number = comm_count(comm);
	op->group = 0;
	op->state = OP_RUNNING;
	op->record.issued_us = op->record.started_us = context->now_us;
	op->logged = call_log_place(comm, op->number);
	*op->logged = op->record;
	if (kind_is_collective(op->call.args.kind)) {
		op->seq = op->logged->seq_or_tag = comm->seq++;
		report_add_call(comm, &op->call.signature);
	}
	comm->queue.head = comm->queue.tail = op;
}

/* Once the first messages have left: another rank may wait for them, and a look at the clock takes 6 ns. */
static inline void again_date(struct context *context, struct op *op)
{
	op->logged->issued_us = op->logged->started_us = context_now(context);
}

int again_issue(struct comm *comm, const coll_args_t *args, const void *site)
{
	struct context *context = comm->context;
	struct op *op;

	if (comm->queue.head || !again_is_quiet(comm) || group_current() ||
	    op_needs_barrier(comm, args))
		return 0;
	op = again_find(comm, args);
	if (!op)
		return 0;
	op->site = site;
	again_append(context, comm, op);
	steps_again(op);
	again_date(context, op);
	again_progress(context);
	if (!again_is_over(context))
		again_move(context, comm, op);
	context->progress_count++;
	if (again_is_over(context))
		context_progress(context);
	return 1;
}

int again_poll(struct context *context)
{
	struct comm *comm = context->busy;
	struct op *op = comm ? comm->queue.head : NULL;
	int moved;

	if (!op || op->next || op->state != OP_RUNNING || !op->repeats || !again_is_quiet(comm))
		return 0;
	moved = again_progress(context);
	/* Without context_progress, the answer to a control message would wait for the end of a sleep. */
	if (again_is_over(context))
		return 0;
	if (!(moved | op->sending_count) && !traffic_of(context)->match.done)
		return 1;
	moved |= again_move(context, comm, op);
	context->progress_count += moved != 0;
	return 1;
}
