/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.c - operations on memory that is not the host's: what kind the buffers are of, whether the
 * backend reaches it, and host memory to stand in for it where it does not and the user agreed.
 * stage_schedule.c says what is copied when, staging_copy.c does it.
 */
#include "device/device.h"
#include "exec/engine.h"
#include "base/error.h"
#include "base/log.h"

/* What may lie on a device: COLL_BUFFER_SEND, COLL_BUFFER_RECV and the scalar of an operation. */
enum { STAGE_SCALAR = 2 };
enum { STAGE_ALIGN = 64 };

/* ------------------------------------------------------- what a call uses of buffers -- */

/* The i-th block of a buffer that is used on this rank, in bytes; 0: there is none. */
static int stage_block(const struct op *op, int buf, int i, size_t *off, size_t *len)
{
	const coll_args_t *a = &op->args;
	const size_t *counts = buf == COLL_BUFFER_RECV ? a->recvcounts : a->sendcounts;
	const size_t *displs = buf == COLL_BUFFER_RECV ? a->recvdispls : a->senddispls;
	size_t elem = coll_dtype_size(a->dtype);

	if (!displs || a->kind == COLL_KIND_REDUCE_SCATTERV) { /* one piece */
		*off = 0;
		*len = i ? 0 : extent_elements(op->comm, a, buf == COLL_BUFFER_RECV) * elem;
		return i == 0;
	}
	if (i == op->comm->nranks)
		return 0;
	*off = displs[i] * elem;
	*len = counts[i] * elem;
	return 1;
}

/* From the first byte used to the last: addresses. */
struct stage_span {
	uintptr_t begin, end;
};

static uintptr_t stage_address(const struct op *op, int buf)
{
	return buf == COLL_BUFFER_RECV ? (uintptr_t)op->args.recvbuf : (uintptr_t)op->args.sendbuf;
}

static struct stage_span stage_span(const struct op *op, int buf)
{
	uintptr_t base = stage_address(op, buf);
	struct stage_span span = {UINTPTR_MAX, 0};
	size_t off, len;

	for (int i = 0; stage_block(op, buf, i, &off, &len); i++) {
		if (!len)
			continue;
		span.begin = base + off < span.begin ? base + off : span.begin;
		span.end = base + off + len > span.end ? base + off + len : span.end;
	}
	return span.end ? span : (struct stage_span){0, 0};
}

/* ------------------------------------------------------------------- judging -- */

static const char *stage_name(int buf)
{
	return buf == COLL_BUFFER_SEND ? "sendbuf" : buf == COLL_BUFFER_RECV ? "recvbuf" : "scalar";
}

/* Nobody can do it with a buffer that lies there. */
static int stage_refuse(const struct op *op, int buf, uint32_t kind, int device)
{
	const struct link *link = op->comm->link;
	const coll_backend_t *b = &link->plugin->backend;
	const char *what = kind_name(op->args.kind);
	char where[64];

	device_describe(kind, device, where, sizeof(where));
	if (kind == COLL_MEM_HOST || !b->transport)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: %s is %s, which backend '%s' does not take: choose another "
				 "backend with COLL_BACKEND, or pass other memory",
				 what, stage_name(buf), where, b->name);
	return error_set(
		COLL_ERR_UNSUPPORTED,
		"%s: %s is %s, %s '%s' %s: choose another backend with COLL_BACKEND, or set "
		"COLL_ENABLE_GPU_FALLBACK=1 (option enable_gpu_fallback) to have it copied through "
		"host memory, which is slow",
		what, stage_name(buf), where,
		link->memory & kind ? "but reductions over backend" : "which backend", b->name,
		link->memory & kind ? "work in host memory only" : "does not take");
}

/* What has to be done about a buffer of that kind. */
static int stage_judge(struct op *op, int buf, uint32_t kind, int device)
{
	const struct link *link = op->comm->link;
	int reached = (link->memory & kind) != 0;

	if (kind == COLL_MEM_CUDA && !link->plugin->backend.transport && link->device >= 0 &&
	    device >= 0 && device != link->device)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: %s is memory of CUDA device %d, but the communicator is on "
				 "device %d",
				 kind_name(op->args.kind), stage_name(buf), device, link->device);
	if (buf != STAGE_SCALAR)
		op->memory[buf] = kind;
	if (kind != COLL_MEM_HOST && (!reached || kind_reduces(op->args.kind)))
		op->staged |= 1 << buf;
	if (reached && (!(op->staged & 1 << buf) || dispatch_op_slot(op)))
		return COLL_SUCCESS;
	if (kind != COLL_MEM_HOST && link->fallback && link->plugin->backend.transport)
		return COLL_SUCCESS;
	return stage_refuse(op, buf, kind, device);
}

static int stage_look_at(struct op *op, int buf, uintptr_t address)
{
	uint32_t kind = COLL_MEM_HOST;
	int device = -1;

	if (op->comm->link->devices)
		kind = device_kind((const void *)address, &device);
	return kind ? stage_judge(op, buf, kind, device) : COLL_ERR_DEVICE;
}

int stage_look(struct op *op)
{
	int code = COLL_SUCCESS;

	op->memory[COLL_BUFFER_SEND] = op->memory[COLL_BUFFER_RECV] = 0;
	if (!kind_is_valid(op->args.kind))
		return COLL_SUCCESS;
	for (int buf = 0; !code && buf <= COLL_BUFFER_RECV; buf++) {
		struct stage_span span = stage_span(op, buf);

		if (span.end)
			code = stage_look_at(op, buf, span.begin);
	}
	if (!code && op->redop.scaled && op->redop.scalar)
		code = stage_look_at(op, STAGE_SCALAR, (uintptr_t)op->redop.scalar);
	if (op->staged & 1 << STAGE_SCALAR) {
		op->stage.scalar = op->redop.scalar;
		op->redop.scalar = NULL; /* then it is read from op->redop.value */
	}
	return code;
}

/* ------------------------------------------------------------------- staging -- */

void stage_free(struct op *op)
{
	const coll_host_t *host = &op->comm->link->host;

	if (op->stage.pinned)
		device_unpin(op->stage.memory);
	else
		host->free(host, op->stage.memory, op->stage.size);
	op->stage.memory = NULL;
	op->stage.size = 0;
	op->stage.pinned = 0;
}

/* Without pinned memory copies are right, but the driver may wait for them. */
static int stage_room(struct op *op, size_t bytes, uintptr_t near)
{
	const coll_host_t *host = &op->comm->link->host;

	if (bytes <= op->stage.size)
		return COLL_SUCCESS;
	stage_free(op);
	op->stage.memory = device_pin(bytes, (const void *)near);
	op->stage.pinned = op->stage.memory != NULL;
	if (!op->stage.memory)
		op->stage.memory = host->alloc(host, bytes);
	if (!op->stage.memory)
		return error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 kind_name(op->args.kind), bytes);
	op->stage.size = bytes;
	return COLL_SUCCESS;
}

/* Finds places for the staged buffers.  In place they stay as they lie to each other. */
void stage_layout(struct op *op)
{
	struct stage_span span[2] = {{0, 0}, {0, 0}};
	struct stage *stage = &op->stage;
	size_t gap, size;
	int both;

	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++)
		if (op->staged & 1 << buf)
			span[buf] = stage_span(op, buf);
	both = op->in_place && span[0].end && span[1].end;
	if (both) {
		span[0].begin = span[0].begin < span[1].begin ? span[0].begin : span[1].begin;
		span[0].end = span[0].end > span[1].end ? span[0].end : span[1].end;
		span[1] = span[0];
	}
	size = span[0].end - span[0].begin;
	gap = both ? 0 : (size + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
	stage->need = both ? size : gap + span[1].end - span[1].begin;
	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++) {
		size_t begin = buf ? gap : 0;

		stage->near[buf] = span[buf].begin;
		stage->user[buf] = span[buf].begin - begin;
		stage->at[buf] = begin + stage_address(op, buf) - span[buf].begin;
	}
}

/* Memory for them, and lanes to and from it. */
static int stage_place(struct op *op)
{
	struct stage *stage = &op->stage;
	struct lane **lanes = &op->comm->link->lanes;
	int in = op->staged & 1 << COLL_BUFFER_SEND ? COLL_BUFFER_SEND : COLL_BUFFER_RECV, code;

	stage_layout(op);
	if (!stage->need)
		return COLL_SUCCESS;
	code = stage_room(op, stage->need, stage->near[in]);
	if (!code)
		code = lane_find(lanes, LANE_IN, (const void *)stage->near[in],
				 &stage->lane[LANE_IN]);
	if (!code && op->staged & 1 << COLL_BUFFER_RECV)
		code = lane_find(lanes, LANE_OUT, (const void *)stage->near[COLL_BUFFER_RECV],
				 &stage->lane[LANE_OUT]);
	for (int buf = 0; !code && buf <= COLL_BUFFER_RECV; buf++)
		stage->base[buf] = (char *)((uintptr_t)stage->memory + stage->at[buf]);
	return code;
}

static void stage_warn(const struct op *op)
{
	size_t bytes[2] = {0, 0}, off, len;

	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++)
		for (int i = 0; op->staged & 1 << buf && stage_block(op, buf, i, &off, &len); i++)
			bytes[buf] += len;
	log_warn("rank %d: %s over backend '%s' copies %zu bytes from and %zu bytes to CUDA memory "
		 "through host memory, which is slow; 'enable_gpu_fallback = no' makes it an error",
		 op->comm->rank, kind_name(op->args.kind), op->comm->link->plugin->backend.name,
		 bytes[0], bytes[1]);
}

/* The backend's own operation could have done it, but will not. */
static int stage_declined(const struct op *op)
{
	int buf = 0, device;
	uint32_t kind;

	while (!(op->staged & 1 << buf))
		buf++;
	kind = device_kind(buf == STAGE_SCALAR ? op->stage.scalar : (void *)stage_address(op, buf),
			   &device);
	return kind ? stage_refuse(op, buf, kind, device) : COLL_ERR_DEVICE;
}

int stage_begin(struct op *op)
{
	int code;

	if (!op->comm->link->fallback)
		return stage_declined(op);
	stage_warn(op);
	code = stage_place(op);
	if (!code && op->staged & 1 << STAGE_SCALAR)
		code = device_copy(op->redop.value, op->stage.scalar,
				   coll_dtype_size(op->args.dtype));
	return code;
}
