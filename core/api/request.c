/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests: how they are made, started, tested, waited for and freed. */
#include "api/request.h"
#include "api/calls.h"
#include "api/check.h"
#include "comm/comm_wait.h"
#include "comm/engines.h"
#include "comm/queue.h"
#include "comm/staging_sites.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/kind.h"

#include <stdlib.h>
#include <string.h>

/* A persistent request: its operation is issued by each start. */
struct persistent {
	struct task task; /* number 0: not started */
	struct op *op;    /* the communicator owns it and frees it */
	int starting;     /* a thread is in coll_request_start, which may have released the lock */
};

static const struct task_kind persistent_kind = {.by_number = 1};

static struct persistent *persistent_of(struct task *task)
{
	return task->kind == &persistent_kind ? (struct persistent *)task : NULL;
}

int request_new(coll_request_t *request, struct task *task)
{
	*request = handle_new(HANDLE_REQUEST, task);
	return *request ? COLL_SUCCESS : handle_none("a request");
}

void request_drop(coll_request_t *request)
{
	struct task *task = handle_pin(HANDLE_REQUEST, *request);

	handle_end(*request, "a request");
	*request = NULL;
	task_unref(task);
}

struct task *request_enter(coll_request_t request, const char *what)
{
	struct task *task = request ? handle_pin(HANDLE_REQUEST, request) : NULL;

	if (!task) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is %s", what,
			  handle_trouble(request));
		return NULL;
	}
	if (comm_enter_lane(task->handle, task->lane_index, what))
		return task;
	handle_unpin(request);
	return NULL;
}

void request_leave(coll_request_t request, struct task *task)
{
	comm_leave(task->lane);
	handle_unpin(request);
}

/* The program may leave anything in a field that the kind does not use. */
static void request_drop_unused(coll_args_t *a)
{
	if (!kind_at(a->kind)->reduces)
		a->op = 0;
	if (!kind_at(a->kind)->has_root && !kind_at(a->kind)->is_p2p)
		a->root = 0;
	if (!kind_at(a->kind)->is_v)
		a->sendcounts = a->recvcounts = a->senddispls = a->recvdispls = NULL;
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
	if (full->flags & ((1u << COLL_ARGS_ALGORITHM) - 1))
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: args->flags is %#x, of which the lower 16 bits have no meaning "
			"yet: set them to 0",
			what, (unsigned)full->flags);
	if (!kind_is_valid(full->kind))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "kind %d is not a kind of operation",
				 full->kind);
	request_drop_unused(full);
	return COLL_SUCCESS;
}

/* Checks and makes the operation; *in is entered, and becomes the communicator that the operation is on. */
static int request_prepare(struct lane **in, const coll_args_t *args, struct op **op)
{
	struct lane *lane = *in;
	struct call call;
	int code = comm_error(lane), to_host;

	if (code)
		return code;
	code = host_memory_make(lane, &call, check_call(lane, args, &call), op, &to_host);
	if (to_host == HOST_MEMORY_STAGES)
		return host_memory_refuse(args, "in a persistent request: use coll_request_issue");
	if (to_host) {
		*in = lane_switch(lane);
		return request_prepare(in, args, op);
	}
	if (!code)
		op_make_persistent(*op);
	return host_memory_hint(lane, &call, code, 0);
}

/* *in is entered, and becomes the communicator that the operation is on. */
static int request_make_persistent(struct lane **in, const coll_args_t *args, const void *site,
				   coll_request_t *request)
{
	struct persistent *p = calloc(1, sizeof(*p));
	int code;

	if (!p)
		return handle_none("a request");
	code = request_prepare(in, args, &p->op);
	if (!code) {
		task_init(&p->task, &persistent_kind, *in);
		p->op->site = staging_site(site);
		code = request_new(request, &p->task);
	}
	if (!code)
		return COLL_SUCCESS;
	if (p->op)
		op_end_persistent(p->op);
	free(p);
	return code;
}

coll_result_t coll_request_init(coll_comm_t handle, const coll_args_t *args,
				coll_request_t *request)
{
	struct lane *lane = comm_enter(handle, "coll_request_init");
	coll_args_t full;
	int code;

	if (request)
		*request = NULL;
	if (!lane)
		return error_code();
	code = request ? request_take_args("coll_request_init", args, &full)
		       : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_init: request is NULL");
	if (!code)
		code = request_make_persistent(&lane, &full, __builtin_return_address(0), request);
	comm_leave(lane);
	return code;
}

/* Makes a request for an operation: *task is its task, or NULL on an error. */
static int request_for(struct lane *lane, uint64_t number, coll_request_t *request,
		       struct task **task)
{
	int code;

	*task = task_new(lane, number);
	code = *task ? request_new(request, *task) : error_code();
	if (!code)
		return COLL_SUCCESS;
	task_unref(*task);
	*task = NULL;
	return code;
}

coll_result_t coll_request_issue(coll_comm_t handle, const coll_args_t *args,
				 coll_request_t *request)
{
	struct lane *lane = comm_enter(handle, "coll_request_issue");
	struct issued issued;
	struct task *task = NULL;
	coll_args_t full;
	int code;

	if (request)
		*request = NULL;
	if (!lane)
		return error_code();
	code = request ? request_take_args("coll_request_issue", args, &full)
		       : error_set(COLL_ERR_INVALID_ARGUMENT,
				   "coll_request_issue: request is NULL");
	if (!code) /* before the operation, which cannot be taken back */
		code = request_for(lane, 0, request, &task);
	if (!code)
		code = call_issue(lane, &full, __builtin_return_address(0), &issued);
	if (!code) {
		task_assign(task, lane->comm->lane[issued.lane_index], issued.number);
		engines_mark(lane);
	} else if (task) {
		request_drop(request);
	}
	comm_leave(lane);
	return code;
}

static int request_is_under_way(struct task *task)
{
	if (!task_is_done(task))
		context_progress(task->lane->context);
	return !task_is_done(task);
}

/* lane_go_native, but NULL, with the host lane still entered, if a thread has left the library with the native lane's lock. */
static struct lane *request_go_native(struct lane *host)
{
	struct lane *native = host->comm->lane[LANE_FIRST];

	context_leave(host->context);
	if (context_await_lock(native->context, native->comm->timeout_us)) {
		context_entered(native->context);
		lane_check_other(native);
		return native;
	}
	atomic_store(&native->context->lost, 1);
	context_enter(host->context);
	return NULL;
}

/* Before an operation of the host lane, which is entered.  The native lane's lock comes first. */
static int request_begin_on_host(struct lane *host)
{
	struct lane *native = request_go_native(host);
	int code = native ? comm_error(native) : comm_lost(host->comm->lane[LANE_FIRST]);

	if (!native)
		return code;
	if (!code)
		code = native->client->lanes->begin(native);
	(void)lane_go_host(native);
	return code ? code : comm_error(host);
}

static void request_end_on_host(struct lane *host, uint64_t number)
{
	struct lane *native = request_go_native(host);

	if (!native)
		return;
	/* A failure is the communicator's, which who waits for the request is told. */
	if (!group_current())
		(void)native->client->lanes->follow(native, number);
	lane_note_issued(native, number);
	(void)lane_go_host(native);
}

/* Issues the operation; the lock is released meanwhile. */
static int request_begin(struct persistent *p)
{
	struct lane *lane = p->task.lane;
	const uint64_t group = group_current();
	const int on_host = lane->index == LANE_HOST;
	int code = on_host ? request_begin_on_host(lane) : COLL_SUCCESS;

	if (!code)
		code = call_join(p->op, group);
	if (code)
		return code;
	p->task.number = op_enqueue(p->op, group);
	if (!group)
		queue_issued(lane);
	engines_mark(lane);
	if (on_host)
		request_end_on_host(lane, p->task.number);
	return COLL_SUCCESS;
}

coll_result_t coll_request_start(coll_request_t request)
{
	struct task *task = request_enter(request, "coll_request_start");
	struct persistent *p;
	int code;

	if (!task)
		return error_code();
	p = persistent_of(task);
	code = comm_error(task->lane);
	if (!code && (!p || p->starting || request_is_under_way(task)))
		code = error_set(COLL_ERR_INVALID_USAGE, "coll_request_start: the request %s",
				 p ? "is still under way" : "was not made by coll_request_init");
	if (!code) {
		p->starting = 1;
		code = request_begin(p);
		p->starting = 0;
	}
	request_leave(request, task);
	return code;
}

coll_result_t coll_get_request(coll_comm_t handle, coll_request_t *request)
{
	struct lane *lane = comm_enter(handle, "coll_get_request");
	struct issued newest;
	struct task *task;
	int code;

	if (!lane)
		return error_code();
	newest = lane_newest(lane);
	engines_mark(lane);
	code = request ? request_for(lane->comm->lane[newest.lane_index], newest.number, request,
				     &task)
		       : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_get_request: request is NULL");
	comm_leave(lane);
	return code;
}

coll_result_t coll_test(coll_request_t request, int32_t *done)
{
	struct task *task = request_enter(request, "coll_test");
	struct lane *lane;
	int code, over;

	if (!task)
		return error_code();
	lane = task->lane;
	context_progress(lane->context);
	if (lane->finished < task->number) {
		lane_help(lane->context, lane);
		lane->client->poll(lane);
	}
	over = task_is_done(task);
	code = over ? task_result(task) : comm_error(lane);
	if (done)
		*done = over;
	request_leave(request, task);
	return done ? code : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_test: done is NULL");
}

coll_result_t coll_wait(coll_request_t request)
{
	struct task *task = request_enter(request, "coll_wait");
	int code;

	if (!task)
		return error_code();
	code = task_wait(task, request);
	if (code != CONTEXT_LOST) {
		request_leave(request, task);
		return code;
	}
	code = comm_leave_lost(task->lane);
	handle_unpin(request);
	return code;
}

coll_result_t coll_request_set_callback(coll_request_t request, coll_request_fn fn, void *user)
{
	struct task *task = request_enter(request, "coll_request_set_callback");
	int code;

	if (!task)
		return error_code();
	code = fn ? task_call_back(task, fn, user)
		  : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_set_callback: fn is NULL");
	request_leave(request, task);
	return code;
}

coll_result_t coll_request_set_timeout(coll_request_t request, int64_t timeout_ms)
{
	struct task *task = request_enter(request, "coll_request_set_timeout");
	int code;

	if (!task)
		return error_code();
	code = config_check_timeout("coll_request_set_timeout", "timeout_ms", timeout_ms);
	if (!code)
		task_set_limit(task, timeout_ms * 1000);
	request_leave(request, task);
	return code;
}

/* The communicator may have ended already, and the operation with it. */
static void request_end_persistent(struct persistent *p)
{
	struct lane *lane =
		comm_enter_lane(p->task.handle, p->task.lane_index, "coll_request_free");

	if (!lane)
		return;
	op_end_persistent(p->op);
	comm_leave(lane);
}

coll_result_t coll_request_free(coll_request_t request)
{
	struct task *task = request ? handle_pin(HANDLE_REQUEST, request) : NULL;
	int code;

	if (!task)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_request_free: request is %s",
				 handle_trouble(request));
	code = handle_end(request, "a request");
	if (code == HANDLE_PINNED)
		return COLL_SUCCESS;
	if (code)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_request_free: another thread is freeing it already");
	if (persistent_of(task))
		request_end_persistent(persistent_of(task));
	task_unref(task);
	return COLL_SUCCESS;
}
