/* SPDX-License-Identifier: BSD-3-Clause */
/* messages.c - the public functions for messages outside the order of the operations. */
#include "comm/lane.h"
#include "api/request.h"
#include "device/device.h"
#include "message/message.h"
#include "compose/staging.h"
#include "base/cancel.h"
#include "base/error.h"

#include <string.h>

/* --------------------------------------------------------------- the arguments -- */

static int messages_check_peer(const struct lane *lane, const char *what,
			       const struct message_args *a)
{
	const int sends = a->kind == COLL_KIND_SEND;

	if (!lane->context->plugin->backend.transport)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' carries no messages of the library, and the "
				 "ranks have no companion (option companion) that does: use "
				 "coll_send and coll_recv in a group, or choose another backend "
				 "with COLL_BACKEND",
				 what, lane->context->plugin->backend.name);
	if ((a->peer < 0 || a->peer >= lane->comm->nranks) && (sends || a->peer != COLL_ANY_SOURCE))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: peer is %d, but ranks go from 0 to %d", what, a->peer,
				 lane->comm->nranks - 1);
	if (a->tag == COLL_ANY_TAG && sends)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: tag is COLL_ANY_TAG (-1, or 4294967295): a message needs "
				 "another tag",
				 what);
	return COLL_SUCCESS;
}

/* Host memory stands in for a device buffer: the library itself copies the bytes of messages that come early. */
static int messages_check_memory(const struct lane *lane, const char *what, struct message_args *a)
{
	const char *name = a->kind == COLL_KIND_SEND ? "sendbuf" : "recvbuf";
	uint32_t kind = COLL_MEM_HOST;
	int device = -1;
	char where[64];

	if (!a->count || !lane->context->classify)
		return COLL_SUCCESS;
	if (lane->context->devices)
		kind = device_kind(a->buf, &device);
	if (!kind)
		return COLL_ERR_DEVICE;
	if (kind & COLL_MEM_HOST & lane->context->memory)
		return COLL_SUCCESS;
	a->staged = kind != COLL_MEM_HOST && lane->context->fallback;
	if (a->staged) {
		a->site = staging_site(a->site);
		return COLL_SUCCESS;
	}
	device_describe(kind, device, where, sizeof(where));
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s: %s is %s, but messages outside the order of the operations need host "
		"memory that backend '%s' takes: copy the data there, use coll_send and "
		"coll_recv, or set COLL_ENABLE_GPU_FALLBACK=1 (option enable_gpu_fallback) to have "
		"it copied through host memory, which is slow",
		what, name, where, lane->context->plugin->backend.name);
}

static int messages_check(const struct lane *lane, const char *what, struct message_args *a)
{
	const size_t elem = coll_dtype_size(a->dtype);
	int code = messages_check_peer(lane, what, a);

	if (code)
		return code;
	if (!elem)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: dtype %d is not a data type", what,
				 a->dtype);
	if (a->count > PTRDIFF_MAX / elem)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: count %zu of %s does not fit into memory", what, a->count,
				 coll_dtype_name(a->dtype));
	if (a->count && !a->buf)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s is NULL, count is %zu", what,
				 a->kind == COLL_KIND_SEND ? "sendbuf" : "recvbuf", a->count);
	return messages_check_memory(lane, what, a);
}

/* ------------------------------------------------------------ sending, receiving -- */

/* Makes the request before the message starts, which cannot be taken back. */
static int messages_begin(coll_comm_t handle, const char *what, struct message_args *args,
			  coll_request_t *request)
{
	struct lane *lane = comm_enter(handle, what);
	struct message *message;
	int code;

	if (request)
		*request = NULL;
	if (!lane)
		return error_code();
	code = comm_error(lane);
	lane = lane_switch(lane);
	if (!code) /* the host lane may have failed, and the native lane not yet */
		code = comm_error(lane);
	if (!code)
		code = request ? messages_check(lane, what, args)
			       : error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is NULL", what);
	if (!code)
		code = message_new(lane, args, &message);
	if (!code) {
		code = request_new(request, &message->task);
		if (code)
			task_unref(&message->task);
		else
			message_start(message);
	}
	comm_leave(lane);
	return code;
}

coll_result_t coll_isend(const void *sendbuf, size_t count, coll_dtype_t dtype, int32_t peer,
			 int32_t tag, coll_comm_t comm, coll_request_t *request)
{
	struct message_args args = {.kind = COLL_KIND_SEND, .dtype = dtype, .peer = peer};

	args.buf = (void *)(uintptr_t)sendbuf;
	args.count = count;
	args.tag = tag;
	args.site = __builtin_return_address(0);
	return messages_begin(comm, "coll_isend", &args, request);
}

coll_result_t coll_irecv(void *recvbuf, size_t count, coll_dtype_t dtype, int32_t peer, int32_t tag,
			 coll_comm_t comm, coll_request_t *request)
{
	struct message_args args = {.kind = COLL_KIND_RECV, .dtype = dtype, .peer = peer};

	args.buf = recvbuf;
	args.count = count;
	args.tag = tag;
	args.site = __builtin_return_address(0);
	return messages_begin(comm, "coll_irecv", &args, request);
}

/* ------------------------------------------------------------------- the status -- */

/* The program's struct may be of an older size. */
static int messages_check_status(const char *what, const coll_status_t *status)
{
	if (status && status->size >= sizeof(status->size))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s", what,
			 status ? "status->size is not set to sizeof(coll_status_t)"
				: "status is NULL");
}

static void messages_give_status(coll_status_t *status, const coll_status_t *from)
{
	const size_t size = (size_t)status->size, begin = sizeof(status->size);
	const size_t most = size < sizeof(*from) ? size : sizeof(*from);

	memcpy((char *)status + begin, (const char *)from + begin, most - begin);
}

/* Enters the request of a message.  Returns NULL with the error in *code. */
static struct message *messages_enter(coll_request_t request, const char *what, int *code)
{
	struct task *task = request_enter(request, what);
	struct message *message = task ? message_of_task(task) : NULL;

	if (!task)
		*code = error_code();
	if (!task || message)
		return message;
	*code = error_set(COLL_ERR_INVALID_USAGE,
			  "%s: the request was not made by coll_isend or coll_irecv", what);
	request_leave(request, task);
	return NULL;
}

coll_result_t coll_request_get_status(coll_request_t request, coll_status_t *status)
{
	int code = messages_check_status("coll_request_get_status", status);
	struct message *message;

	if (code)
		return code;
	message = messages_enter(request, "coll_request_get_status", &code);
	if (!message)
		return code;
	messages_give_status(status, &message->status);
	request_leave(request, &message->task);
	return COLL_SUCCESS;
}

coll_result_t coll_request_cancel(coll_request_t request)
{
	struct message *message;
	int code;

	message = messages_enter(request, "coll_request_cancel", &code);
	if (!message)
		return code;
	code = message_cancel(message);
	request_leave(request, &message->task);
	return code;
}

/* ---------------------------------------------------------------------- probing -- */

/* found NULL: waits. */
static int messages_probe(coll_comm_t handle, const char *what, const struct message_args *args,
			  int32_t *found, coll_status_t *status)
{
	struct lane *lane = comm_enter(handle, what);
	coll_status_t full = {0};
	int code;

	if (!lane)
		return error_code();
	code = comm_error(lane);
	lane = lane_switch(lane);
	if (!code)
		code = messages_check_peer(lane, what, args);
	if (!code && found) {
		context_progress(lane->context);
		lane_help_other(lane);
		*found = message_probe(lane, args, &full);
		code = *found ? COLL_SUCCESS : comm_error(lane);
	} else if (!code) {
		code = message_probe_wait(lane, args, &full);
	}
	if (!code && (!found || *found))
		messages_give_status(status, &full);
	comm_leave(lane);
	return code;
}

coll_result_t coll_probe(int32_t peer, int32_t tag, coll_comm_t comm, coll_status_t *status)
{
	CANCEL_OFF;
	const struct message_args args = {.kind = COLL_KIND_NONE, .peer = peer, .tag = tag};
	const int code = messages_check_status("coll_probe", status);

	return code ? code : messages_probe(comm, "coll_probe", &args, NULL, status);
}

coll_result_t coll_iprobe(int32_t peer, int32_t tag, coll_comm_t comm, int32_t *found,
			  coll_status_t *status)
{
	const struct message_args args = {.kind = COLL_KIND_NONE, .peer = peer, .tag = tag};
	const int code = found ? messages_check_status("coll_iprobe", status)
			       : error_set(COLL_ERR_INVALID_ARGUMENT, "coll_iprobe: found is NULL");

	return code ? code : messages_probe(comm, "coll_iprobe", &args, found, status);
}
