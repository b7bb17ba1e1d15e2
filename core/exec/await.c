/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * await.c - operations that wait for an operation of another communicator.  While such an operation is
 * at the head of its queue, it also moves the other communicator's context unless another thread has
 * locked it: no other thread may be calling into the library.
 */
#include "exec/op.h"
#include "base/handle.h"

/* The state of the other communicator.  The lock of its context is held. */
static int await_state(struct op *op, const struct comm *other, int moved)
{
	if (other->finished >= op->awaited_number)
		return AWAIT_DONE;
	if (!other->error)
		return moved ? AWAIT_MOVED : AWAIT_IDLE;
	comm_fail(op->comm, 0, other->error,
		  "rank %d waits for an event of a communicator that failed: %s", op->comm->rank,
		  other->error_text);
	return AWAIT_MOVED;
}

int await_check(struct op *op)
{
	struct context *context = op->comm->context;
	struct comm *other = handle_pin(HANDLE_COMM, op->awaited);
	int state = AWAIT_IDLE;

	if (!other) /* the other communicator was destroyed */
		return AWAIT_DONE;
	if (other->context == context) {
		state = await_state(op, other, 0);
	} else if (!pthread_mutex_trylock(&other->context->lock)) {
		context_progress(other->context);
		state = await_state(op, other,
				    op->awaited_progress_count != other->context->progress_count);
		op->awaited_progress_count = other->context->progress_count;
		pthread_mutex_unlock(&other->context->lock);
	}
	handle_unpin(op->awaited);
	return state;
}
