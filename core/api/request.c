/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests: how they are made, started, tested, waited for and freed. */
#include "api/request.h"
#include "api/calls.h"
#include "api/check.h"
#include "comm/callback.h"
#include "comm/limit.h"
#include "message/message.h"
#include "native/native.h"
#include "comm/queue.h"
#include "watch/stall.h"
#include "compose/stream_order.h"
#include "comm/comm_wait.h"
#include "compose/staging.h"
#include "base/error.h"
#include "api/derive.h"
#include "api/group.h"
#include "api/overlap.h"
#include "api/lane_order.h"
#include "base/handle.h"
#include "base/kind.h"

#include <stdlib.h>
#include <string.h>

int request_new(coll_request_t *out, const struct request *like, struct request **made)
{
	struct request *r = malloc(sizeof(*r));

	if (r) {
		*r = *like;
		*out = handle_new(HANDLE_REQUEST, r);
		*made = r;
		if (*out)
			return COLL_SUCCESS;
	}
	free(r);
	*made = NULL;
	return handle_none("a request");
}

struct request *request_enter(coll_request_t handle, const char *what, struct comm **comm)
{
	struct request *r = handle ? handle_pin(HANDLE_REQUEST, handle) : NULL;

	if (!r) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is %s", what,
			  handle_trouble(handle));
		return NULL;
	}
	*comm = comm_enter_lane(r->comm, r->lane, what);
	if (*comm)
		return r;
	handle_unpin(handle);
	return NULL;
}

void request_leave(coll_request_t handle, struct comm *comm)
{
	comm_leave(comm);
	handle_unpin(handle);
}

int request_is_over(const struct request *r, const struct comm *comm)
{
	return r->message ? message_is_done(r->message)
	       : r->split ? r->split->done
			  : comm->finished >= r->number;
}

int request_result(const struct request *r)
{
	return r->message ? message_result(r->message)
	       : r->split ? split_result(r->split)
			  : COLL_SUCCESS;
}

/* A split that blocks issues no operation: it runs at the end of the group. */
int request_is_deferred(const struct request *r, const struct comm *comm)
{
	if (r->split && r->split->derive->block)
		return !r->split->done;
	return !r->message && comm_is_deferred(comm, r->number);
}

/* The program may leave anything in a field that the kind does not use. */
static void request_drop_unused(coll_args_t *a)
{
	if (!kind_is_valid(a->kind))
		return;
	if (!kind_reduces(a->kind))
		a->op = 0;
	if (!kind_has_root(a->kind) && !kind_is_p2p(a->kind))
		a->root = 0;
	if (!kind_is_p2p(a->kind))
		a->tag = 0;
	if (a->kind == COLL_KIND_REDUCE_SCATTERV)
		a->senddispls = a->recvdispls = NULL;
	if (a->kind == COLL_KIND_BARRIER) {
		a->dtype = 0;
		a->count = 0;
		a->sendbuf = a->recvbuf = NULL;
	}
	a->scalar = NULL; /* coll_red_op_create_pre_mul_sum has taken the scalar */
}

/* Copies the arguments, which may be a struct of an older size.  `what` names the public function. */
static int request_take_args(const char *what, const coll_args_t *args, coll_args_t *full)
{
	if (!args || args->size < sizeof(args->size))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s", what,
				 !args ? "args is NULL"
				       : "args->size is not set to sizeof(coll_args_t)");
	memset(full, 0, sizeof(*full));
	memcpy(full, args, args->size < sizeof(*full) ? args->size : sizeof(*full));
	full->size = sizeof(*full);
	if (full->flags)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: args->flags is %#x, but no flag has a meaning yet: set it to "
				 "0",
				 what, (unsigned)full->flags);
	request_drop_unused(full);
	return COLL_SUCCESS;
}

/* Checks and makes the operation; *in is entered, and becomes the communicator that the operation is on. */
static int request_prepare(struct comm **in, const coll_args_t *args, struct op **op)
{
	struct comm *comm = *in;
	struct call call;
	int code = comm_error(comm), to_host;

	if (code)
		return code;
	code = check_call(comm, args, &call);
	to_host = host_memory_takes(comm, &call, code);
	if (!code && !to_host) {
		code = op_make(comm, &call, op);
		to_host = code ? host_memory_takes(comm, &call, code) : HOST_MEMORY_NO;
	}
	if (to_host == HOST_MEMORY_STAGES)
		return lane_order_refuse(args, "in a persistent request: use coll_request_issue");
	if (to_host) {
		*in = lane_switch(comm);
		return request_prepare(in, args, op);
	}
	if (!code)
		op_make_persistent(*op);
	return host_memory_hint(comm, &call, code, 0);
}

coll_result_t coll_request_init(coll_comm_t handle, const coll_args_t *args,
				coll_request_t *request)
{
	struct comm *comm = comm_enter(handle, "coll_request_init");
	struct request like = {.comm = handle}, *r;
	coll_args_t full;
	int code;

	if (request)
		*request = NULL;
	if (!comm)
		return error_code();
	code = request ? request_take_args("coll_request_init", args, &full)
		       : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_init: request is NULL");
	if (!code)
		code = request_prepare(&comm, &full, &like.op);
	like.lane = comm->lane;
	if (!code)
		like.op->site = staging_site(__builtin_return_address(0));
	if (!code)
		code = request_new(request, &like, &r);
	if (code && like.op)
		op_end_persistent(like.op);
	comm_leave(comm);
	return code;
}

coll_result_t coll_request_issue(coll_comm_t handle, const coll_args_t *args,
				 coll_request_t *request)
{
	struct comm *comm = comm_enter(handle, "coll_request_issue");
	const struct request like = {.comm = handle};
	struct issued issued;
	struct request *r = NULL;
	coll_args_t full;
	int code;

	if (request)
		*request = NULL;
	if (!comm)
		return error_code();
	code = request ? request_take_args("coll_request_issue", args, &full)
		       : error_set(COLL_ERR_INVALID_ARGUMENT,
				   "coll_request_issue: request is NULL");
	if (!code) /* before the operation, which cannot be taken back */
		code = request_new(request, &like, &r);
	if (!code)
		code = call_issue(comm, &full, __builtin_return_address(0), &issued);
	if (!code) {
		r->lane = issued.lane;
		r->number = issued.number;
		native_want_marker(comm);
	} else if (r) {
		handle_end(*request, "a request");
		*request = NULL;
		free(r);
	}
	comm_leave(comm);
	return code;
}

static int request_is_under_way(struct comm *comm, const struct request *r)
{
	if (comm->finished < r->number)
		context_progress(comm->context);
	return comm->finished < r->number;
}

/* Before an operation of the host lane, which is entered.  The native lane's lock comes first. */
static int request_begin_on_host(struct comm *host)
{
	struct comm *native = lane_go_native(host);
	int code = comm_error(native);

	if (!code)
		code = lane_order_begin(native);
	(void)lane_go_host(native);
	return code ? code : comm_error(host);
}

static void request_end_on_host(struct comm *host, uint64_t number)
{
	struct comm *native = lane_go_native(host);

	lane_note_issued(native, number);
	(void)lane_go_host(native);
}

/* Issues the operation; the lock is released meanwhile. */
static int request_begin(struct request *r, struct comm *comm)
{
	const uint64_t group = group_current();
	const int on_host = comm->lane == LANE_HOST;
	int code = on_host ? request_begin_on_host(comm) : COLL_SUCCESS;

	if (!code)
		code = group_join(comm);
	if (!code && r->op->call.args.stream && !comm->native)
		code = stream_order_begin(r->op, group);
	if (!code && group)
		code = overlap_check(comm, &r->op->call);
	if (code)
		return code;
	r->number = op_enqueue(r->op, group);
	if (!group)
		queue_issued(comm);
	native_want_marker(comm);
	if (on_host)
		request_end_on_host(comm, r->number);
	return COLL_SUCCESS;
}

coll_result_t coll_request_start(coll_request_t request)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_request_start", &comm);
	int code;

	if (!r)
		return error_code();
	code = comm_error(comm);
	if (!code && (!r->op || r->starting || request_is_under_way(comm, r)))
		code = error_set(COLL_ERR_INVALID_USAGE, "coll_request_start: the request %s",
				 r->op ? "is still under way"
				       : "was not made by coll_request_init");
	if (!code) {
		r->starting = 1;
		code = request_begin(r, comm);
		r->starting = 0;
	}
	request_leave(request, comm);
	return code;
}

coll_result_t coll_get_request(coll_comm_t handle, coll_request_t *request)
{
	struct comm *comm = comm_enter(handle, "coll_get_request");
	struct request like = {.comm = handle}, *r;
	struct issued newest;

	if (!comm)
		return error_code();
	newest = lane_newest(comm);
	like.lane = newest.lane;
	like.number = newest.number;
	native_want_marker(comm);
	comm_leave(comm);
	if (!request)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_get_request: request is NULL");
	return request_new(request, &like, &r);
}

coll_result_t coll_test(coll_request_t request, int32_t *done)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_test", &comm);
	int code, over;

	if (!r)
		return error_code();
	context_progress(comm->context);
	if (comm->finished < r->number) {
		host_memory_help(comm->context, comm);
		stall_poll(comm);
	}
	over = request_is_over(r, comm);
	if (over)
		code = request_result(r);
	else
		code = r->message ? COLL_SUCCESS : comm_error(comm);
	if (done)
		*done = over;
	request_leave(request, comm);
	return done ? code : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_test: done is NULL");
}

/* May return CONTEXT_LOST; the thread may be cancelled meanwhile. */
static int request_wait(const struct request *r, struct comm *comm, coll_request_t handle)
{
	int code;

	if (request_is_deferred(r, comm))
		return error_set(
			COLL_ERR_INVALID_USAGE,
			"a wait inside a group would never end: call coll_group_end first");
	code = comm_wait_or_leave(comm, r->number, handle);
	return code != CONTEXT_LOST && request_is_over(r, comm) ? request_result(r) : code;
}

coll_result_t coll_wait(coll_request_t request)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_wait", &comm);
	int code;

	if (!r)
		return error_code();
	if (r->message)
		code = message_wait_or_leave(r->message, request);
	else if (request_is_over(r, comm))
		code = request_result(r);
	else
		code = request_wait(r, comm, request);
	if (code == CONTEXT_LOST) {
		handle_unpin(request);
		return comm_leave_lost(comm);
	}
	request_leave(request, comm);
	return code;
}

coll_result_t coll_request_set_callback(coll_request_t request, coll_request_fn fn, void *user)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_request_set_callback", &comm);
	int code;

	if (!r)
		return error_code();
	if (!fn)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_set_callback: fn is NULL");
	else if (r->message)
		code = message_call_back(r->message, fn, user);
	else if (r->split)
		code = split_call_back(r->split, fn, user);
	else
		code = callback_add(comm, r->number, fn, user);
	if (!code)
		callback_check(comm);
	request_leave(request, comm);
	return code;
}

coll_result_t coll_request_set_timeout(coll_request_t request, int64_t timeout_ms)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_request_set_timeout", &comm);
	int code = COLL_SUCCESS;

	if (!r)
		return error_code();
	if (timeout_ms < 1 || timeout_ms > INT64_C(1000) * CONFIG_LONGEST_SECONDS)
		code = error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_set_timeout: timeout_ms is %lld, but must be from 1 "
				 "to %lld",
				 (long long)timeout_ms, 1000LL * CONFIG_LONGEST_SECONDS);
	else if (r->message)
		message_set_limit(r->message, timeout_ms * 1000);
	else
		code = limit_add(comm, r->number, timeout_ms * 1000);
	request_leave(request, comm);
	return code;
}

coll_result_t coll_request_free(coll_request_t request)
{
	struct request *r = request ? handle_pin(HANDLE_REQUEST, request) : NULL;
	struct comm *comm;
	int code;

	if (!r)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_free: request is %s",
				 handle_trouble(request));
	code = handle_end(request, "a request");
	if (code == HANDLE_PINNED)
		return COLL_SUCCESS;
	if (code)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_free: another thread is freeing it already");
	comm = r->op ? comm_enter_lane(r->comm, r->lane, "coll_request_free") : NULL;
	if (comm) {
		op_end_persistent(r->op);
		comm_leave(comm);
	}
	message_unref(r->message);
	split_unref(r->split);
	free(r);
	return COLL_SUCCESS;
}
