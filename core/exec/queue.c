/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - a communicator's operations in their order: their start, their progress, their end. */
#include "exec/queue.h"
#include "exec/callback.h"
#include "exec/stall.h"
#include "exec/dispatch.h"
#include "exec/engine.h"
#include "exec/limit.h"
#include "exec/moving.h"
#include "exec/native.h"
#include "exec/stream_order.h"
#include "base/error.h"

/* A call looks at so many operations of comm->in_turn that do not move, the next call at the next ones. */
enum { QUEUE_LOOKS = 16 };

static void queue_begin(struct op *op)
{
	op->state = OP_RUNNING;
	op->record.started_us = context_now(op->comm->context);
}

static void queue_end(struct op *op)
{
	op->state = OP_DONE;
	/* The time of the last reading: short operations would feel one more. */
	op->record.ended_us = op->comm->context->now_us;
}

/* --------------------------------------------------------- native operations -- */

/* 0: the backend declines the operation, but its transport can do it. */
static int queue_try_native(struct op *op, native_fn slot, const coll_args_t *args)
{
	coll_error_t err = error_blank();
	int code = slot(op->comm->context->ep, args, &err);

	op->declined = code == COLL_ERR_UNSUPPORTED;
	if (op->declined)
		return 0;
	if (code)
		native_fail(op->comm, code, &err);
	op->native = !code;
	if (!code)
		queue_begin(op);
	return 1;
}

static int queue_start_native(struct op *op, native_fn slot)
{
	coll_args_t args = op->call.args;

	if (op->call.redop.made)
		args.op = op->call.redop.native;
	if (!op->comm->native) {
		args.stream = NULL; /* the queue keeps the order with the stream */
		return queue_try_native(op, slot, &args);
	}
	if (native_submit(op->comm, op->number, slot, &args)) {
		op->state = OP_SUBMITTED;
		op->record.started_us = context_now(op->comm->context);
	}
	return 1;
}

/*
 * Operations that a backend with a transport does by its own functions are complete when the backend's
 * stream has passed the last of them.
 */
static void queue_poll_native(struct comm *comm)
{
	const coll_native_t *native = comm_native(comm);
	coll_error_t err = error_blank();
	int code = native->query(comm->context->ep, &err);

	if (code == COLL_IN_PROGRESS)
		code = native->async_error ? native->async_error(comm->context->ep, &err) : 0;
	else
		for (struct op *op = comm->head;
		     !code && op && op->state == OP_RUNNING && op->native; op = op->next)
			queue_end(op);
	if (code)
		native_fail(comm, code, &err);
}

void queue_check_engine(struct comm *comm)
{
	const coll_native_t *native = comm_native(comm);
	coll_error_t err = error_blank();
	int code;

	if (!native || !native->async_error || !comm->context->ep || comm->error)
		return;
	code = native->async_error(comm->context->ep, &err);
	if (code)
		native_fail(comm, code, &err);
}

void queue_native_group(struct comm *comm, int end)
{
	const coll_native_t *native = comm_native(comm);
	coll_error_t err;
	int code;

	/* A begun group is ended also after a failure: it belongs to the thread, not to the endpoint. */
	if (!native || !native->group_begin || !comm->context->ep)
		return;
	if (end ? !comm->native_groups : comm->error)
		return;
	error_clear(&err);
	code = end ? native->group_end(comm->context->ep, &err)
		   : native->group_begin(comm->context->ep, &err);
	if (end)
		comm->native_groups--;
	else
		comm->native_groups += !code;
	if (code && !comm->error)
		native_fail(comm, code, &err);
}

/* ------------------------------------------------------------------- the queue -- */

/* May `op` run beside the oldest operation because both are of one group? */
static int queue_in_group(const struct comm *comm, const struct op *op)
{
	return op->group && op->group == comm->head->group;
}

/* An operation runs only once all its arrays exist, so that a failure before needs no cancellation. */
static void queue_start(struct op *op)
{
	native_fn slot = op->call.slot;
	int code = COLL_SUCCESS;
	struct rank_name name;

	if (op->call.args.kind == KIND_AWAIT) {
		queue_begin(op);
		return;
	}
	if (slot && !op->declined && queue_start_native(op, slot))
		return;
	if (op != op->comm->head && !queue_in_group(op->comm, op))
		return; /* the transport does not wait for the backend's stream: the queue does */
	code = dispatch_ready(op);
	if (!code && (!op->prepared || op->scratch.size < op->scratch_bytes))
		code = engine_reserve(op);
	if (code) {
		comm_fail(op->comm, 0, code, "%s: no memory for the schedule",
			  comm_own_name(op->comm, &name));
		return;
	}
	if (op->call.staged) {
		context_flush(op->comm->context); /* staging memory may take long to allocate */
		code = staging_begin(op);
	}
	if (code) {
		comm_fail(op->comm, 0, code, "%s: %s", comm_own_name(op->comm, &name),
			  error_text());
		return;
	}
	engine_begin(op);
	queue_begin(op);
	engine_start(op);
}

/*
 * The operations of a group run beside each other, also beside the barriers that op_enqueue has put between
 * them.  A collective waits until the one that is TAG_SEQ_APART before it has ended, so that the barriers
 * do their work.
 */
static int queue_is_ahead(struct comm *comm, const struct op *op)
{
	struct op *oldest = comm->head;

	if (op->number - oldest->number < TAG_SEQ_APART || !kind_is_collective(op->call.args.kind))
		return 0;
	if (comm->collective && comm->collective_number > oldest->number)
		oldest = comm->collective;
	while (oldest != op &&
	       (oldest->state == OP_DONE || !kind_is_collective(oldest->call.args.kind)))
		oldest = oldest->next;
	comm->collective = oldest;
	comm->collective_number = oldest->number;
	return op->seq - oldest->seq >= TAG_SEQ_APART;
}

/* Is an earlier message of the group to the same rank, of the same tag, still on its way from a device? */
static int queue_would_overtake(const struct comm *comm, const struct op *op)
{
	const coll_args_t *a = &op->call.args;

	for (const struct op *e = comm->head; a->kind == COLL_KIND_SEND && e != op; e = e->next)
		if (e->call.args.kind == COLL_KIND_SEND && e->state == OP_RUNNING &&
		    e->call.staged && e->call.args.root == a->root && e->call.args.tag == a->tag &&
		    !engine_has_sent(e))
			return 1;
	return 0;
}

/* May `op` run beside the operations before it? */
static int queue_may_start(struct comm *comm, const struct op *op)
{
	const struct op *head = comm->head;

	if (op->state != OP_QUEUED)
		return 0;
	if (op == head && native_busy(comm))
		return op->call.args.kind != KIND_AWAIT;
	if (op == head)
		return 1;
	if (queue_in_group(comm, op))
		return comm->native ||
		       (!queue_is_ahead(comm, op) &&
			!(comm->staged[COLL_KIND_SEND] && queue_would_overtake(comm, op)));
	return head->native && op->call.slot && !op->declined;
}

/* Takes the oldest operation, which is complete or submitted, out of the queue. */
static void queue_pop(struct comm *comm, struct op *op)
{
	comm->head = op->next;
	if (!comm->head)
		comm->tail = NULL;
	if (op->state == OP_DONE) {
		comm->finished = op->number;
		if (comm->order)
			stream_order_release(comm, op->number);
		comm->context->sleepers_have_news = 1;
	}
	recorder_add(&comm->recorder, op->number, &op->record);
	op_retire(op);
}

/* Takes complete and submitted operations from the head, up to the first that is neither. */
static void queue_pop_done(struct comm *comm)
{
	while (comm->head && comm->head->state >= OP_SUBMITTED && !comm->error)
		queue_pop(comm, comm->head);
	callback_check(comm);
}

/* Moves a running operation: 1 if anything moved. */
static int queue_advance(struct op *op)
{
	int moved;

	if (op->call.args.kind == KIND_AWAIT) {
		moved = await_check(op);
		if (moved == AWAIT_DONE)
			queue_end(op);
		return moved != AWAIT_IDLE;
	}
	moved = engine_may_move(op) && engine_run(op);
	if (!op->comm->error && !op->steps_left && (!op->bounce || stream_order_drained(op)))
		queue_end(op);
	return moved;
}

/* The only operation of the communicator, if the engine runs it; else NULL. */
static struct op *queue_only(const struct comm *comm)
{
	struct op *op = comm->head;

	return op && !op->next && op->state == OP_RUNNING && !op->native &&
			       op->call.args.kind != KIND_AWAIT && !comm->error && !comm->nleft &&
			       !comm->limits && !comm->order
		       ? op
		       : NULL;
}

int queue_progress(struct comm *comm)
{
	struct op *only = queue_only(comm);
	int moved = 0;

	if (only && !only->steps_left) { /* the message that came was its last step */
		queue_end(only);
		queue_pop(comm, only);
		callback_check(comm);
		return 0;
	}
	if (only && !engine_may_move(only))
		return 0;
	if (comm->error)
		return 0;
	/* Before the limits: what a backend's own engine has completed is not late. */
	if (comm->native) {
		moved = native_progress(comm);
		if (comm->nleft && !comm->error)
			stall_check_left_native(comm);
	} else if (comm->head && comm->head->native && comm->head->state == OP_RUNNING &&
		   !comm->deferred) {
		queue_poll_native(comm);
		queue_pop_done(comm);
	}
	if (comm->error || limit_check(comm) || (comm->order && stream_order_watch(comm)))
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
		if (op == comm->head)
			continue;
		one = queue_advance(op);
		if (op->state == OP_RUNNING)
			moving_after_look(op);
		looks -= !one;
		moved |= one;
	}
	return moved;
}

static int queue_look_at_head(struct op *op)
{
	return op && op->state == OP_RUNNING && !op->native && queue_advance(op);
}

/* Looks at the running operations that may move. */
static int queue_look_at_running(struct comm *comm, int looks)
{
	int moved = queue_look_at_head(comm->head);

	if (!comm->error)
		moved |= queue_look(comm, &comm->in_turn, looks);
	while (comm->woken.first && !comm->error)
		moved |= queue_look(comm, &comm->woken, comm->woken.count);
	return moved;
}

/* Starts the operations whose turn has come, in their order. */
static int queue_start_waiting(struct comm *comm)
{
	int moved = 0;
	struct op *op;

	while (!comm->error && (op = comm->waiting) && queue_may_start(comm, op) &&
	       !((op->stream_events || op->gates) && stream_order_gated(op))) {
		queue_start(op);
		moved = 1;
		if (op->state == OP_QUEUED || comm->error)
			break;
		comm->waiting = op->next;
		if (op->state == OP_RUNNING && !op->native) {
			queue_advance(op);
			if (op->state == OP_RUNNING && op != comm->head)
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
	if (comm->nleft && comm->head && (comm->left_awaited || comm->compare)) {
		comm->left_awaited = 0;
		stall_check_left(comm);
	}
	return moved;
}

int queue_look_at_all(struct comm *comm)
{
	return comm->in_turn.count > QUEUE_LOOKS && !comm->error &&
	       queue_look(comm, &comm->in_turn, comm->in_turn.count);
}

/* Starts a plain operation before which there is none: QUEUE_WAITS if only messages move it on, 0 if there is none. */
enum { QUEUE_WAITS = 1, QUEUE_MOVES };
static int queue_start_only(struct comm *comm)
{
	struct op *op = comm->head;

	if (!op || op->next || op->state != OP_QUEUED || op->call.slot || comm->error ||
	    comm->nleft || op->call.args.kind == KIND_AWAIT || op->stream_events || op->gates)
		return 0;
	queue_start(op);
	if (op->state != OP_QUEUED)
		comm->waiting = NULL;
	return !comm->error && op->steps_left && !engine_may_move(op) ? QUEUE_WAITS : QUEUE_MOVES;
}

void queue_issued(struct comm *comm)
{
	struct context *context = comm->context;
	int started, moved = 0;

	if (comm->native) {
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
	if (context->sleepers && (comm->head || !comm->native))
		context_wake(context);
}

/* ------------------------------------------------------------------ cancelling -- */

void queue_cancel(struct comm *comm)
{
	const coll_native_t *native = comm_native(comm);

	if (native && native->abort && comm->context->ep)
		native->abort(comm->context->ep);
	for (struct op *op = comm->head; op; op = op->next) {
		engine_cancel_op(op);
		if (op->stream_events || op->gates)
			stream_order_drop(op);
		op->state = OP_DONE;
		moving_leave(op);
	}
	comm->waiting = comm->held = NULL;
	if (comm->order)
		stream_order_release(comm, comm->issued);
}
