/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_query.c - destroying, aborting and querying communicators. */
#include "api/host_memory.h"
#include "device/device.h"
#include "exec/compare.h"
#include "exec/pair.h"
#include "exec/queue.h"
#include "exec/registration.h"
#include "exec/stall_words.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"
#include "transport/companion.h"

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
	if (comm->pair)
		pair_release(comm);
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
	if (comm->host_comm)
		abort_mark_one(comm->host_comm);
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
	       (comm->finished >= number && !comm->sends.first);
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

/* The rest of the time, but at least DESTROY_LEAST_US, so that control messages can be sent. */
static int64_t destroy_left(int64_t deadline, int64_t timeout_us)
{
	const int64_t left = destroy_remaining(deadline);
	const int64_t least = timeout_us < DESTROY_LEAST_US ? timeout_us : DESTROY_LEAST_US;

	return left > least ? left : least;
}

/* A message that this rank does not receive any more is lost, and its sender has been told nothing. */
static void destroy_warn_untaken(const struct comm *comm)
{
	struct untaken untaken;
	struct rank_name name;

	if (comm->error || !*stall_untaken(comm, &untaken))
		return;
	log_warn("%s destroys a communicator with %u message%s that no call has received%s",
		 comm_own_name(comm, &name), untaken.messages, untaken.messages == 1 ? "" : "s",
		 untaken.text);
}

/* Takes what the other ranks have said until now: of failures, and of their last calls when they left. */
static void destroy_look(struct comm *comm)
{
	if (!comm->compare)
		return;
	context_progress(comm->context);
	companion_poll(comm->context);
	comm_check(comm);
	if (comm->error)
		return;
	compare_look_at_left(comm, 1);
	if (comm->pending_code)
		comm_check(comm);
}

/*
 * Waits for the operations, then tells the other ranks that this rank leaves: from then on its silence is
 * no failure.  After a failure a message before tells of that failure, for ranks that do not know it.  Returns
 * COLL_ERR_MISMATCH if the calls of this rank differ from those of another, as functions of the backend's own cannot
 * tell, and no call has told the program.
 */
static int destroy_finish(struct comm *comm, int told, int64_t timeout_us, int64_t deadline)
{
	struct context *context = comm->context;
	struct destroy_goal goal = {comm, comm->issued};
	struct rank_name name;

	pair_check(comm); /* the other one may have failed, and told the others */
	context_wait(context, destroy_idle, &goal, destroy_remaining(deadline));
	if (!destroy_is_idle(comm, goal.number)) {
		log_warn("%s destroys a communicator whose operations are not complete after %.3g "
			 "s; "
			 "they are dropped",
			 comm_own_name(comm, &name), (double)timeout_us / 1e6);
		comm_fail(comm, 0, COLL_ERR_ABORTED,
			  "%s destroyed its communicator with operations under way",
			  comm_own_name(comm, &name));
	}
	destroy_look(comm);
	comm->leaving = 1;
	if (comm->error)
		comm_send_control(comm, CONTROL_FAIL, comm->error, comm->error_text);
	comm_send_leave(comm);
	context_wait(context, destroy_told, context, destroy_left(deadline, timeout_us));
	destroy_warn_untaken(comm);
	destroy_look(comm);
	if (comm->error != COLL_ERR_MISMATCH || !comm->compare || told)
		return COLL_SUCCESS;
	log_warn("%s", comm->error_text);
	return comm_error(comm);
}

/* Ends the waits of other threads, if there are any.  The lock is held, and is not any more. */
static void destroy_leave(struct comm *comm)
{
	atomic_fetch_add(&comm->aborted, 1);
	context_wake(comm->context);
	context_leave(comm->context);
}

static void destroy_host_comm(struct comm *host_comm, int64_t timeout_us, int64_t deadline)
{
	if (!host_comm)
		return;
	context_enter(host_comm->context);
	destroy_finish(host_comm, 1, timeout_us, deadline);
	destroy_leave(host_comm);
}

/* Does the program know of the communicator's failure? */
static int destroy_is_told(const struct comm *comm)
{
	const struct comm *host_comm = comm->host_comm;
	int told = comm->error_is_told;

	if (!host_comm)
		return told;
	context_enter(host_comm->context);
	told |= host_comm->error_is_told;
	context_leave(host_comm->context);
	return told;
}

/*
 * Enters the communicator.  A thread may be in a call of the backend that keeps the lock, say a shrink: at the time `deadline`
 * an abort ends that call.
 */
static void destroy_enter(struct comm *comm, int64_t deadline)
{
	struct context *context = comm->context;
	struct rank_name name;
	int64_t left = destroy_remaining(deadline);

	left = left > DESTROY_LEAST_US ? left : DESTROY_LEAST_US;
	if (context->plugin->backend.transport) {
		context_lock(context);
	} else if (!context_lock_within(context, left / 1000)) {
		log_warn("%s destroys a communicator while another thread's call is inside backend "
			 "'%s'; an abort ends the call",
			 comm_own_name(comm, &name), context->plugin->backend.name);
		abort_mark(comm);
		if (abort_native(comm))
			context_lock(context);
		comm_fail(comm, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
			  comm_own_name(comm, &name));
	}
	context_entered(context);
}

coll_result_t coll_comm_destroy(coll_comm_t handle)
{
	struct comm *comm = comm_pin(handle, "coll_comm_destroy"), *host_comm;
	struct error_first first = {0};
	struct context *context;
	int64_t timeout_us, deadline;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	context = comm->context;
	timeout_us = config_int(context->config, "destroy_timeout");
	deadline = clock_now_us() + timeout_us;
	destroy_enter(comm, deadline);
	host_comm = comm->host_comm;
	error_note(&first, destroy_finish(comm, destroy_is_told(comm), timeout_us, deadline));
	destroy_leave(comm);
	destroy_host_comm(host_comm, timeout_us, deadline);
	if (handle_retire(handle))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_destroy: another thread is destroying it already");
	host_memory_free(host_comm);
	event_host_free(comm);
	comm_free(comm);
	companion_leave(context, destroy_left(deadline, timeout_us) / 1000);
	context_unref(context, destroy_left(deadline, timeout_us) / 1000);
	return error_raise(&first);
}

/* The native one has failed: so does the other one now, and ends the messages of the program. */
static void abort_host_comm(struct comm *host_comm)
{
	context_enter(host_comm->context);
	pair_check(host_comm);
	comm_flush(host_comm);
	context_leave(host_comm->context);
}

coll_result_t coll_comm_abort(coll_comm_t handle)
{
	struct comm *comm = comm_pin(handle, "coll_comm_abort");
	struct rank_name name;
	int code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	abort_mark(comm);
	if (comm->context->plugin->backend.transport)
		context_lock(comm->context);
	else
		code = abort_native(comm);
	if (code) {
		handle_unpin(handle);
		return code;
	}
	/* abort_native has told the others already. */
	comm_fail(comm, comm->native != NULL, COLL_ERR_ABORTED, "%s aborted the communicator",
		  comm_own_name(comm, &name));
	comm_flush(comm);
	context_leave(comm->context);
	if (comm->host_comm)
		abort_host_comm(comm->host_comm);
	handle_unpin(handle);
	return COLL_SUCCESS;
}

/* --------------------------------------------------------------------- questions -- */

coll_result_t coll_comm_get_async_error(coll_comm_t handle, coll_result_t *error)
{
	struct comm *comm = comm_enter(handle, "coll_comm_get_async_error");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	context_progress(comm->context);
	queue_check_engine(comm);
	(void)stall_ask_outside(comm);
	host_memory_progress(comm);
	if (error)
		*error = comm->error;
	comm->error_is_told |= error && comm->error;
	comm_leave(comm);
	return error ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_get_async_error: error is NULL");
}

const char *coll_get_last_error(coll_comm_t handle)
{
	static _Thread_local char text[sizeof(((struct comm *)0)->error_text)];
	struct comm *comm;

	if (!handle)
		return error_text();
	comm = handle_pin(HANDLE_COMM, handle);
	if (!comm)
		return "";
	context_lock(comm->context);
	pair_check(comm);
	snprintf(text, sizeof(text), "%s", comm->error_text);
	comm_leave(comm);
	return text;
}

/* Enters the communicator for a query whose result goes to `out`. */
static struct comm *comm_query_enter(coll_comm_t handle, const void *out, const char *what)
{
	if (!out) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: the output pointer is NULL", what);
		return NULL;
	}
	return comm_enter(handle, what);
}

coll_result_t coll_comm_members(coll_comm_t handle, int32_t *ranks)
{
	struct comm *comm = comm_enter(handle, "coll_comm_members");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	for (int r = 0; ranks && r < comm->nranks; r++) {
		const int at = comm->to_context_rank[r];

		ranks[r] = comm->context->origin ? comm->context->origin[at] : at;
	}
	comm_leave(comm);
	return ranks ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_members: ranks is NULL");
}

/* The endpoint for host memory may know before the companion. */
static int failed_is(struct comm *comm, int rank)
{
	struct comm *host_comm = comm->host_comm;
	int state = comm->peer_state[rank];

	if (host_comm && state == PEER_ALIVE) {
		context_enter(host_comm->context);
		state = host_comm->peer_state[rank];
		context_leave(host_comm->context);
	}
	return state == PEER_FAILED || state == PEER_REPORTED;
}

coll_result_t coll_comm_get_failed(coll_comm_t handle, int32_t *ranks, int32_t capacity,
				   int32_t *count)
{
	struct comm *comm = comm_enter(handle, "coll_comm_get_failed");
	int code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!count || capacity < 0 || (capacity && !ranks))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_get_failed: %s",
				 !count         ? "count is NULL"
				 : capacity < 0 ? "capacity is negative"
						: "ranks is NULL, but capacity is not 0");
	if (!code) {
		context_progress(comm->context);
		host_memory_progress(comm);
		*count = 0;
		for (int r = 0; r < comm->nranks; r++) {
			if (!failed_is(comm, r))
				continue;
			if (*count < capacity)
				ranks[*count] = r;
			++*count;
		}
	}
	comm_leave(comm);
	return code;
}

coll_result_t coll_comm_set_timeout(coll_comm_t handle, int64_t timeout_ms)
{
	struct comm *comm = comm_enter(handle, "coll_comm_set_timeout");
	int code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (timeout_ms < 1 || timeout_ms > INT64_C(1000) * CONFIG_LONGEST_SECONDS)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_set_timeout: timeout_ms is %lld, but must be from 1 to "
				 "%lld",
				 (long long)timeout_ms, 1000LL * CONFIG_LONGEST_SECONDS);
	else
		comm->timeout_us = timeout_ms * 1000;
	comm = host_memory_switch(comm);
	if (!code)
		comm->timeout_us = timeout_ms * 1000;
	comm_leave(comm);
	return code;
}

coll_result_t coll_comm_count(coll_comm_t handle, int32_t *nranks)
{
	struct comm *comm = comm_query_enter(handle, nranks, "coll_comm_count");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	*nranks = comm->nranks;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_user_rank(coll_comm_t handle, int32_t *rank)
{
	struct comm *comm = comm_query_enter(handle, rank, "coll_comm_user_rank");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	*rank = comm->rank;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_device(coll_comm_t handle, int32_t *device)
{
	struct comm *comm = comm_query_enter(handle, device, "coll_comm_device");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	*device = comm->context->memory & COLL_MEM_CUDA ? comm->context->device : -1;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_backend(coll_comm_t handle, const char **name)
{
	struct comm *comm = comm_query_enter(handle, name, "coll_comm_backend");

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	*name = comm->context->plugin->backend.name; /* the plugin's own string: never unloaded */
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_native_handle(coll_comm_t handle, void **native)
{
	struct comm *comm = comm_query_enter(handle, native, "coll_comm_native_handle");
	const coll_native_t *n;
	int code = COLL_SUCCESS;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	n = comm_native(comm);
	*native = n && n->handle ? n->handle(comm->context->ep) : NULL;
	if (!*native)
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "backend '%s' has no communicator object of its own",
				 comm->context->plugin->backend.name);
	comm_leave(comm);
	return code;
}

/* --------------------------------------------------------------------- memory -- */

coll_result_t coll_comm_register(coll_comm_t handle, void *buf, size_t bytes, void **registration)
{
	struct comm *comm = comm_query_enter(handle, registration, "coll_comm_register");
	int code, device;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (comm->host_comm && buf && bytes && comm->context->devices &&
	    device_kind(buf, &device) == COLL_MEM_HOST)
		comm = host_memory_switch(comm);
	code = registration_add(comm, buf, bytes, registration);
	comm_leave(comm);
	return code;
}

coll_result_t coll_comm_deregister(coll_comm_t handle, void *registration)
{
	struct comm *comm = comm_enter(handle, "coll_comm_deregister");
	int code;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (comm->host_comm && registration_is_of(comm->host_comm, registration))
		comm = host_memory_switch(comm);
	code = registration_remove(comm, registration);
	comm_leave(comm);
	return code;
}
