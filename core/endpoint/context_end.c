/* SPDX-License-Identifier: BSD-3-Clause */
/* context_end.c - the end of a context, when nobody refers to it any more. */
#include "endpoint/context_impl.h"
#include "base/log.h"

/*
 * The ranks of a backend whose close is collective wait for each other.  Returns the time that is left for close, or
 * 0 if close must not wait for other ranks.
 */
static int64_t context_meet_to_close(const struct context *context, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);

	if (!(context->plugin->backend.flags & COLL_BACKEND_CLOSE_TOGETHER) || !context->ep ||
	    !context->bootstrap || bootstrap_in_process(context->bootstrap))
		return timeout_ms;
	if (timeout_ms == 0 || bootstrap_all_ok(context->bootstrap, COLL_SUCCESS, timeout_ms))
		return 0;
	return clock_remaining(deadline);
}

/*
 * A thread that is gone, or that is still in a call, may use the context.  What the kernel has for the endpoint is given
 * back if no thread has the lock; only the memory is kept.
 */
static void context_leave_behind(struct context *context, int64_t timeout_ms)
{
	if (!context->plugin->backend.transport || !context_lock_within(context, timeout_ms))
		return;
	context_close_endpoint(context, timeout_ms);
	lock_release(&context->lock);
	wait_abandon(context);
	if (context->progress.started)
		pthread_detach(context->progress.thread);
	atomic_store(&context->progress.stop, 1);
	context_wake(context);
}

/* Returns 0 if a thread has left the library while it drove other contexts, and so keeps the list of contexts locked. */
static int context_leave_list(struct context *context)
{
	const int left = wait_remove(context);

	if (!left)
		log_warn("rank %d: the memory of a communicator is not freed, since a thread has "
			 "left a call by siglongjmp or its own end",
			 context->rank);
	return left;
}

void context_unref(struct context *context, int64_t timeout_ms)
{
	struct context *parent = context->parent;

	if (atomic_fetch_sub(&context->refs, 1) > 1)
		return;
	if (atomic_load(&context->abandoned) || !context_leave_list(context)) {
		context_leave_behind(context, timeout_ms);
		return;
	}
	wait_thread_stop(context);
	if (context->client->closing)
		context->client->closing(context);
	context_close_endpoint(context, context_meet_to_close(context, timeout_ms));
	if (context->client->closed)
		context->client->closed(context, timeout_ms);
	context_free(context);
	if (parent)
		context_unref(parent, timeout_ms);
}
