/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_query.c - questions about communicators. */
#include "comm/lane.h"
#include "comm/engines.h"
#include "comm/queue.h"
#include "comm/registration.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdio.h>

/* --------------------------------------------------------------------- questions -- */

coll_result_t coll_comm_get_async_error(coll_comm_t handle, coll_result_t *error)
{
	struct comm *comm = comm_enter(handle, "coll_comm_get_async_error");

	if (!comm)
		return error_code();
	context_progress(comm->context);
	engines_check(comm);
	(void)comm->client->ask_outside(comm);
	lane_progress(comm);
	if (error)
		*error = comm->error;
	if (error && comm->error)
		atomic_store(&comm->outcome->is_told, 1);
	comm_leave(comm);
	return error ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_get_async_error: error is NULL");
}

const char *coll_get_last_error(coll_comm_t handle)
{
	static _Thread_local char text[sizeof(((struct outcome *)0)->text)];
	struct comm *comm;

	if (!handle)
		return error_text();
	comm = handle_pin(HANDLE_COMM, handle);
	if (!comm)
		return "";
	context_lock(comm->context);
	lane_check(comm);
	snprintf(text, sizeof(text), "%s", comm_failure(comm));
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
		return error_code();
	for (int r = 0; ranks && r < comm->nranks; r++) {
		const int at = comm->to_context_rank[r];

		ranks[r] = comm->context->origin ? comm->context->origin[at] : at;
	}
	comm_leave(comm);
	return ranks ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_members: ranks is NULL");
}

/* host_context may know before the control channel. */
static int failed_is(struct comm *comm, int rank)
{
	struct comm *host = lane_host(comm);
	int state = comm->peer_state[rank];

	if (host && state == PEER_ALIVE) {
		context_enter(host->context);
		state = host->peer_state[rank];
		context_leave(host->context);
	}
	return state == PEER_FAILED || state == PEER_REPORTED;
}

coll_result_t coll_comm_get_failed(coll_comm_t handle, int32_t *ranks, int32_t capacity,
				   int32_t *count)
{
	struct comm *comm = comm_enter(handle, "coll_comm_get_failed");
	int code = COLL_SUCCESS;

	if (!comm)
		return error_code();
	if (!count || capacity < 0 || (capacity && !ranks))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_get_failed: %s",
				 !count         ? "count is NULL"
				 : capacity < 0 ? "capacity is negative"
						: "ranks is NULL, but capacity is not 0");
	if (!code) {
		context_progress(comm->context);
		lane_progress(comm);
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
		return error_code();
	if (timeout_ms < 1 || timeout_ms > INT64_C(1000) * CONFIG_LONGEST_SECONDS)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_set_timeout: timeout_ms is %lld, but must be from 1 to "
				 "%lld",
				 (long long)timeout_ms, 1000LL * CONFIG_LONGEST_SECONDS);
	else
		comm->timeout_us = timeout_ms * 1000;
	comm = lane_switch(comm);
	if (!code)
		comm->timeout_us = timeout_ms * 1000;
	comm_leave(comm);
	return code;
}

coll_result_t coll_comm_count(coll_comm_t handle, int32_t *nranks)
{
	struct comm *comm = comm_query_enter(handle, nranks, "coll_comm_count");

	if (!comm)
		return error_code();
	*nranks = comm->nranks;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_user_rank(coll_comm_t handle, int32_t *rank)
{
	struct comm *comm = comm_query_enter(handle, rank, "coll_comm_user_rank");

	if (!comm)
		return error_code();
	*rank = comm->rank;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_device(coll_comm_t handle, int32_t *device)
{
	struct comm *comm = comm_query_enter(handle, device, "coll_comm_device");

	if (!comm)
		return error_code();
	*device = comm->context->memory & COLL_MEM_CUDA ? comm->context->device : -1;
	comm_leave(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_backend(coll_comm_t handle, const char **name)
{
	struct comm *comm = comm_query_enter(handle, name, "coll_comm_backend");

	if (!comm)
		return error_code();
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
		return error_code();
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
	CANCEL_OFF;
	struct comm *comm = comm_query_enter(handle, registration, "coll_comm_register");
	int code, device;

	if (!comm)
		return error_code();
	if (lane_host(comm) && buf && bytes && comm->context->devices &&
	    context_memory_kind(comm->context, buf, &device) == COLL_MEM_HOST)
		comm = lane_switch(comm);
	code = registration_add(comm, buf, bytes, registration);
	comm_leave(comm);
	return code;
}

coll_result_t coll_comm_deregister(coll_comm_t handle, void *registration)
{
	CANCEL_OFF;
	struct comm *comm = comm_enter(handle, "coll_comm_deregister");
	int code;

	if (!comm)
		return error_code();
	if (lane_host(comm) && registration_is_of(lane_host(comm), registration))
		comm = lane_switch(comm);
	code = registration_remove(comm, registration);
	comm_leave(comm);
	return code;
}
