/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c - who does an operation: a slot of the backend, or which algorithm over its transport.
 */
#include "schedule/algo.h"
#include "exec/engine.h"
#include "base/error.h"

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

/* A call of no bytes. */
static struct call_shape dispatch_shape(const struct comm *comm, int kind)
{
	return (struct call_shape){.kind = kind,
				   .nranks = comm->nranks,
				   .nnodes = comm->nnodes,
				   .memory = COLL_MEM_HOST};
}

native_fn dispatch_native(const struct comm *comm, int kind)
{
	/* How a backend's own reduction groups its operands is not known. */
	if (choose_requirements(&comm->context->selection, kind))
		return NULL;
	return dispatch_kind_slot(comm->context->plugin->backend.native, kind);
}

/* The backend's slot for an operation: of those made at run time it knows what it has made. */
native_fn dispatch_op_slot(const struct op *op)
{
	int own = op->redop.fn || op->redop.premul_sum;

	if ((op->memory[COLL_BUFFER_SEND] | op->memory[COLL_BUFFER_RECV]) &
	    ~op->comm->context->memory)
		return NULL;
	return own && !op->redop.made ? NULL : dispatch_native(op->comm, op->args.kind);
}

/* Is there an algorithm for it, whatever the count? */
static int dispatch_has_algorithm(struct comm *comm, int kind, uint32_t requirements)
{
	const struct call_shape shape = dispatch_shape(comm, kind);

	if (!(comm->possible >> kind & 1) &&
	    choose_algorithm(&comm->context->selection, &shape, requirements) >= 0)
		comm->possible |= 1u << kind;
	return comm->possible >> kind & 1;
}

int dispatch_check(struct comm *comm, int kind)
{
	const coll_backend_t *b = &comm->context->plugin->backend;
	const uint32_t requirements = choose_requirements(&comm->context->selection, kind);

	if (dispatch_native(comm, kind))
		return COLL_SUCCESS;
	if (!b->transport && dispatch_kind_slot(b->native, kind))
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: with 'reproducible = yes' the library reduces by itself, but backend "
			"'%s' has no transport for that; choose another with COLL_BACKEND",
			kind_name(kind), b->name);
	if (!b->transport)
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: backend '%s' has neither this operation nor a transport; choose "
			"another backend with COLL_BACKEND",
			kind_name(kind), b->name);
	if (!dispatch_has_algorithm(comm, kind, requirements))
		return error_set(COLL_ERR_UNSUPPORTED, "%s: this version has no algorithm for it%s",
				 kind_name(kind),
				 requirements ? " whose results are reproducible" : "");
	return COLL_SUCCESS;
}

int dispatch_takes(const struct op *op)
{
	const struct context *context = op->comm->context;
	const coll_backend_t *b = &context->plugin->backend;
	coll_error_t err = error_blank();
	coll_args_t args = op->args;
	int code;

	if (b->transport || !b->native || !b->native->takes || !kind_is_valid(args.kind))
		return COLL_SUCCESS;
	if (op->redop.made)
		args.op = op->redop.native;
	code = b->native->takes(context->ep, &args, &err);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

/*
 * Bytes of the call's count argument.  0 where ranks may call with different ones: there no rule
 * asks for them.
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

int dispatch_algorithm(const struct op *op)
{
	const struct comm *comm = op->comm;
	const coll_args_t *a = &op->args;
	uint32_t requirements = choose_requirements(&comm->context->selection, a->kind);
	uint32_t kinds = op->memory[COLL_BUFFER_SEND] | op->memory[COLL_BUFFER_RECV];
	struct call_shape shape = dispatch_shape(comm, a->kind);

	if (kind_reduces(a->kind) && op->redop.ordered)
		requirements |= COLL_ALGORITHM_ORDERED;
	shape.bytes = dispatch_bytes(comm, a);
	if (kinds & ~(uint32_t)COLL_MEM_HOST)
		shape.memory = kinds & COLL_MEM_CUDA ? COLL_MEM_CUDA : COLL_MEM_CUDA_MANAGED;
	return choose_algorithm(&comm->context->selection, &shape, requirements);
}

int dispatch_build(struct op *op)
{
	const coll_args_t *a = &op->args;
	const struct algo *algo = algo_at(op->algorithm);
	struct sched *s = &op->sched;
	size_t elem = a->kind == COLL_KIND_BARRIER ? 1 : coll_dtype_size(a->dtype);
	struct work w = {.kind = a->kind, .root = a->root, .count = a->count};

	if (!algo)
		return error_set(COLL_ERR_INTERNAL, "no algorithm for kind %d", a->kind);
	w.in_place = op->in_place;
	w.sendcounts = a->sendcounts;
	w.senddispls = a->senddispls;
	w.recvcounts = a->recvcounts;
	w.recvdispls = a->recvdispls;
	w.node = op->comm->node;
	sched_reset(s, op->comm->rank, op->comm->nranks, elem,
		    op->comm->context->selection.segment);
	s->finish = kind_reduces(a->kind) && a->op == COLL_AVG;
	algo_build(algo, s, &w);
	if (op->staged)
		stage_schedule(op);
	return s->error;
}
