/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_end.c - aborting and destroying communicators.
 *
 * A thread of the program may have left the library amid a call, by siglongjmp or by its own end.  Such a thread keeps the
 * handle pinned, and perhaps the lock.  These functions wait for such a thread with a limit only, and never free memory
 * that the thread may still use.
 */
#include "comm/lane.h"
#include "comm/queue.h"
#include "comm/registration.h"
#include "comm/life.h"
#include "comm/comm_wait.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "comm/lane_log.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------- ending a call of another thread -- */

/* An abort waits so long for a thread that is inside the backend. */
enum { ABORT_MS = 1000 };

/* A backend without a transport may be in a call that only its own abort ends. */
static int abort_native(struct lane *lane)
{
	struct context *context = lane->context;
	const coll_native_t *native = context->plugin->backend.native;

	atomic_store(&context->aborted, 1); /* no other communicator uses the context */
	comm_send_abort(lane);
	lane_release_streams(lane);
	if (native->abort && context->ep)
		native->abort(context->ep);
	context_wake(context);
	if (context_lock_within(context, ABORT_MS))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_TIMEOUT,
			 "coll_comm_abort timed out: a call into backend '%s' has not returned "
			 "within %d ms; "
			 "the abort takes effect when it does",
			 context->plugin->backend.name, ABORT_MS);
}

/* Ends the waits of other threads.  Before the lock: a waiting thread releases the lock when it sees the mark. */
static void abort_mark(struct comm *comm)
{
	atomic_fetch_add(&comm->aborted, 1);
	for (int i = LANE_FIRST; i < LANES; i++)
		if (comm->lane[i])
			context_wake(comm->lane[i]->context);
}

/* ------------------------------------------------------------------ destroying -- */

enum { DESTROY_LEAST_US = 500000 };

struct destroy_goal {
	struct lane *lane;
	uint64_t number; /* the last operation issued before the call */
};

/* Nobody waits for receives outside the order: they end with the communicator. */
static int destroy_is_idle(const struct lane *lane, uint64_t number)
{
	return lane->error || atomic_load(&lane->comm->aborted) ||
	       (lane->finished >= number && !lane->messages.sends.first);
}

static int destroy_idle(void *arg)
{
	const struct destroy_goal *goal = arg;

	return destroy_is_idle(goal->lane, goal->number);
}

static int destroy_told(void *arg)
{
	return !context_controls_pending(arg);
}

static int64_t destroy_remaining(int64_t deadline)
{
	const int64_t left = deadline - clock_now_us();

	return left > 0 ? left : 0;
}

/* CONTEXT_LOST, or 0 whether the time is over or not. */
static int destroy_wait(struct lane *lane, int (*done)(void *arg), void *arg, int64_t timeout_us)
{
	const int64_t patience_us = timeout_us > DESTROY_LEAST_US ? timeout_us : DESTROY_LEAST_US;
	struct wait_told told;
	int code;

	if (done(arg))
		return COLL_SUCCESS;
	wait_tell_begin(&told, lane, 0, 0);
	code = context_wait_or_leave(lane->context, done, arg, timeout_us, patience_us);
	if (code == CONTEXT_LOST)
		return code;
	wait_tell_end(&told);
	return COLL_SUCCESS;
}

/* The rest of the time, but at least DESTROY_LEAST_US, so that control messages can be sent. */
static int64_t destroy_left(int64_t deadline, int64_t timeout_us)
{
	const int64_t left = destroy_remaining(deadline);
	const int64_t least = timeout_us < DESTROY_LEAST_US ? timeout_us : DESTROY_LEAST_US;

	return left > least ? left : least;
}

/* A message that this rank does not receive any more is lost, and its sender has been told nothing. */
static void destroy_warn_unexpected(const struct lane *lane)
{
	char text[512];
	unsigned messages;
	struct rank_name name;

	if (lane->error)
		return;
	messages = lane->client->unexpected(lane, text, sizeof(text));
	if (messages)
		lane_log(lane, COLL_LOG_WARN,
			 "%s destroys a communicator with %u message%s that no call has received%s",
			 comm_own_name(lane, &name), messages, messages == 1 ? "" : "s", text);
}

/*
 * Waits for the operations, then tells the other ranks that this rank leaves: from then on its silence is
 * no failure.  After a failure a message before tells of that failure, for ranks that do not know it.  Returns
 * COLL_ERR_MISMATCH if this rank's calls differ from another rank's calls, no call has told the program, and the backend has
 * functions of its own, which do not compare calls.  CONTEXT_LOST: another thread has left the library with the lock.
 */
static int destroy_finish(struct lane *lane, int64_t timeout_us, int64_t deadline)
{
	/* The program hears of the calls that differ from its first lane. */
	const int told = lane->index != LANE_FIRST || atomic_load(&lane->comm->outcome->is_told);
	struct context *context = lane->context;
	struct destroy_goal goal = {lane, lane->issued};
	struct rank_name name;

	lane_check(lane); /* the other lane may have failed */
	if (destroy_wait(lane, destroy_idle, &goal, destroy_remaining(deadline)))
		return CONTEXT_LOST;
	if (!destroy_is_idle(lane, goal.number)) {
		lane_log(lane, COLL_LOG_WARN,
			 "%s destroys a communicator whose operations are not complete after %.3g "
			 "s; "
			 "they are dropped",
			 comm_own_name(lane, &name), (double)timeout_us / 1e6);
		comm_fail(lane, 0, COLL_ERR_ABORTED,
			  "%s destroyed its communicator with operations under way",
			  comm_own_name(lane, &name));
	}
	lane->client->listen(lane);
	lane->leaving = 1;
	if (lane->error)
		comm_send_control(lane, CONTROL_FAIL, lane->error, comm_failure(lane));
	lane->client->leave(lane);
	if (destroy_wait(lane, destroy_told, context, destroy_left(deadline, timeout_us)))
		return CONTEXT_LOST;
	destroy_warn_unexpected(lane);
	lane->client->listen(lane);
	if (lane->error != COLL_ERR_MISMATCH || !lane->log->hash || told)
		return COLL_SUCCESS;
	lane_log(lane, COLL_LOG_WARN, "%s", comm_failure(lane));
	return comm_error(lane);
}

/* Takes the lock.  Returns 0 if it is not free in time. */
static int destroy_lock(struct lane *lane, int64_t timeout_us, int64_t deadline)
{
	struct context *context = lane->context;

	if (!lock_try(&context->lock) &&
	    !context_await_lock(context, destroy_left(deadline, timeout_us)))
		return 0;
	context_entered(context);
	return 1;
}

/*
 * Enters the communicator.  A thread may be in a call of the backend that keeps the lock, say a shrink: at the time `deadline`
 * an abort ends that call.  Returns CONTEXT_LOST if the lock is not free in time.
 */
static int destroy_enter(struct lane *lane, int64_t timeout_us, int64_t deadline)
{
	struct context *context = lane->context;
	struct rank_name name;

	if (destroy_lock(lane, timeout_us, deadline))
		return COLL_SUCCESS;
	if (context->plugin->backend.transport)
		return CONTEXT_LOST;
	lane_log(lane, COLL_LOG_WARN,
		 "%s destroys a communicator while another thread's call is inside backend "
		 "'%s'; an abort ends the call",
		 comm_own_name(lane, &name), context->plugin->backend.name);
	abort_mark(lane->comm);
	if (abort_native(lane))
		return CONTEXT_LOST;
	comm_fail(lane, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
		  comm_own_name(lane, &name));
	context_entered(context);
	return COLL_SUCCESS;
}

/* All that needs the locks: a result of destroy_finish.  At its end the waits of other threads end, if there are any. */
static int destroy_run(struct comm *comm, int64_t timeout_us, int64_t deadline)
{
	struct lane *first = comm->lane[LANE_FIRST], *host = comm->lane[LANE_HOST];
	int code = destroy_enter(first, timeout_us, deadline);

	if (!code)
		code = destroy_finish(first, timeout_us, deadline);
	if (code == CONTEXT_LOST)
		return code;
	context_leave(first->context);
	if (host && (!destroy_lock(host, timeout_us, deadline) ||
		     destroy_finish(host, timeout_us, deadline) == CONTEXT_LOST))
		return CONTEXT_LOST;
	if (host)
		context_leave(host->context);
	abort_mark(comm);
	return code;
}

/*
 * A thread that is gone, or still in a call, may use the communicator: it is never freed.  The handle is not valid any
 * more.
 */
static void destroy_leave_behind(struct lane *lane, int64_t timeout_us, int64_t left_us)
{
	struct context *context = lane->context;
	struct rank_name name;

	lane_log(lane, COLL_LOG_WARN,
		 "%s destroys a communicator whose memory is not freed: for %.3g s another thread "
		 "has been in a call, or a thread has left its call by siglongjmp or its own end",
		 comm_own_name(lane, &name), (double)timeout_us / 1e6);
	abort_mark(lane->comm);
	atomic_store(&context->abandoned, 1);
	context_left(context, left_us / 1000);
	context_unref(context, left_us / 1000);
}

coll_result_t coll_comm_destroy(coll_comm_t handle)
{
	CANCEL_OFF;
	struct comm *comm = comm_pin(handle, "coll_comm_destroy");
	struct error_first first = {0};
	struct lane *lane, *host;
	struct context *context;
	int64_t timeout_us, deadline;
	int lost, retired;

	if (!comm)
		return error_code();
	lane = comm->lane[LANE_FIRST];
	context = lane->context;
	timeout_us = config_int(context->config, "destroy_timeout");
	deadline = clock_now_us() + timeout_us;
	error_note(&first, destroy_run(comm, timeout_us, deadline));
	lost = first.code == CONTEXT_LOST;
	retired = handle_retire(handle, lost ? 0 : destroy_left(deadline, timeout_us));
	if (retired < 0)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_destroy: another thread is destroying it already");
	if (lost || retired == HANDLE_PINNED) {
		destroy_leave_behind(lane, timeout_us,
				     lost ? 0 : destroy_left(deadline, timeout_us));
		return lost ? COLL_SUCCESS : error_raise(&first);
	}
	/* The host lane first: it gives back memory and events of the CUDA context that the order stream keeps. */
	host = lane_part(lane);
	lane_free_host(host);
	if (host)
		lane->client->lanes->free(lane);
	lane_free(lane);
	context_left(context, destroy_left(deadline, timeout_us) / 1000);
	context_unref(context, destroy_left(deadline, timeout_us) / 1000);
	return error_raise(&first);
}

/* ----------------------------------------------------------------------- aborting -- */

/* Takes the lock, which a thread may keep that is in a call, or that has left the library. */
static int abort_lock(struct lane *lane)
{
	struct context *context = lane->context;

	if (context_await_lock(context, (int64_t)ABORT_MS * 1000))
		return COLL_SUCCESS;
	atomic_store(&context->lost, 1);
	return error_set(COLL_ERR_TIMEOUT,
			 "coll_comm_abort timed out: for %d ms another thread has been in a call "
			 "on the same connections, or a thread has left its call by siglongjmp or "
			 "its own end; the abort takes effect when the call returns",
			 ABORT_MS);
}

/* The native lane has failed: now the host lane ends too, with the program's messages. */
static int abort_host_lane(struct lane *host)
{
	int code = host ? abort_lock(host) : COLL_SUCCESS;

	if (code || !host)
		return code;
	lane_check_other(host);
	if (!lane_flush_or_leave(host))
		context_leave(host->context);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_abort(coll_comm_t handle)
{
	CANCEL_OFF;
	struct comm *comm = comm_pin(handle, "coll_comm_abort");
	struct rank_name name;
	struct lane *lane;
	int code;

	if (!comm)
		return error_code();
	lane = comm->lane[LANE_FIRST];
	abort_mark(comm);
	code = lane->context->plugin->backend.transport ? abort_lock(lane) : abort_native(lane);
	if (!code) {
		/* abort_native has told the other ranks already. */
		comm_fail(lane, lane->native != NULL, COLL_ERR_ABORTED,
			  "%s aborted the communicator", comm_own_name(lane, &name));
		if (!lane_flush_or_leave(lane))
			context_leave(lane->context);
		code = abort_host_lane(lane_host(lane));
	}
	handle_unpin(handle);
	return code;
}
