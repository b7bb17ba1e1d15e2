/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests: a position in a communicator's queue, and a persistent request's operation. */
#include "exec/comm.h"
#include "api/check.h"
#include "exec/native.h"
#include "exec/queue.h"
#include "exec/stall.h"
#include "base/error.h"
#include "api/group.h"
#include "base/handle.h"
#include "base/kind.h"

#include <stdlib.h>
#include <string.h>

struct request {
	coll_comm_t comm;
	uint64_t number; /* the operation; 0: not started */
	struct op *op;   /* persistent: the communicator owns it and frees it */
};

static int request_new(coll_request_t *out, const struct request *like)
{
	struct request *r = malloc(sizeof(*r));

	if (r) {
		*r = *like;
		*out = handle_new(HANDLE_REQUEST, r);
		if (*out)
			return COLL_SUCCESS;
	}
	free(r);
	return handle_none("a request");
}

/* Pins the request and enters its communicator. */
static struct request *request_enter(coll_request_t handle, const char *what, struct comm **comm)
{
	struct request *r = handle ? handle_pin(HANDLE_REQUEST, handle) : NULL;

	if (!r) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is %s", what,
			  handle_trouble(handle));
		return NULL;
	}
	*comm = comm_enter(r->comm, what);
	if (*comm)
		return r;
	handle_unpin(handle);
	return NULL;
}

static void request_leave(coll_request_t handle, struct comm *comm)
{
	comm_leave(comm);
	handle_unpin(handle);
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
		a->recvdispls = NULL;
	a->scalar = NULL; /* coll_red_op_create_pre_mul_sum has taken the scalar */
}

/* Checks and makes the operation; the communicator is entered. */
static int request_prepare(struct comm *comm, const coll_args_t *args, struct op **op)
{
	coll_args_t full = {0};
	struct call call;
	int code;

	memcpy(&full, args, args->size < sizeof(full) ? args->size : sizeof(full));
	full.size = sizeof(full);
	if (full.flags)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_init: args->flags is %#x, but no flag has a meaning "
				 "yet: set it to 0",
				 (unsigned)full.flags);
	request_drop_unused(&full);
	code = comm_error(comm);
	if (!code)
		code = check_call(comm, &full, &call);
	if (!code)
		code = op_make(comm, &call, op);
	if (!code)
		op_make_persistent(*op);
	return code;
}

coll_result_t coll_request_init(coll_comm_t handle, const coll_args_t *args,
				coll_request_t *request)
{
	struct comm *comm = comm_enter(handle, "coll_request_init");
	struct request like = {.comm = handle};
	int code = COLL_SUCCESS;

	if (request)
		*request = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!args || !request || args->size < sizeof(args->size))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_init: %s",
				 !request ? "request is NULL"
				 : !args  ? "args is NULL"
					  : "args->size is not set to sizeof(coll_args_t)");
	if (!code)
		code = request_prepare(comm, args, &like.op);
	if (!code)
		code = request_new(request, &like);
	if (code && like.op)
		op_end_persistent(like.op);
	comm_leave(comm);
	return code;
}

static int request_is_under_way(struct comm *comm, const struct request *r)
{
	if (comm->finished < r->number)
		context_progress(comm->context);
	return comm->finished < r->number;
}

coll_result_t coll_request_start(coll_request_t request)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_request_start", &comm);
	int code;

	if (!r)
		return COLL_ERR_INVALID_ARGUMENT;
	code = comm_error(comm);
	if (!code && (!r->op || request_is_under_way(comm, r)))
		code = error_set(COLL_ERR_INVALID_USAGE, "coll_request_start: the request %s",
				 r->op ? "is still under way"
				       : "was not made by coll_request_init");
	if (!code)
		code = group_join(comm);
	if (!code) {
		op_enqueue(r->op, group_current());
		r->number = comm->issued;
		if (!group_current())
			queue_issued(comm);
		native_want_marker(comm);
	}
	request_leave(request, comm);
	return code;
}

coll_result_t coll_get_request(coll_comm_t handle, coll_request_t *request)
{
	struct comm *comm = comm_enter(handle, "coll_get_request");
	struct request like = {.comm = handle};

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	like.number = comm->issued;
	native_want_marker(comm);
	comm_leave(comm);
	if (!request)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_get_request: request is NULL");
	return request_new(request, &like);
}

coll_result_t coll_test(coll_request_t request, int32_t *done)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_test", &comm);
	int code;

	if (!r)
		return COLL_ERR_INVALID_ARGUMENT;
	context_progress(comm->context);
	if (comm->finished < r->number)
		stall_poll(comm);
	code = comm->finished >= r->number ? COLL_SUCCESS : comm_error(comm);
	if (done)
		*done = comm->finished >= r->number;
	request_leave(request, comm);
	return done ? code : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_test: done is NULL");
}

coll_result_t coll_wait(coll_request_t request)
{
	struct comm *comm;
	struct request *r = request_enter(request, "coll_wait", &comm);
	int code;

	if (!r)
		return COLL_ERR_INVALID_ARGUMENT;
	code = comm->finished >= r->number ? COLL_SUCCESS : comm_wait(comm, r->number);
	request_leave(request, comm);
	return code;
}

coll_result_t coll_request_free(coll_request_t request)
{
	struct request *r = request ? handle_pin(HANDLE_REQUEST, request) : NULL;
	struct comm *comm;

	if (!r)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_free: request is %s",
				 handle_trouble(request));
	if (handle_retire(request))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_free: another thread is freeing it already");
	comm = r->op ? comm_enter(r->comm, "coll_request_free") : NULL;
	if (comm) {
		op_end_persistent(r->op);
		comm_leave(comm);
	}
	free(r);
	return COLL_SUCCESS;
}
