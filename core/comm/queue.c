/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - a communicator's operations in their order: their start, their progress, their end. */
#include "comm/queue.h"
#include "base/error.h"
#include "comm/call_log.h"
#include "comm/engines.h"
#include "comm/moving.h"
#include "comm/task.h"

/*
 * queue_run looks at so many operations of lane->queue.in_turn that do not move, and the next queue_run at the
 * operations behind them.
 */
enum { QUEUE_LOOKS = 16 };

/* ------------------------------------------------------------------- the queue -- */

/* May `op` run beside the oldest operation because both are of one group? */
static int queue_in_group(const struct lane *lane, const struct op *op)
{
	return op->group && op->group == lane->queue.head->group;
}

/*
 * What the engine of the call cannot do is composed, as soon as the operation may start beside the operations before it: the
 * transport does not wait for the backend's stream.
 */
static enum engine_start queue_start_declined(struct op *op)
{
	op->engine = op->lane->engine[ENGINE_COMPOSED];
	if (op != op->lane->queue.head && !queue_in_group(op->lane, op))
		return ENGINE_BLOCKED;
	return op->engine->start(op);
}

/* Returns 1 if the operation has started, or the communicator has failed. */
static int queue_start(struct op *op)
{
	enum engine_start code = op->engine->start(op);

	if (code == ENGINE_DECLINED)
		code = queue_start_declined(op);
	return code == ENGINE_STARTED;
}

const struct op *queue_oldest_collective(struct lane *lane, const struct op *op)
{
	struct op *oldest = lane->queue.head;

	if (lane->queue.collective && lane->queue.collective_number > oldest->number)
		oldest = lane->queue.collective;
	while (oldest != op && (oldest->state == OP_DONE || !oldest->collective))
		oldest = oldest->next;
	lane->queue.collective = oldest;
	lane->queue.collective_number = oldest->number;
	return oldest;
}

/*
 * The operations of a group run beside each other, also beside the barriers that op_enqueue has put between them.  A
 * collective waits until the collective TAG_SEQ_APART before it has ended, so that the barriers do their work.
 */
static int queue_is_ahead(struct lane *lane, const struct op *op)
{
	if (op->number - lane->queue.head->number < TAG_SEQ_APART || !op->collective)
		return 0;
	return op->seq - queue_oldest_collective(lane, op)->seq >= TAG_SEQ_APART;
}

/* May `op` run beside the operations before it? */
static int queue_may_start(struct lane *lane, const struct op *op)
{
	if (op->state != OP_QUEUED)
		return 0;
	/* The backend may still have operations that have left the queue: only its own engine may start beside them. */
	if (op == lane->queue.head)
		return op->engine->keeps_order || !engines_busy(lane);
	if (queue_in_group(lane, op))
		return !lane->context->plugin->backend.transport || !queue_is_ahead(lane, op);
	return op->engine->keeps_order && op->engine == lane->queue.head->engine;
}

/* Takes complete and submitted operations from the head, up to the first that is neither. */
static void queue_pop_done(struct lane *lane)
{
	while (lane->queue.head && lane->queue.head->state >= OP_SUBMITTED && !lane->error)
		queue_pop(lane->queue.head);
	task_check(lane);
}

int queue_progress(struct lane *lane)
{
	int moved;

	if (lane->error)
		return 0;
	/* Before the limits of time: an operation that a backend has completed is not late. */
	moved = engines_progress(lane);
	queue_pop_done(lane);
	if (!lane->error)
		moved |= task_check_limits(lane);
	/* watch: a held stream of the program may have waited too long. */
	if (lane->error || (lane->order && lane->client->watch(lane)))
		return moved;
	return moved | queue_run(lane);
}

/* Looks at the operations of the list, at most at `looks` operations that do not move.  Returns 1 if any moved. */
static int queue_look(struct lane *lane, struct op_list *list, int looks)
{
	struct op *op;
	int moved = 0, one;

	for (int n = list->count; n > 0 && looks > 0 && !lane->error; n--) {
		op = moving_take(list);
		if (!op)
			break;
		if (op == lane->queue.head)
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
static int queue_look_at_running(struct lane *lane, int looks)
{
	int moved = queue_look_at_head(lane->queue.head);

	if (!lane->error)
		moved |= queue_look(lane, &lane->queue.in_turn, looks);
	while (lane->queue.woken.first && !lane->error)
		moved |= queue_look(lane, &lane->queue.woken, lane->queue.woken.count);
	return moved;
}

/* Starts the operations whose turn has come, in their order. */
static int queue_start_waiting(struct lane *lane)
{
	int moved = 0;
	struct op *op;

	while (!lane->error && (op = lane->queue.waiting) && queue_may_start(lane, op) &&
	       !((op->stream_events || op->dependencies) && lane->client->depends(op))) {
		if (!queue_start(op))
			break;
		moved = 1;
		if (lane->error)
			break;
		lane->queue.waiting = op->next;
		if (op->state == OP_RUNNING && op->engine->advance) {
			op->engine->advance(op);
			if (op->state == OP_RUNNING && op != lane->queue.head)
				moving_after_look(op);
		}
		queue_pop_done(lane);
	}
	return moved;
}

int queue_run(struct lane *lane)
{
	int moved;

	if (lane->error)
		return 0;
	moved = queue_look_at_running(lane, QUEUE_LOOKS);
	queue_pop_done(lane);
	moved |= queue_start_waiting(lane);
	if (lane->nleft && lane->queue.head && (lane->queue.left_awaited || lane->log->hash)) {
		lane->queue.left_awaited = 0;
		lane->client->check_left(lane);
	}
	return moved;
}

int queue_look_at_all(struct lane *lane)
{
	return lane->queue.in_turn.count > QUEUE_LOOKS && !lane->error &&
	       queue_look(lane, &lane->queue.in_turn, lane->queue.in_turn.count);
}

/* ---------------------------------------------------------------------- issuing -- */

/* Appends an operation that waits for its turn, and before that for the end of its group or the work of its stream. */
static void queue_append_waiting(struct op *op, uint64_t group)
{
	struct queue *queue = &op->lane->queue;

	queue_append(op, group, group || op->ordered ? OP_DEFERRED : OP_QUEUED);
	op->logged->issued_us = context_now(op->lane->context);
	if (LANE_OBSERVED(op->lane, COLL_OBSERVE_CALL))
		observed_op(op, COLL_OBSERVED_ISSUED, COLL_SUCCESS);
	if (op->collective)
		op->lane->client->issued(op->lane);
	else if (group)
		queue->message_number = op->number;
	if (!queue->waiting)
		queue->waiting = op;
	if (op->state == OP_DEFERRED && !queue->deferred)
		queue->deferred = op;
}

static void queue_append_barrier(struct lane *lane, uint64_t group)
{
	const coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_BARRIER};
	const struct call call = call_of_library(lane, &args);
	struct rank_name name;
	struct op *op;
	int code = op_make(lane, &call, &op);

	if (code)
		comm_fail(lane, 0, code, "%s: %s", comm_own_name(lane, &name), error_text());
	else
		queue_append_waiting(op, group);
}

uint64_t op_enqueue(struct op *op, uint64_t group)
{
	struct lane *lane = op->lane;
	uint64_t number;

	if (queue_needs_barrier(lane, op))
		queue_append_barrier(lane, group);
	queue_append_waiting(op, group);
	number = op->number;
	if (op->ordered)
		lane->client->hold(op);
	return number;
}

int op_issue(struct lane *lane, const coll_args_t *args, uint64_t group)
{
	const struct call call = call_of_library(lane, args);
	struct op *op;
	int code = op_make(lane, &call, &op);

	if (!code)
		op_enqueue(op, group);
	return code;
}

void queue_issued(struct lane *lane)
{
	struct context *context = lane->context;
	const int has_transport = context->plugin->backend.transport != NULL;

	context->progress_count += (has_transport ? queue_progress(lane) : queue_run(lane)) != 0;
	if (has_transport) {
		context_flush(context);
		context_progress(context);
	}
	/* Sleeping threads must arm their descriptors anew; a backend's operations need no thread. */
	if (context->sleepers && (lane->queue.head || has_transport))
		context_wake(context);
}

/* ------------------------------------------------------------------ cancelling -- */

/* Tells the observers that all open operations have ended, also the backend's operations, which have left the queue. */
static void queue_tell_ends(struct lane *lane)
{
	struct op *head = lane->queue.head;

	observed_native_end(lane, lane->finished, head ? head->number - 1 : lane->issued,
			    lane->error);
	for (struct op *op = head; op; op = op->next)
		if (op->state != OP_DONE)
			observed_op(op, COLL_OBSERVED_END, lane->error);
}

void queue_cancel(struct lane *lane)
{
	engines_abort(lane);
	if (LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
		queue_tell_ends(lane);
	for (struct op *op = lane->queue.head; op; op = op->next) {
		if (op->state == OP_RUNNING && op->engine->cancel)
			op->engine->cancel(op);
		if (op->stream_events || op->dependencies)
			lane->client->drop(op);
		op->state = OP_DONE;
		moving_leave(op);
	}
	lane->queue.waiting = lane->queue.deferred = NULL;
	if (lane->order)
		lane->client->release(lane, lane->issued);
}
