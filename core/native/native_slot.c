/* SPDX-License-Identifier: BSD-3-Clause */
/* native_slot.c - the backend's own functions for whole calls: which function takes a call. */
#include "native/native_slot.h"
#include "base/dtype.h"
#include "base/error.h"
#include "comm/comm.h"
#include "comm/span.h"
#include "transport/traffic.h"

/* A plugin of an older minor knows no flag of the arguments. */
enum { NATIVE_IN_PLACE_MINOR = 4 };

static native_fn native_kind_slot(const coll_native_t *n, int kind)
{
	if (!n)
		return NULL;
	switch (kind) {
	case COLL_KIND_ALLREDUCE: return n->allreduce;
	case COLL_KIND_BROADCAST: return n->broadcast;
	case COLL_KIND_REDUCE: return n->reduce;
	case COLL_KIND_ALLGATHER: return n->allgather;
	case COLL_KIND_REDUCE_SCATTER: return n->reduce_scatter;
	case COLL_KIND_ALLTOALL: return n->alltoall;
	case COLL_KIND_GATHER: return n->gather;
	case COLL_KIND_SCATTER: return n->scatter;
	case COLL_KIND_ALLGATHERV: return n->allgatherv;
	case COLL_KIND_REDUCE_SCATTERV: return n->reduce_scatterv;
	case COLL_KIND_ALLTOALLV: return n->alltoallv;
	case COLL_KIND_GATHERV: return n->gatherv;
	case COLL_KIND_SCATTERV: return n->scatterv;
	case COLL_KIND_BARRIER: return n->barrier;
	case COLL_KIND_SEND: return n->send;
	case COLL_KIND_RECV: return n->recv;
	case COLL_KIND_SCAN: return n->scan;
	case COLL_KIND_EXSCAN: return n->exscan;
	default: return NULL;
	}
}

native_fn native_slot_of_kind(const struct lane *lane, int kind)
{
	/* A backend does not say how its own reduction groups the operands. */
	if (choose_requirements(&lane->traffic->selection, kind))
		return NULL;
	return native_kind_slot(lane_native(lane), kind);
}

int native_has_kind(const struct lane *lane, int kind)
{
	return native_kind_slot(lane->context->plugin->backend.native, kind) != NULL;
}

/* Is the plugin's minor new enough for the type and the operation?  *name becomes the name of the newer. */
static int native_knows(const coll_backend_t *b, const struct call *call, const char **name)
{
	const coll_args_t *a = &call->args;

	if (!call->kind || a->kind == COLL_KIND_BARRIER)
		return 1;
	*name = coll_dtype_name(a->dtype);
	if (dtype_is_opaque(a->dtype) || dtype_since(a->dtype) > b->abi_minor)
		return 0;
	*name = coll_op_name(a->op);
	return !call->kind->reduces || op_since(a->op) <= b->abi_minor;
}

/* A backend that has made its own version of an operation knows it by its own number. */
native_fn native_slot(const struct lane *lane, const struct call *call)
{
	int custom = call->redop.fn || call->redop.premul_sum;
	const char *name;

	if ((call->memory[COLL_BUFFER_SEND] | call->memory[COLL_BUFFER_RECV]) &
	    ~lane->context->memory)
		return NULL;
	if (!native_knows(&lane->context->plugin->backend, call, &name))
		return NULL;
	/* For a backend the parts of reduce_scatterv follow one another. */
	if (call->args.kind == COLL_KIND_REDUCE_SCATTERV && call->args.senddispls)
		return NULL;
	return custom && !call->redop.made ? NULL : native_slot_of_kind(lane, call->args.kind);
}

int native_asks_in_place(const struct lane *lane)
{
	const coll_backend_t *b = &lane->context->plugin->backend;

	return !b->transport && b->native && b->native->takes &&
	       b->abi_minor >= NATIVE_IN_PLACE_MINOR;
}

/* Asks a backend without a transport whether it will do the call. */
int native_takes_call(const struct lane *lane, const struct call *call)
{
	const struct context *context = lane->context;
	const coll_backend_t *b = &context->plugin->backend;
	coll_error_t err;
	coll_args_t args = call->args;
	const char *name;
	int code;

	error_clear(&err);
	if (b->transport || !b->native)
		return COLL_SUCCESS;
	if (call->kind && dtype_is_opaque(args.dtype))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' has no opaque types, and no transport on which "
				 "the library could move %s: move the bytes as COLL_UINT8, or "
				 "choose another backend with COLL_BACKEND",
				 call->kind->name, b->name, coll_dtype_name(args.dtype));
	if (!native_knows(b, call, &name))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' does not know %s: its plugin was built for ABI "
				 "1.%u; build it anew, or choose another backend with COLL_BACKEND",
				 call->kind->name, b->name, name, b->abi_minor);
	if (call->redop.fn || (call->redop.premul_sum && !call->redop.made))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' reduces by itself and cannot do this: scale or "
				 "combine the data outside the collective",
				 call->kind->name, b->name);
	if (!b->native->takes)
		return COLL_SUCCESS;
	if (call->redop.made)
		args.op = call->redop.native;
	args.flags =
		lane->asks_in_place && span_is_in_place(lane, &call->args) ? COLL_ARGS_IN_PLACE : 0;
	code = b->native->takes(context->ep, &args, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}
