/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * await.c - operations that wait for a point in the issue order of another lane.  While such an operation is at the
 * head of its queue, it also moves the other lane's context unless another thread has locked that context: no other
 * thread may be calling into the library.
 */
#include "compose/await.h"
#include "comm/op.h"
#include "base/handle.h"
#include "native/native.h"
#include "comm/lane.h"
#include "comm/queue.h"

enum { AWAIT_IDLE, AWAIT_MOVED, AWAIT_DONE };

static int await_done(struct op *op)
{
	outcome_unref(op->awaited.outcome);
	op->awaited.outcome = NULL;
	return AWAIT_DONE;
}

static int await_failed(struct op *op, int code, const char *text)
{
	struct rank_name name;

	comm_fail(op->lane, 0, code, "%s waits for an event of a communicator that failed: %s",
		  comm_own_name(op->lane, &name), text);
	return AWAIT_MOVED;
}

/* The state of the other lane.  The lock of its context is held. */
static int await_state(struct op *op, const struct lane *other, int moved)
{
	if (other->finished >= op->awaited.number)
		return await_done(op);
	if (other->error)
		return await_failed(op, other->error, comm_failure(other));
	return moved ? AWAIT_MOVED : AWAIT_IDLE;
}

/* The other communicator was destroyed, or another thread is about to free it. */
static int await_outcome(struct op *op)
{
	const struct outcome *outcome = op->awaited.outcome;
	int code = outcome_result(outcome, op->awaited.lane_index, op->awaited.number);

	if (code == COLL_IN_PROGRESS)
		return AWAIT_IDLE;
	return code ? await_failed(op, code, outcome->text) : await_done(op);
}

static int await_check(struct op *op)
{
	struct context *context = op->lane->context;
	const coll_comm_t handle = op->awaited.outcome ? op->awaited.outcome->comm : NULL;
	struct lane *other = handle ? comm_pin_lane(handle, op->awaited.lane_index) : NULL;
	int state = AWAIT_IDLE;

	if (!op->awaited.outcome) /* it was for a stream, and the queue has waited for that */
		return AWAIT_DONE;
	if (!other)
		return await_outcome(op);
	if (other->context == context || lane_is_driven(op->lane, other)) {
		state = await_state(op, other, 0);
	} else if (wait_holds(other->context)) {
		native_progress(other);
		state = await_state(op, other, 0);
	} else if (lock_try(&other->context->lock)) {
		if (lane_other(op->lane) == other) {
			lane_drive(op->lane);
		} else {
			other->context->now_is_recent = 0;
			context_progress(other->context);
		}
		state = await_state(op, other,
				    op->awaited_progress_count != other->context->progress_count);
		op->awaited_progress_count = other->context->progress_count;
		lock_release(&other->context->lock);
	}
	handle_unpin(handle);
	return state;
}

int await_issue(struct lane *lane, const struct order_point *point, struct stream_event *event)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	const struct call call = call_of_library(lane, &args);
	struct op *op;
	const int code = op_make(lane, &call, &op);

	if (code)
		return code;
	op->awaited = *point;
	op_enqueue(op, 0);
	op->stream_events = event;
	queue_issued(lane);
	return COLL_SUCCESS;
}

static enum engine_start await_start(struct op *op)
{
	op_begin(op, OP_RUNNING);
	return ENGINE_STARTED;
}

static int await_advance(struct op *op)
{
	const int state = await_check(op);

	if (state == AWAIT_DONE)
		op_end(op);
	return state != AWAIT_IDLE;
}

const struct engine await_engine = {
	.start = await_start,
	.advance = await_advance,
};
