/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - a communicator's operations in their order: their start, their progress, their end. */
#include "comm/queue.h"
#include "comm/call_log.h"
#include "comm/moving.h"
#include "comm/task.h"

/* A call looks at so many operations of comm->in_turn that do not move, the next call at the next ones. */
enum { QUEUE_LOOKS = 16 };

/* ------------------------------------------------------------------- the queue -- */

/* May `op` run beside the oldest operation because both are of one group? */
static int queue_in_group(const struct comm *comm, const struct op *op)
{
	return op->group && op->group == comm->queue.head->group;
}

/*
 * What the engine of the call cannot do is composed, as soon as the operation may start beside those before it: the
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

	if (op->number - oldest->number < TAG_SEQ_APART || !kind_is_collective(op->call.args.kind))
		return 0;
	if (comm->queue.collective && comm->queue.collective_number > oldest->number)
		oldest = comm->queue.collective;
	while (oldest != op &&
	       (oldest->state == OP_DONE || !kind_is_collective(oldest->call.args.kind)))
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
		return op->engine->keeps_order || !comm_backend_busy(comm);
	if (queue_in_group(comm, op))
		return !comm->context->plugin->backend.transport || !queue_is_ahead(comm, op);
	return op->engine->keeps_order && op->engine == comm->queue.head->engine;
}

/* Takes the oldest operation, which is complete or submitted, out of the queue. */
static void queue_pop(struct comm *comm, struct op *op)
{
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

/* Takes complete and submitted operations from the head, up to the first that is neither. */
static void queue_pop_done(struct comm *comm)
{
	while (comm->queue.head && comm->queue.head->state >= OP_SUBMITTED && !comm->error)
		queue_pop(comm, comm->queue.head);
	task_check(comm);
}

/* The only operation of the communicator, if an engine moves it and nothing else is to be looked at; else NULL. */
static struct op *queue_only(const struct comm *comm)
{
	struct op *op = comm->queue.head;

	return op && !op->next && op->state == OP_RUNNING && op->engine->advance && !comm->error &&
			       !comm->nleft && !comm->tasks.limited && !comm->order
		       ? op
		       : NULL;
}

/* Takes what the backend has completed. */
static int queue_progress_native(struct comm *comm)
{
	const struct engine *native = comm->engine[ENGINE_NATIVE];
	int moved;

	if (!native)
		return 0;
	moved = native->progress(comm);
	queue_pop_done(comm);
	return moved;
}

int queue_progress(struct comm *comm)
{
	struct op *only = queue_only(comm);
	int moved;

	if (comm->error)
		return 0;
	if (only) {
		moved = only->engine->advance(only);
		if (only->state == OP_DONE)
			queue_pop_done(comm);
		return moved;
	}
	/* Before the limits: what a backend's own engine has completed is not late. */
	moved = queue_progress_native(comm);
	if (!comm->error)
		moved |= task_check_limits(comm);
	if (comm->error || (comm->order && comm->client->watch(comm)))
		return moved;
	return moved | queue_run(comm);
}

/* Looks at those of the list, at most at `looks` that do not move: 1 if any moved. */
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

/* Starts a plain operation before which there is none: QUEUE_WAITS if only messages move it on, 0 if there is none. */
enum { QUEUE_WAITS = 1, QUEUE_MOVES };
static int queue_start_only(struct comm *comm)
{
	struct op *op = comm->queue.head;

	if (!op || op->next || op->state != OP_QUEUED || !op->engine->by_messages || comm->error ||
	    comm->nleft || op->stream_events || op->dependencies || !queue_start(op))
		return 0;
	comm->queue.waiting = NULL;
	return !comm->error && op->engine->rests(op) ? QUEUE_WAITS : QUEUE_MOVES;
}

void queue_issued(struct comm *comm)
{
	struct context *context = comm->context;
	int started, moved = 0;

	if (!context->plugin->backend.transport) {
		context->progress_count += queue_run(comm) != 0;
	} else {
		started = queue_start_only(comm);
		if (started != QUEUE_WAITS)
			moved = queue_progress(comm);
		context->progress_count += started || moved;
		context_flush(context);
		context_progress(context);
	}
	/* Sleeping threads must arm their descriptors anew; a backend's operations need no thread. */
	if (context->sleepers && (comm->queue.head || context->plugin->backend.transport))
		context_wake(context);
}

/* ------------------------------------------------------------------ cancelling -- */

void queue_cancel(struct comm *comm)
{
	const struct engine *native = comm->engine[ENGINE_NATIVE];

	if (native)
		native->abort(comm);
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
