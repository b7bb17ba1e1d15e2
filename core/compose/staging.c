/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.c - operations on device memory: the memory kinds of the buffers, the decision whether the
 * backend reaches them, and host memory that stands in for a buffer that the backend does not reach, if
 * the user allows it (device/offload.h).  schedule/stage.c adds the copies to the schedule.
 */
#include "device/device.h"
#include "compose/composed.h"
#include "compose/staging.h"
#include "native/native_slot.h"
#include "comm/lane.h"
#include "comm/op.h"
#include "compose/steps.h"
#include "base/error.h"
#include "transport/traffic.h"

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
	if (i == op->lane->comm->nranks)
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

/* One buffer is on the host, the other buffer is not: the host lane would have a call with both on the host. */
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
	const struct context *context = op->lane->context;
	const coll_backend_t *b = &context->plugin->backend;
	const char *what = kind_name(op->call.args.kind);
	char where[64];

	device_describe(kind, device, where, sizeof(where));
	if (kind == COLL_MEM_HOST && lane_host(op->lane))
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
 * driver may block that thread for ever: see device/offload.h.
 */
static int staging_keeps_from_driver(const struct op *op)
{
	return op->call.args.stream && !op->lane->native && op->lane->context->fallback;
}

/* Decides whether a buffer in that memory is used as it is, staged or refused. */
static int staging_decide(struct op *op, int buf, uint32_t kind, int device)
{
	const struct context *context = op->lane->context;
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
	    (!reached || kind_at(op->call.args.kind)->reduces || staging_keeps_from_driver(op)))
		op->call.staged |= 1 << buf;
	if (reached && (!(op->call.staged & 1 << buf) || native_slot(op->lane, &op->call)))
		return COLL_SUCCESS;
	if (kind != COLL_MEM_HOST && context->fallback && context->plugin->backend.transport)
		return COLL_SUCCESS;
	return staging_refuse(op, buf, kind, device);
}

static int staging_look_at(struct op *op, int buf, uintptr_t address)
{
	uint32_t kind = COLL_MEM_HOST;
	int device = -1;

	if (op->lane->context->devices)
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

/* Places each buffer in the memory: equally for all calls that share a schedule. */
static void staging_layout(struct op *op)
{
	const coll_args_t *a = &op->call.args;
	const size_t elem = coll_dtype_size(a->dtype);
	struct stage *stage = &op->staging.stage;

	*stage = (struct stage){.staged = op->call.staged &
					  (1 << COLL_BUFFER_SEND | 1 << COLL_BUFFER_RECV),
				.in_place = op->call.in_place,
				.rank = op->lane->comm->rank,
				.list = op->call.list,
				.block = a->count * elem,
				.elem = elem,
				.displs = {a->senddispls, a->recvdispls}};
	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++) {
		stage->address[buf] = staging_address(op, buf);
		if (stage->staged & 1 << buf)
			stage->span[buf] = staging_span(op, buf);
	}
	stage_layout(stage);
}

void staging_schedule(struct op *op)
{
	staging_layout(op);
	stage_schedule(&op->sched, &op->staging.stage, STAGING_COPY_MAX);
}

/* An operation that its backend's function has declined may have the order with its stream only. */
static int staging_has_memory(const struct op *op)
{
	return op->offload && op->offload->buffers;
}

/* Takes the memory, and finds the streams for the copies. */
static int staging_place(struct op *op)
{
	struct lane *lane = op->lane;
	const struct stage *stage = &op->staging.stage;
	const int in =
		op->call.staged & 1 << COLL_BUFFER_SEND ? COLL_BUFFER_SEND : COLL_BUFFER_RECV;
	struct offload *o = offload_take(&lane->composed->offloads, stage->need, op, 0);
	int code;

	op->offload = o ? o : op->offload;
	if (!o || !offload_pin_near(o, (const void *)stage->near[in]))
		return error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 kind_name(op->call.args.kind), stage->need);
	code = copies_find(&lane->traffic->copies, COPY_IN, (const void *)stage->near[in],
			   &o->way[COPY_IN].stream);
	if (!code && op->call.staged & 1 << COLL_BUFFER_RECV)
		code = copies_find(&lane->traffic->copies, COPY_OUT,
				   (const void *)stage->near[COLL_BUFFER_RECV],
				   &o->way[COPY_OUT].stream);
	return code;
}

/* Where a factor on the device lies in the memory of a call with a stream. */
static size_t staging_scalar_at(const struct op *op)
{
	return (op->staging.stage.need + STAGING_ALIGN - 1) / STAGING_ALIGN * STAGING_ALIGN;
}

/* Warns of the first operation of each call site; later operations are counted, since a program may stage each step. */
static void staging_warn(const struct op *op)
{
	const int kind = op->call.args.kind;
	size_t bytes[2] = {0, 0}, off, len;

	if (!staging_count_one(op->lane, kind, op->site))
		return;
	for (int buf = 0; buf <= COLL_BUFFER_RECV; buf++)
		for (int i = 0; op->call.staged & 1 << buf && staging_block(op, buf, i, &off, &len);
		     i++)
			bytes[buf] += len;
	staging_log(op->lane, kind, op->site, bytes[COLL_BUFFER_SEND], bytes[COLL_BUFFER_RECV]);
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

/* The factor of the operation, which has come with the stream's copies, or is on the device. */
static int staging_factor(struct op *op)
{
	void *value = op->call.redop.value;
	const size_t n = coll_dtype_size(op->call.args.dtype);

	if (!staging_has_memory(op) || !op->offload->on_stream)
		return device_copy(value, op->staging.scalar, n);
	memcpy(value, op->offload->memory + staging_scalar_at(op), n);
	return COLL_SUCCESS;
}

int staging_begin(struct op *op)
{
	struct staging *staging = &op->staging;
	int code = COLL_SUCCESS;

	if (!op->lane->context->fallback)
		return staging_declined(op);
	staging_warn(op);
	staging_layout(op);
	if (staging->stage.need && !staging_has_memory(op))
		code = staging_place(op);
	if (code)
		return code;
	for (int buf = 0; op->offload && buf <= COLL_BUFFER_RECV; buf++)
		staging->base[buf] =
			(char *)((uintptr_t)op->offload->memory + staging->stage.at[buf]);
	return op->call.staged & 1 << STAGING_SCALAR ? staging_factor(op) : COLL_SUCCESS;
}

void staging_end(struct op *op)
{
	struct offload_pool *pool = &op->lane->composed->offloads;

	if (op->ordered && op->ordered != op->offload)
		offload_give_back(pool, op->ordered);
	offload_give_back(pool, op->offload);
	op->offload = op->ordered = op->dependencies = NULL;
}

/* ---------------------------------------------- copies beside the other steps -- */

/* The communicator fails with this message when the transport has moved. */
static void staging_failed(struct lane *lane, int code)
{
	struct rank_name name;

	lane_set_pending(lane, code, "%s: %s", comm_own_name(lane, &name), error_text());
}

/* A pre-multiplied sum scales its input when the copy in ends, from staging memory to the scratch memory. */
static void staging_copied(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];

	if (op->lane->counts)
		op->lane->counts->staged_bytes += step->len;
	if (op->call.redop.premul_sum && step->kind == STEP_COPY_IN)
		redop_scale(&op->call.redop, op->base[SCHED_SEND] + step->dst.off,
			    op->offload->memory + step->dst.off, step->len / op->sched.elem);
	steps_complete(op, i);
}

static void staging_ended(struct copy *copy, int code)
{
	struct op *op = copy->owner;

	if (code == COPY_LOST)
		op->offload->lost = 1;
	if (code)
		staging_failed(op->lane, code == COPY_LOST ? COLL_ERR_DEVICE : code);
	else
		staging_copied(op, copy->step);
}

void staging_copy(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	const int in = step->kind == STEP_COPY_IN;
	struct copy *copy = &op->run[i].u.copy;
	void *user, *own;

	if (op->offload->on_stream) { /* the stream has copied the input, or will copy the result */
		staging_copied(op, i);
		return;
	}
	user = (void *)stage_user_at(&op->staging.stage, (int)step->dst.buf, step->dst.off);
	own = op->offload->memory + step->dst.off;
	*copy = (struct copy){.ended = staging_ended,
			      .owner = op,
			      .step = i,
			      .dst = in ? own : user,
			      .src = in ? user : own,
			      .n = step->len};
	if (LANE_OBSERVED(op->lane, COLL_OBSERVE_COPY))
		observed_step(op, i, COLL_OBSERVED_BEGIN);
	copies_add(&op->lane->traffic->copies, &op->offload->way[in ? COPY_IN : COPY_OUT], copy);
}

void staging_cancel(struct op *op)
{
	struct lane *lane = op->lane;

	if (op->offload &&
	    copies_cancel(&lane->traffic->copies, op->offload->way, op, lane->comm->rank))
		op->offload->lost = 1;
}

/* ---------------------------------------------- copies on the program's stream -- */

int staging_is_on_stream(const struct op *op)
{
	return op->call.staged && !op->call.slot;
}

/* The factor lies behind the buffers. */
size_t staging_need(struct op *op)
{
	staging_layout(op);
	return staging_scalar_at(op) + STAGING_ALIGN;
}

/* The steps of a kind, STEP_COPY_IN or STEP_COPY_OUT, as copies; returns their number. */
static size_t staging_list_kind(const struct op *op, int kind, struct offload_copy *copy)
{
	size_t n = 0;

	for (int i = 0; i < op->sched.nsteps; i++) {
		const struct step *step = &op->sched.step[i];

		if (step->kind == kind)
			copy[n++] = (struct offload_copy){stage_user_at(&op->staging.stage,
									(int)step->dst.buf,
									step->dst.off),
							  step->dst.off, step->len};
	}
	return offload_join(copy, n);
}

int staging_list(const struct op *op, struct offload *o)
{
	int code = offload_reserve(o, (size_t)op->sched.nsteps + 1);

	if (code)
		return code;
	o->ins = staging_list_kind(op, STEP_COPY_IN, o->copy);
	if (op->call.staged & 1 << STAGING_SCALAR)
		o->copy[o->ins++] =
			(struct offload_copy){(uintptr_t)op->staging.scalar, staging_scalar_at(op),
					      coll_dtype_size(op->call.args.dtype)};
	o->outs = staging_list_kind(op, STEP_COPY_OUT, o->copy + o->ins);
	return COLL_SUCCESS;
}
