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
	struct lane *lane = comm_enter(handle, "coll_comm_get_async_error");

	if (!lane)
		return error_code();
	context_progress(lane->context);
	engines_check(lane);
	(void)lane->client->ask_outside(lane);
	lane_progress(lane);
	if (error)
		*error = lane->error;
	if (error && lane->error)
		atomic_store(&lane->comm->outcome->is_told, 1);
	comm_leave(lane);
	return error ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_get_async_error: error is NULL");
}

const char *coll_get_last_error(coll_comm_t handle)
{
	static _Thread_local char text[sizeof(((struct outcome *)0)->text)];
	struct lane *lane;

	if (!handle)
		return error_text();
	lane = comm_pin_lane(handle, LANE_FIRST);
	if (!lane)
		return "";
	context_lock(lane->context);
	lane_check_other(lane);
	snprintf(text, sizeof(text), "%s", comm_failure(lane));
	comm_leave(lane);
	return text;
}

/* Enters the communicator for a query whose result goes to `out`. */
static struct lane *comm_query_enter(coll_comm_t handle, const void *out, const char *what)
{
	if (!out) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: the output pointer is NULL", what);
		return NULL;
	}
	return comm_enter(handle, what);
}

coll_result_t coll_comm_members(coll_comm_t handle, int32_t *ranks)
{
	struct lane *lane = comm_enter(handle, "coll_comm_members");

	if (!lane)
		return error_code();
	for (int r = 0; ranks && r < lane->comm->nranks; r++)
		ranks[r] = comm_world_rank(lane, r);
	comm_leave(lane);
	return ranks ? COLL_SUCCESS
		     : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_members: ranks is NULL");
}

/* host_context may know before the control channel. */
static int failed_is(struct lane *lane, int rank)
{
	struct lane *host = lane_host(lane);
	int state = lane->peer_state[rank];

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
	struct lane *lane = comm_enter(handle, "coll_comm_get_failed");
	int code = COLL_SUCCESS;

	if (!lane)
		return error_code();
	if (!count || capacity < 0 || (capacity && !ranks))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_get_failed: %s",
				 !count         ? "count is NULL"
				 : capacity < 0 ? "capacity is negative"
						: "ranks is NULL, but capacity is not 0");
	if (!code) {
		context_progress(lane->context);
		lane_progress(lane);
		*count = 0;
		for (int r = 0; r < lane->comm->nranks; r++) {
			if (!failed_is(lane, r))
				continue;
			if (*count < capacity)
				ranks[*count] = r;
			++*count;
		}
	}
	comm_leave(lane);
	return code;
}

coll_result_t coll_comm_set_timeout(coll_comm_t handle, int64_t timeout_ms)
{
	struct lane *lane = comm_enter(handle, "coll_comm_set_timeout");
	int code;

	if (!lane)
		return error_code();
	code = config_check_timeout("coll_comm_set_timeout", "timeout_ms", timeout_ms);
	if (!code)
		lane->comm->timeout_us = timeout_ms * 1000;
	comm_leave(lane);
	return code;
}

coll_result_t coll_comm_count(coll_comm_t handle, int32_t *nranks)
{
	struct lane *lane = comm_query_enter(handle, nranks, "coll_comm_count");

	if (!lane)
		return error_code();
	*nranks = lane->comm->nranks;
	comm_leave(lane);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_user_rank(coll_comm_t handle, int32_t *rank)
{
	struct lane *lane = comm_query_enter(handle, rank, "coll_comm_user_rank");

	if (!lane)
		return error_code();
	*rank = lane->comm->rank;
	comm_leave(lane);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_device(coll_comm_t handle, int32_t *device)
{
	struct lane *lane = comm_query_enter(handle, device, "coll_comm_device");

	if (!lane)
		return error_code();
	*device = lane->context->memory & COLL_MEM_CUDA ? lane->context->device : -1;
	comm_leave(lane);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_backend(coll_comm_t handle, const char **name)
{
	struct lane *lane = comm_query_enter(handle, name, "coll_comm_backend");

	if (!lane)
		return error_code();
	*name = lane->context->plugin->backend.name; /* the plugin's own string: never unloaded */
	comm_leave(lane);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_describe(coll_comm_t handle, char *text, size_t size)
{
	struct lane *lane;

	if (text && !size)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_comm_describe: size is 0, expected at least 1");
	lane = comm_query_enter(handle, text, "coll_comm_describe");
	if (!lane)
		return error_code();
	context_describe(lane->context, text, size);
	comm_leave(lane);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_native_handle(coll_comm_t handle, void **native)
{
	struct lane *lane = comm_query_enter(handle, native, "coll_comm_native_handle");
	const coll_native_t *n;
	int code = COLL_SUCCESS;

	if (!lane)
		return error_code();
	n = lane_native(lane);
	*native = n && n->handle && lane_native_ep(lane) ? n->handle(lane_native_ep(lane)) : NULL;
	if (!*native)
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "backend '%s' has no communicator object of its own",
				 lane->context->plugin->backend.name);
	comm_leave(lane);
	return code;
}

/* --------------------------------------------------------------------- memory -- */

coll_result_t coll_comm_register(coll_comm_t handle, void *buf, size_t bytes, void **registration)
{
	CANCEL_OFF;
	struct lane *lane = comm_query_enter(handle, registration, "coll_comm_register");
	int code, device;

	if (!lane)
		return error_code();
	if (lane_host(lane) && buf && bytes && lane->context->devices &&
	    context_memory_kind(lane->context, buf, &device) == COLL_MEM_HOST)
		lane = lane_switch(lane);
	code = registration_add(lane, buf, bytes, registration);
	comm_leave(lane);
	return code;
}

coll_result_t coll_comm_deregister(coll_comm_t handle, void *registration)
{
	CANCEL_OFF;
	struct lane *lane = comm_enter(handle, "coll_comm_deregister");
	int code;

	if (!lane)
		return error_code();
	if (lane_host(lane) && registration_is_of(lane_host(lane), registration))
		lane = lane_switch(lane);
	code = registration_remove(lane, registration);
	comm_leave(lane);
	return code;
}
