/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.c - operations on device memory: the memory kinds of the buffers, the decision whether the
 * backend reaches them, and host memory that stands in for a buffer that the backend does not reach, if
 * the user allows it.  schedule/stage.c adds the copies to the schedule, staging_copy.c runs them.
 */
#include "device/device.h"
#include "exec/staging.h"
#include "exec/native_slot.h"
#include "exec/op.h"
#include "exec/stream_order.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_ALIGN = 64 };

/* The longest copy: the cancellation of an operation waits for the copies in flight. */
#define STAGING_COPY_MAX ((size_t)4 << 20)

/* ------------------------------------------------------- the used parts of buffers -- */

/* Finds the i-th block of a buffer that this rank uses, in bytes; returns 0 if there is none. */
static int staging_block(const struct op *op, int buf, int i, size_t *off, size_t *len)
{
	const coll_args_t *a = &op->call.args;
	const size_t *counts = buf == COLL_BUFFER_RECV ? a->recvcounts : a->sendcounts;
	const size_t *displs = buf == COLL_BUFFER_RECV ? a->recvdispls : a->senddispls;
	size_t elem = coll_dtype_size(a->dtype);

	/* One piece, which the blocks of a list become in the staging memory. */
	if (!displs || a->kind == COLL_KIND_REDUCE_SCATTERV || op->call.list & 1 << buf) {
		*off = 0;
		*len = i ? 0 : op->call.elements[buf] * elem;
		return i == 0;
	}
	if (i == op->comm->nranks)
		return 0;
	*off = displs[i] * elem;
	*len = counts[i] * elem;
	return 1;
}

static uintptr_t staging_address(const struct op *op, int buf)
{
	return buf == COLL_BUFFER_RECV ? (uintptr_t)op->call.args.recvbuf
				       : (uintptr_t)op->call.args.sendbuf;
}

static struct stage_span staging_span(const struct op *op, int buf)
{
	uintptr_t base = staging_address(op, buf);
	struct stage_span span = {UINTPTR_MAX, 0};
	size_t off, len;

	for (int i = 0; staging_block(op, buf, i, &off, &len); i++) {
		if (!len)
			continue;
		span.begin = base + off < span.begin ? base + off : span.begin;
		span.end = base + off + len > span.end ? base + off + len : span.end;
	}
	return span.end ? span : (struct stage_span){0, 0};
}

/* ------------------------------------------------------------------- kinds of memory -- */

static const char *staging_name(int buf)
{
	return buf == COLL_BUFFER_SEND ? "sendbuf" : buf == COLL_BUFFER_RECV ? "recvbuf" : "scalar";
}

/* That buffer is on the host, the other one is not: host_comm would have a call with both on the host. */
static int staging_refuse_mixed(const struct op *op, int buf)
{
	const int other = buf == COLL_BUFFER_RECV ? COLL_BUFFER_SEND : COLL_BUFFER_RECV;
	const uintptr_t address = staging_span(op, other).begin;
	int device = -1;
	char where[64];
	uint32_t kind;

	kind = device_kind((const void *)address, &device);
	device_describe(kind, device, where, sizeof(where));
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: %s is host memory, but %s is %s: pass both in memory of the device",
			 kind_name(op->call.args.kind), staging_name(buf), staging_name(other),
			 where);
}

/* Neither the backend nor staging can use a buffer in that memory. */
static int staging_refuse(const struct op *op, int buf, uint32_t kind, int device)
{
	const struct context *context = op->comm->context;
	const coll_backend_t *b = &context->plugin->backend;
	const char *what = kind_name(op->call.args.kind);
	char where[64];

	device_describe(kind, device, where, sizeof(where));
	if (kind == COLL_MEM_HOST && op->comm->host_comm)
		return staging_refuse_mixed(op, buf);
	if (kind == COLL_MEM_HOST && !b->transport)
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: %s is %s, which backend '%s' does not take: choose another backend "
			"with COLL_BACKEND, or pass other memory; with a companion (option "
			"companion) the ranks would have calls on host memory",
			what, staging_name(buf), where, b->name);
	if (context->memory & kind && !b->transport)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' reduces by itself and cannot do this: scale or "
				 "combine the data outside the collective",
				 what, b->name);
	if (kind == COLL_MEM_HOST || !b->transport)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: %s is %s, which backend '%s' does not take: choose another "
				 "backend with COLL_BACKEND, or pass other memory",
				 what, staging_name(buf), where, b->name);
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s: %s is %s, %s '%s' %s: choose another backend with COLL_BACKEND, or set "
		"COLL_ENABLE_GPU_FALLBACK=1 (option enable_gpu_fallback) to have it copied through "
		"host memory, which is slow",
		what, staging_name(buf), where,
		context->memory & kind ? "but reductions over backend" : "which backend", b->name,
		context->memory & kind ? "work in host memory only" : "does not take");
}

/*
 * A transport that reaches device memory calls the driver while it moves the bytes.  If a stream waits for them, the
 * driver may block that thread for ever: see bounce.h.
 */
static int staging_keeps_from_driver(const struct op *op)
{
	return op->call.args.stream && !op->comm->native && op->comm->context->fallback;
}

/* Decides whether a buffer in that memory is used as it is, staged or refused. */
static int staging_decide(struct op *op, int buf, uint32_t kind, int device)
{
	const struct context *context = op->comm->context;
	int reached = (context->memory & kind) != 0;

	if (kind == COLL_MEM_CUDA && !context->plugin->backend.transport && context->device >= 0 &&
	    device >= 0 && device != context->device)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: %s is memory of CUDA device %d, but the communicator is on "
				 "device %d",
				 kind_name(op->call.args.kind), staging_name(buf), device,
				 context->device);
	if (buf != STAGING_SCALAR)
		op->call.memory[buf] = kind;
	if (kind != COLL_MEM_HOST &&
	    (!reached || kind_reduces(op->call.args.kind) || staging_keeps_from_driver(op)))
		op->call.staged |= 1 << buf;
	if (reached && (!(op->call.staged & 1 << buf) || native_slot(op->comm, &op->call)))
		return COLL_SUCCESS;
	if (kind != COLL_MEM_HOST && context->fallback && context->plugin->backend.transport)
		return COLL_SUCCESS;
	return staging_refuse(op, buf, kind, device);
}

static int staging_look_at(struct op *op, int buf, uintptr_t address)
{
	uint32_t kind = COLL_MEM_HOST;
	int device = -1;

	if (op->comm->context->devices)
		kind = device_kind((const void *)address, &device);
	return kind ? staging_decide(op, buf, kind, device) : COLL_ERR_DEVICE;
}

int staging_look(struct op *op)
{
	int code = COLL_SUCCESS;

	op->call.memory[COLL_BUFFER_SEND] = op->call.memory[COLL_BUFFER_RECV] = 0;
	if (!kind_is_valid(op->call.args.kind))
		return COLL_SUCCESS;
	for (int buf = 0; !code && buf <= COLL_BUFFER_RECV; buf++) {
		struct stage_span span = staging_span(op, buf);

		if (span.end)
			code = staging_look_at(op, buf, span.begin);
	}
	if (!code && op->call.redop.premul_sum && op->call.redop.scalar)
		code = staging_look_at(op, STAGING_SCALAR, (uintptr_t)op->call.redop.scalar);
	if (op->call.staged & 1 << STAGING_SCALAR) {
		op->staging.scalar = op->call.redop.scalar;
		op->call.redop.scalar = NULL; /* staging_begin copies the factor to redop.value */
	}
	return code;
}

/* ------------------------------------------------------------------- staging -- */

void staging_free(struct op *op)
{
	const coll_host_t *host = &op->comm->context->host;

	if (op->staging.pinned)
		device_unpin(op->staging.memory);
	else
		host->free(host, op->staging.memory, op->staging.size);
	op->staging.memory = NULL;
	op->staging.size = 0;
	op->staging.pinned = 0;
}

/* Room for operations with streams grows by doubling, since the smaller rooms stay allocated. */
static int staging_replace(struct op *op, size_t *bytes)
{
	size_t size = STAGING_ALIGN;

	if (!op->comm->order || !op->staging.pinned) {
		staging_free(op);
		return COLL_SUCCESS;
	}
	while (size < *bytes)
		size *= 2;
	*bytes = size;
	if (stream_order_park(op->comm, op->staging.memory))
		return COLL_ERR_NO_MEMORY;
	op->staging.memory = NULL;
	op->staging.size = 0;
	op->staging.pinned = 0;
	return COLL_SUCCESS;
}

/* Copies from memory that is not pinned are correct, but the driver may block in them. */
static int staging_alloc(struct op *op, size_t bytes, uintptr_t near)
{
	const coll_host_t *host = &op->comm->context->host;

	if (bytes <= op->staging.size)
		return COLL_SUCCESS;
	if (staging_replace(op, &bytes))
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory",
				 kind_name(op->call.args.kind));
	op->staging.memory = device_pin(bytes, (const void *)near);
	op->staging.pinned = op->staging.memory != NULL;
	if (!op->staging.memory)
		op->staging.memory = host->alloc(host, bytes);
	if (!op->staging.memory)
		return error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 kind_name(op->call.args.kind), bytes);
	op->staging.size = bytes;
	return COLL_SUCCESS;
}

uintptr_t staging_user_at(const struct op *op, int part, size_t off)
{
	return stage_user_at(&op->staging.stage, part, off);
}

void staging_layout(struct op *op)
{
	const coll_args_t *a = &op->call.args;
	const size_t elem = coll_dtype_size(a->dtype);
	struct stage *stage = &op->staging.stage;

	*stage = (struct stage){.staged = op->call.staged &
					  (1 << COLL_BUFFER_SEND | 1 << COLL_BUFFER_RECV),
				.in_place = op->call.in_place,
				.rank = op->comm->rank,
				.list = op->call.list,
				.block = a->count * elem,
				.elem = elem,
				.displs = {a->senddispls, a->recvdispls}};
	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++) {
		stage->address[buf] = staging_address(op, buf);
		if (stage->staged & 1 << buf)
			stage->span[buf] = staging_span(op, buf);
	}
	stage_place(stage);
}

void staging_schedule(struct op *op)
{
	staging_layout(op);
	stage_schedule(&op->sched, &op->staging.stage, STAGING_COPY_MAX);
}

static void staging_find_bases(struct op *op)
{
	struct staging *staging = &op->staging;

	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++)
		staging->base[buf] = (char *)((uintptr_t)staging->start + staging->stage.at[buf]);
}

/* Allocates the memory and finds the copy streams to and from it, unless the call's stream makes the copies. */
static int staging_place(struct op *op)
{
	struct staging *staging = &op->staging;
	struct copy_stream **copy_streams = &op->comm->context->copy_streams;
	int in = op->call.staged & 1 << COLL_BUFFER_SEND ? COLL_BUFFER_SEND : COLL_BUFFER_RECV,
	    code;

	staging_layout(op);
	if (!staging->stage.need)
		return COLL_SUCCESS;
	if (op->bounce && op->bounce->carries) {
		staging->start = op->bounce->memory;
		staging_find_bases(op);
		return COLL_SUCCESS;
	}
	code = staging_alloc(op, staging->stage.need, staging->stage.near[in]);
	staging->start = staging->memory;
	if (!code)
		code = copy_stream_find(copy_streams, COPY_STREAM_IN,
					(const void *)staging->stage.near[in],
					&staging->copy_stream[COPY_STREAM_IN]);
	if (!code && op->call.staged & 1 << COLL_BUFFER_RECV)
		code = copy_stream_find(copy_streams, COPY_STREAM_OUT,
					(const void *)staging->stage.near[COLL_BUFFER_RECV],
					&staging->copy_stream[COPY_STREAM_OUT]);
	if (!code)
		staging_find_bases(op);
	return code;
}

/* Warns of the first operation of each call site; the others are counted, since a program may stage each step. */
static void staging_warn(const struct op *op)
{
	const int kind = op->call.args.kind;
	size_t bytes[2] = {0, 0}, off, len;

	if (!staging_count_one(op->comm, kind, op->site))
		return;
	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++)
		for (int i = 0; op->call.staged & 1 << buf && staging_block(op, buf, i, &off, &len);
		     i++)
			bytes[buf] += len;
	staging_log(op->comm, kind, op->site, bytes[COLL_BUFFER_SEND], bytes[COLL_BUFFER_RECV]);
}

/* The backend's own function declined the operation, and staging is not allowed. */
static int staging_declined(const struct op *op)
{
	int buf = 0, device;
	uint32_t kind;

	while (!(op->call.staged & 1 << buf))
		buf++;
	kind = device_kind(buf == STAGING_SCALAR ? op->staging.scalar
						 : (void *)staging_address(op, buf),
			   &device);
	return kind ? staging_refuse(op, buf, kind, device) : COLL_ERR_DEVICE;
}

int staging_begin(struct op *op)
{
	int code;

	if (!op->comm->context->fallback)
		return staging_declined(op);
	staging_warn(op);
	code = staging_place(op);
	if (op->bounce && op->bounce->carries) {
		if (op->call.staged & 1 << STAGING_SCALAR)
			memcpy(op->call.redop.value, op->bounce->memory + op->bounce->scalar,
			       coll_dtype_size(op->call.args.dtype));
		return code;
	}
	if (!code && op->call.staged & 1 << STAGING_SCALAR)
		code = device_copy(op->call.redop.value, op->staging.scalar,
				   coll_dtype_size(op->call.args.dtype));
	return code;
}
