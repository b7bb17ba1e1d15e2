/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - a communicator's operations in their order: their start, their progress, their end. */
#include "comm/queue.h"
#include "base/error.h"
#include "comm/call_log.h"
#include "comm/engines.h"
#include "comm/moving.h"
#include "comm/task.h"

/* A call looks at so many operations of comm->queue.in_turn that do not move, the next call at the next ones. */
enum { QUEUE_LOOKS = 16 };

/* ------------------------------------------------------------------- the queue -- */

/* May `op` run beside the oldest operation because both are of one group? */
static int queue_in_group(const struct comm *comm, const struct op *op)
{
	return op->group && op->group == comm->queue.head->group;
}

/*
 * What the engine of the call cannot do is composed, as soon as the operation may start beside the operations before it: the
 * transport does not wait for the backend's stream.
 */
static enum engine_start queue_start_declined(struct op *op)
{
	op->engine = op->comm->engine[ENGINE_COMPOSED];
	if (op != op->comm->queue.head && !queue_in_group(op->comm, op))
		return ENGINE_HELD;
	return op->engine->start(op);
}

/* 1: it has started, or the communicator has failed. */
static int queue_start(struct op *op)
{
	enum engine_start code = op->engine->start(op);

	if (code == ENGINE_DECLINED)
		code = queue_start_declined(op);
	return code == ENGINE_STARTED;
}

/*
 * The operations of a group run beside each other, also beside the barriers that op_enqueue has put between
 * them.  A collective waits until the one that is TAG_SEQ_APART before it has ended, so that the barriers
 * do their work.
 */
static int queue_is_ahead(struct comm *comm, const struct op *op)
{
	struct op *oldest = comm->queue.head;

	if (op->number - oldest->number < TAG_SEQ_APART || !op->collective)
		return 0;
	if (comm->queue.collective && comm->queue.collective_number > oldest->number)
		oldest = comm->queue.collective;
	while (oldest != op && (oldest->state == OP_DONE || !oldest->collective))
		oldest = oldest->next;
	comm->queue.collective = oldest;
	comm->queue.collective_number = oldest->number;
	return op->seq - oldest->seq >= TAG_SEQ_APART;
}

/* May `op` run beside the operations before it? */
static int queue_may_start(struct comm *comm, const struct op *op)
{
	if (op->state != OP_QUEUED)
		return 0;
	if (op == comm->queue.head)
		return op->engine->keeps_order || !engines_busy(comm);
	if (queue_in_group(comm, op))
		return !comm->context->plugin->backend.transport || !queue_is_ahead(comm, op);
	return op->engine->keeps_order && op->engine == comm->queue.head->engine;
}

/* Takes complete and submitted operations from the head, up to the first that is neither. */
static void queue_pop_done(struct comm *comm)
{
	while (comm->queue.head && comm->queue.head->state >= OP_SUBMITTED && !comm->error)
		queue_pop(comm->queue.head);
	task_check(comm);
}

int queue_progress(struct comm *comm)
{
	int moved;

	if (comm->error)
		return 0;
	/* Before the limits: what a backend has completed by itself is not late. */
	moved = engines_progress(comm);
	queue_pop_done(comm);
	if (!comm->error)
		moved |= task_check_limits(comm);
	if (comm->error || (comm->order && comm->client->watch(comm)))
		return moved;
	return moved | queue_run(comm);
}

/* Looks at the operations of the list, at most at `looks` that do not move: 1 if any moved. */
static int queue_look(struct comm *comm, struct op_list *list, int looks)
{
	struct op *op;
	int moved = 0, one;

	for (int n = list->count; n > 0 && looks > 0 && !comm->error; n--) {
		op = moving_take(list);
		if (!op)
			break;
		if (op == comm->queue.head)
			continue;
		one = op->engine->advance(op);
		if (op->state == OP_RUNNING)
			moving_after_look(op);
		looks -= !one;
		moved |= one;
	}
	return moved;
}

static int queue_look_at_head(struct op *op)
{
	return op && op->state == OP_RUNNING && op->engine->advance && op->engine->advance(op);
}

/* Looks at the running operations that may move. */
static int queue_look_at_running(struct comm *comm, int looks)
{
	int moved = queue_look_at_head(comm->queue.head);

	if (!comm->error)
		moved |= queue_look(comm, &comm->queue.in_turn, looks);
	while (comm->queue.woken.first && !comm->error)
		moved |= queue_look(comm, &comm->queue.woken, comm->queue.woken.count);
	return moved;
}

/* Starts the operations whose turn has come, in their order. */
static int queue_start_waiting(struct comm *comm)
{
	int moved = 0;
	struct op *op;

	while (!comm->error && (op = comm->queue.waiting) && queue_may_start(comm, op) &&
	       !((op->stream_events || op->dependencies) && comm->client->depends(op))) {
		if (!queue_start(op))
			break;
		moved = 1;
		if (comm->error)
			break;
		comm->queue.waiting = op->next;
		if (op->state == OP_RUNNING && op->engine->advance) {
			op->engine->advance(op);
			if (op->state == OP_RUNNING && op != comm->queue.head)
				moving_after_look(op);
		}
		queue_pop_done(comm);
	}
	return moved;
}

int queue_run(struct comm *comm)
{
	int moved;

	if (comm->error)
		return 0;
	moved = queue_look_at_running(comm, QUEUE_LOOKS);
	queue_pop_done(comm);
	moved |= queue_start_waiting(comm);
	if (comm->nleft && comm->queue.head && (comm->queue.left_awaited || comm->log->hash)) {
		comm->queue.left_awaited = 0;
		comm->client->check_left(comm);
	}
	return moved;
}

int queue_look_at_all(struct comm *comm)
{
	return comm->queue.in_turn.count > QUEUE_LOOKS && !comm->error &&
	       queue_look(comm, &comm->queue.in_turn, comm->queue.in_turn.count);
}

/* ---------------------------------------------------------------------- issuing -- */

/* Appends an operation that waits for its turn, and before that for the end of its group or the work of its stream. */
static void queue_append_waiting(struct op *op, uint64_t group)
{
	struct queue *queue = &op->comm->queue;

	queue_append(op, group, group || op->ordered ? OP_DEFERRED : OP_QUEUED);
	op->logged->issued_us = context_now(op->comm->context);
	if (op->collective)
		call_log_add_call(op->comm, &op->call.signature);
	if (!queue->waiting)
		queue->waiting = op;
	if (op->state == OP_DEFERRED && !queue->held)
		queue->held = op;
}

static void queue_append_barrier(struct comm *comm, uint64_t group)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	const struct call call = call_of_library(comm, &args);
	struct rank_name name;
	struct op *op;
	int code = op_make(comm, &call, &op);

	if (code)
		comm_fail(comm, 0, code, "%s: %s", comm_own_name(comm, &name), error_text());
	else
		queue_append_waiting(op, group);
}

uint64_t op_enqueue(struct op *op, uint64_t group)
{
	struct comm *comm = op->comm;
	uint64_t number;

	if (queue_needs_barrier(comm, op))
		queue_append_barrier(comm, group);
	queue_append_waiting(op, group);
	number = op->number;
	if (op->ordered)
		comm->client->hold(op);
	return number;
}

int op_issue(struct comm *comm, const coll_args_t *args, uint64_t group)
{
	const struct call call = call_of_library(comm, args);
	struct op *op;
	int code = op_make(comm, &call, &op);

	if (!code)
		op_enqueue(op, group);
	return code;
}

void queue_issued(struct comm *comm)
{
	struct context *context = comm->context;
	const int has_transport = context->plugin->backend.transport != NULL;

	context->progress_count += (has_transport ? queue_progress(comm) : queue_run(comm)) != 0;
	if (has_transport) {
		context_flush(context);
		context_progress(context);
	}
	/* Sleeping threads must arm their descriptors anew; a backend's operations need no thread. */
	if (context->sleepers && (comm->queue.head || has_transport))
		context_wake(context);
}

/* ------------------------------------------------------------------ cancelling -- */

void queue_cancel(struct comm *comm)
{
	engines_abort(comm);
	for (struct op *op = comm->queue.head; op; op = op->next) {
		if (op->state == OP_RUNNING && op->engine->cancel)
			op->engine->cancel(op);
		if (op->stream_events || op->dependencies)
			comm->client->drop(op);
		op->state = OP_DONE;
		moving_leave(op);
	}
	comm->queue.waiting = comm->queue.held = NULL;
	if (comm->order)
		comm->client->release(comm, comm->issued);
}
