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
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------- ending a call of another thread -- */

/* An abort waits so long for a thread that is inside the backend. */
enum { ABORT_MS = 1000 };

/* A backend without a transport may be in a call that only its own abort ends. */
static int abort_native(struct comm *comm)
{
	struct context *context = comm->context;
	const coll_native_t *native = context->plugin->backend.native;

	atomic_store(&context->aborted, 1); /* no other communicator uses the context */
	comm_send_abort(comm);
	lane_release_streams(comm);
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

static void abort_mark_one(struct comm *comm)
{
	atomic_fetch_add(&comm->aborted, 1);
	context_wake(comm->context);
}

/* Before the lock: a waiting thread releases the lock when it sees the mark. */
static void abort_mark(struct comm *comm)
{
	abort_mark_one(comm);
	if (lane_host(comm))
		abort_mark_one(comm->lanes->host);
}

/* ------------------------------------------------------------------ destroying -- */

enum { DESTROY_LEAST_US = 500000 };

struct destroy_goal {
	struct comm *comm;
	uint64_t number; /* the last operation issued before the call */
};

/* Nobody waits for receives outside the order: they end with the communicator. */
static int destroy_is_idle(const struct comm *comm, uint64_t number)
{
	return comm->error || atomic_load(&comm->aborted) ||
	       (comm->finished >= number && !comm->messages.sends.first);
}

static int destroy_idle(void *arg)
{
	const struct destroy_goal *goal = arg;

	return destroy_is_idle(goal->comm, goal->number);
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
static int destroy_wait(struct comm *comm, int (*done)(void *arg), void *arg, int64_t timeout_us)
{
	const int64_t patience_us = timeout_us > DESTROY_LEAST_US ? timeout_us : DESTROY_LEAST_US;
	const int code = context_wait_or_leave(comm->context, done, arg, timeout_us, patience_us);

	return code == CONTEXT_LOST ? code : COLL_SUCCESS;
}

/* The rest of the time, but at least DESTROY_LEAST_US, so that control messages can be sent. */
static int64_t destroy_left(int64_t deadline, int64_t timeout_us)
{
	const int64_t left = destroy_remaining(deadline);
	const int64_t least = timeout_us < DESTROY_LEAST_US ? timeout_us : DESTROY_LEAST_US;

	return left > least ? left : least;
}

/* A message that this rank does not receive any more is lost, and its sender has been told nothing. */
static void destroy_warn_unexpected(const struct comm *comm)
{
	char text[512];
	unsigned messages;
	struct rank_name name;

	if (comm->error)
		return;
	messages = comm->client->unexpected(comm, text, sizeof(text));
	if (messages)
		log_warn("%s destroys a communicator with %u message%s that no call has received%s",
			 comm_own_name(comm, &name), messages, messages == 1 ? "" : "s", text);
}

/*
 * Waits for the operations, then tells the other ranks that this rank leaves: from then on its silence is
 * no failure.  After a failure a message before tells of that failure, for ranks that do not know it.  Returns
 * COLL_ERR_MISMATCH if this rank's calls differ from another rank's calls, no call has told the program, and the backend has
 * functions of its own, which do not compare calls.  CONTEXT_LOST: another thread has left the library with the lock.
 */
static int destroy_finish(struct comm *comm, int64_t timeout_us, int64_t deadline)
{
	/* The program hears of the calls that differ from its first lane. */
	const int told = comm->lane != LANE_FIRST || atomic_load(&comm->outcome->is_told);
	struct context *context = comm->context;
	struct destroy_goal goal = {comm, comm->issued};
	struct rank_name name;

	lane_check(comm); /* the other lane may have failed */
	if (destroy_wait(comm, destroy_idle, &goal, destroy_remaining(deadline)))
		return CONTEXT_LOST;
	if (!destroy_is_idle(comm, goal.number)) {
		log_warn("%s destroys a communicator whose operations are not complete after %.3g "
			 "s; "
			 "they are dropped",
			 comm_own_name(comm, &name), (double)timeout_us / 1e6);
		comm_fail(comm, 0, COLL_ERR_ABORTED,
			  "%s destroyed its communicator with operations under way",
			  comm_own_name(comm, &name));
	}
	comm->client->listen(comm);
	comm->leaving = 1;
	if (comm->error)
		comm_send_control(comm, CONTROL_FAIL, comm->error, comm_failure(comm));
	comm->client->leave(comm);
	if (destroy_wait(comm, destroy_told, context, destroy_left(deadline, timeout_us)))
		return CONTEXT_LOST;
	destroy_warn_unexpected(comm);
	comm->client->listen(comm);
	if (comm->error != COLL_ERR_MISMATCH || !comm->log->hash || told)
		return COLL_SUCCESS;
	log_warn("%s", comm_failure(comm));
	return comm_error(comm);
}

/* Ends the waits of other threads, if there are any.  The lock is held, and is not any more. */
static void destroy_leave(struct comm *comm)
{
	atomic_fetch_add(&comm->aborted, 1);
	context_wake(comm->context);
	context_leave(comm->context);
}

/* Takes the lock: 0 if it is not free in time. */
static int destroy_lock(struct comm *comm, int64_t timeout_us, int64_t deadline)
{
	struct context *context = comm->context;

	if (!lock_try(&context->lock) &&
	    !context_await_lock(context, destroy_left(deadline, timeout_us)))
		return 0;
	context_entered(context);
	return 1;
}

/* Returns CONTEXT_LOST as destroy_finish. */
static int destroy_host_lane(struct comm *host, int64_t timeout_us, int64_t deadline)
{
	if (!host)
		return COLL_SUCCESS;
	if (!destroy_lock(host, timeout_us, deadline) ||
	    destroy_finish(host, timeout_us, deadline) == CONTEXT_LOST)
		return CONTEXT_LOST;
	destroy_leave(host);
	return COLL_SUCCESS;
}

/*
 * Enters the communicator.  A thread may be in a call of the backend that keeps the lock, say a shrink: at the time `deadline`
 * an abort ends that call.  Returns CONTEXT_LOST if the lock is not free in time.
 */
static int destroy_enter(struct comm *comm, int64_t timeout_us, int64_t deadline)
{
	struct context *context = comm->context;
	struct rank_name name;

	if (destroy_lock(comm, timeout_us, deadline))
		return COLL_SUCCESS;
	if (context->plugin->backend.transport)
		return CONTEXT_LOST;
	log_warn("%s destroys a communicator while another thread's call is inside backend "
		 "'%s'; an abort ends the call",
		 comm_own_name(comm, &name), context->plugin->backend.name);
	abort_mark(comm);
	if (abort_native(comm))
		return CONTEXT_LOST;
	comm_fail(comm, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
		  comm_own_name(comm, &name));
	context_entered(context);
	return COLL_SUCCESS;
}

/* All that needs the lock: a result of destroy_finish. */
static int destroy_run(struct comm *comm, int64_t timeout_us, int64_t deadline)
{
	int code = destroy_enter(comm, timeout_us, deadline);

	if (code)
		return code;
	code = destroy_finish(comm, timeout_us, deadline);
	if (code == CONTEXT_LOST)
		return code;
	destroy_leave(comm);
	return destroy_host_lane(lane_host(comm), timeout_us, deadline) == CONTEXT_LOST
		       ? CONTEXT_LOST
		       : code;
}

/*
 * A thread that is gone, or still in a call, may use the communicator: it is never freed.  The handle is not valid any
 * more.
 */
static void destroy_leave_behind(struct comm *comm, int64_t timeout_us, int64_t left_us)
{
	struct context *context = comm->context;
	struct rank_name name;

	log_warn("%s destroys a communicator whose memory is not freed: for %.3g s another thread "
		 "has been in a call, or a thread has left its call by siglongjmp or its own end",
		 comm_own_name(comm, &name), (double)timeout_us / 1e6);
	atomic_fetch_add(&comm->aborted, 1);
	context_wake(context);
	atomic_store(&context->abandoned, 1);
	context_left(context, left_us / 1000);
	context_unref(context, left_us / 1000);
}

coll_result_t coll_comm_destroy(coll_comm_t handle)
{
	CANCEL_OFF;
	struct comm *comm = comm_pin(handle, "coll_comm_destroy");
	struct error_first first = {0};
	struct context *context;
	int64_t timeout_us, deadline;
	int lost, retired;

	if (!comm)
		return error_code();
	context = comm->context;
	timeout_us = config_int(context->config, "destroy_timeout");
	deadline = clock_now_us() + timeout_us;
	error_note(&first, destroy_run(comm, timeout_us, deadline));
	lost = first.code == CONTEXT_LOST;
	retired = handle_retire(handle, lost ? 0 : destroy_left(deadline, timeout_us));
	if (retired < 0)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_destroy: another thread is destroying it already");
	if (lost || retired == HANDLE_PINNED) {
		destroy_leave_behind(comm, timeout_us,
				     lost ? 0 : destroy_left(deadline, timeout_us));
		return lost ? COLL_SUCCESS : error_raise(&first);
	}
	/* The host lane first: it gives back memory and events of the CUDA context that the order stream keeps. */
	comm_free_host(lane_part(comm));
	if (comm->lanes)
		comm->client->lanes->free(comm);
	comm_free(comm);
	context_left(context, destroy_left(deadline, timeout_us) / 1000);
	context_unref(context, destroy_left(deadline, timeout_us) / 1000);
	return error_raise(&first);
}

/* ----------------------------------------------------------------------- aborting -- */

/* Takes the lock, which a thread may keep that is in a call, or that has left the library. */
static int abort_lock(struct comm *comm)
{
	struct context *context = comm->context;

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
static int abort_host_lane(struct comm *host)
{
	int code = host ? abort_lock(host) : COLL_SUCCESS;

	if (code || !host)
		return code;
	lane_check(host);
	if (!comm_flush_or_leave(host))
		context_leave(host->context);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_abort(coll_comm_t handle)
{
	CANCEL_OFF;
	struct comm *comm = comm_pin(handle, "coll_comm_abort");
	struct rank_name name;
	int code;

	if (!comm)
		return error_code();
	abort_mark(comm);
	code = comm->context->plugin->backend.transport ? abort_lock(comm) : abort_native(comm);
	if (!code) {
		/* abort_native has told the other ranks already. */
		comm_fail(comm, comm->native != NULL, COLL_ERR_ABORTED,
			  "%s aborted the communicator", comm_own_name(comm, &name));
		if (!comm_flush_or_leave(comm))
			context_leave(comm->context);
		code = abort_host_lane(lane_host(comm));
	}
	handle_unpin(handle);
	return code;
}
