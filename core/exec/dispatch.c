/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c - chooses between the backend's own function and an algorithm over its transport. */
#include "exec/dispatch.h"
#include "base/dtype.h"
#include "base/error.h"
#include "exec/extent.h"
#include "exec/op.h"
#include "schedule/algo.h"

/* A plugin of an older minor knows no flag of the arguments. */
enum { DISPATCH_PLACE_MINOR = 4 };

static native_fn dispatch_kind_slot(const coll_native_t *n, int kind)
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
	default: return NULL;
	}
}

native_fn dispatch_native(const struct comm *comm, int kind)
{
	/* A backend does not say how its own reduction groups the operands. */
	if (choose_requirements(&comm->context->selection, kind))
		return NULL;
	return dispatch_kind_slot(comm_native(comm), kind);
}

/* Is the plugin's minor new enough for the type and the operation?  *name becomes that of the newer. */
static int dispatch_is_known(const coll_backend_t *b, const struct call *call, const char **name)
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
native_fn dispatch_slot(const struct comm *comm, const struct call *call)
{
	int custom = call->redop.fn || call->redop.premul_sum;
	const char *name;

	if ((call->memory[COLL_BUFFER_SEND] | call->memory[COLL_BUFFER_RECV]) &
	    ~comm->context->memory)
		return NULL;
	if (!dispatch_is_known(&comm->context->plugin->backend, call, &name))
		return NULL;
	/* For a backend the parts of reduce_scatterv follow one another. */
	if (call->args.kind == COLL_KIND_REDUCE_SCATTERV && call->args.senddispls)
		return NULL;
	return custom && !call->redop.made ? NULL : dispatch_native(comm, call->args.kind);
}

int dispatch_check(const struct comm *comm, int kind)
{
	const coll_backend_t *b = &comm->context->plugin->backend;

	if (b->transport || dispatch_native(comm, kind))
		return COLL_SUCCESS;
	if (dispatch_kind_slot(b->native, kind))
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: with 'reproducible = yes' the library reduces by itself, but backend "
			"'%s' has no transport for that; choose another with COLL_BACKEND",
			kind_name(kind), b->name);
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: backend '%s' has neither this operation nor a transport; choose "
			 "another backend with COLL_BACKEND",
			 kind_name(kind), b->name);
}

int dispatch_asks_place(const struct comm *comm)
{
	const coll_backend_t *b = &comm->context->plugin->backend;

	return !b->transport && b->native && b->native->takes &&
	       b->abi_minor >= DISPATCH_PLACE_MINOR;
}

/* Asks a backend without a transport whether it will do the call. */
static int dispatch_takes(const struct comm *comm, const struct call *call)
{
	const struct context *context = comm->context;
	const coll_backend_t *b = &context->plugin->backend;
	coll_error_t err = error_blank();
	coll_args_t args = call->args;
	const char *name;
	int code;

	if (b->transport || !b->native)
		return COLL_SUCCESS;
	if (call->kind && dtype_is_opaque(args.dtype))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: backend '%s' has no opaque types, and no transport on which "
				 "the library could move %s: move the bytes as COLL_UINT8, or "
				 "choose another backend with COLL_BACKEND",
				 call->kind->name, b->name, coll_dtype_name(args.dtype));
	if (!dispatch_is_known(b, call, &name))
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
		comm->asks_place && extent_is_in_place(comm, &call->args) ? COLL_ARGS_IN_PLACE : 0;
	code = b->native->takes(context->ep, &args, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

/*
 * Bytes of the call's count argument, for rules.  0 for kinds whose ranks may call with different
 * counts: no rule asks for their bytes.
 */
static uint64_t dispatch_bytes(const struct comm *comm, const coll_args_t *a)
{
	uint64_t elem = coll_dtype_size(a->dtype), sum = 0;

	if (!rules_take_bytes(a->kind))
		return 0;
	if (a->kind != COLL_KIND_ALLGATHERV && a->kind != COLL_KIND_REDUCE_SCATTERV)
		return a->count * elem;
	for (int r = 0; r < comm->nranks; r++)
		sum += a->recvcounts[r];
	return sum * elem / (uint64_t)comm->nranks;
}

int dispatch_choose(const struct comm *comm, struct call *call)
{
	const struct selection *selection = &comm->context->selection;
	const coll_args_t *a = &call->args;
	uint32_t reproducible = choose_requirements(selection, a->kind);
	uint32_t requirements = reproducible | (call->redop.ordered ? COLL_ALGORITHM_ORDERED : 0);
	uint32_t kinds = call->memory[COLL_BUFFER_SEND] | call->memory[COLL_BUFFER_RECV];
	struct call_description description = {.kind = a->kind,
					       .nranks = comm->nranks,
					       .nnodes = comm->nodes.count,
					       .memory = COLL_MEM_HOST,
					       .cpus = comm->cpus};
	int code = dispatch_takes(comm, call);

	if (code)
		return code;
	call->slot = dispatch_slot(comm, call);
	description.bytes = dispatch_bytes(comm, a);
	if (kinds & ~(uint32_t)COLL_MEM_HOST)
		description.memory = kinds & COLL_MEM_CUDA ? COLL_MEM_CUDA : COLL_MEM_CUDA_MANAGED;
	call->algorithm = choose_algorithm(selection, &description, requirements);
	if (call->slot || call->algorithm >= 0 || !comm->context->plugin->backend.transport)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_UNSUPPORTED, "%s: this version has no algorithm for it%s",
			 call->kind->name,
			 reproducible   ? " whose results are reproducible"
			 : requirements ? " that combines the ranks' inputs in their order"
					: "");
}

/* All ranks cut the messages of send and receive, or none: neither rank knows the other's memory. */
static size_t dispatch_segment(const struct comm *comm, int kind)
{
	const struct selection *selection = &comm->context->selection;

	return kind_is_p2p(kind) && !selection->cuts_messages ? SIZE_MAX : selection->segment;
}

/*
 * The displacements of a v-form's blocks in the buffer that the steps use: staging memory and the scaled copy of
 * a list have no gaps.
 */
static const size_t *dispatch_displs(const struct op *op, int buf)
{
	const int bit = 1 << buf;
	const int scaled = buf == COLL_BUFFER_SEND && op->call.redop.premul_sum;

	if (op->call.list & bit && (op->call.staged & bit || scaled))
		return op->arrays + 4 * (size_t)op->comm->nranks;
	return buf == COLL_BUFFER_SEND ? op->call.args.senddispls : op->call.args.recvdispls;
}

int dispatch_build(struct op *op)
{
	const struct comm *comm = op->comm;
	const coll_args_t *a = &op->call.args;
	const struct algo *algo = algo_at(op->call.algorithm);
	struct sched *s = &op->sched;
	size_t elem = a->kind == COLL_KIND_BARRIER ? 1 : coll_dtype_size(a->dtype);
	struct work w = {.kind = a->kind, .root = a->root, .count = a->count};

	if (!algo)
		return error_set(COLL_ERR_INTERNAL, "no algorithm for kind %d", a->kind);
	w.in_place = op->call.in_place;
	w.sendcounts = a->sendcounts;
	w.senddispls = dispatch_displs(op, COLL_BUFFER_SEND);
	w.recvcounts = a->recvcounts;
	w.recvdispls = dispatch_displs(op, COLL_BUFFER_RECV);
	w.nodes = &comm->nodes;
	sched_reset(s, comm->rank, comm->nranks, elem, dispatch_segment(comm, a->kind));
	s->finish = op->call.kind->reduces && redop_divides_result(&op->call.redop);
	s->scale = op->call.kind->reduces && redop_divides_inputs(&op->call.redop);
	algo_build(algo, s, &w);
	if (op->call.staged)
		staging_schedule(op);
	return s->error;
}

int dispatch_ready(struct op *op)
{
	int code = COLL_SUCCESS;

	if (!op->sched_ready) {
		code = dispatch_build(op);
		op->prepared = 0;
	}
	op->sched_ready = !code;
	return code;
}
