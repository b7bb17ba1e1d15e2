/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - who does an operation: a slot of the backend, or which algorithm over its transport.
 */
#include "algo.h"
#include "engine.h"
#include "error.h"

native_fn choose_native(const struct comm *comm, int kind)
{
	const coll_native_t *n = comm->link->plugin->backend.native;

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

int choose_check(const struct comm *comm, int kind)
{
	const coll_backend_t *b = &comm->link->plugin->backend;

	if (choose_native(comm, kind))
		return COLL_SUCCESS;
	if (!b->transport)
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: backend '%s' has neither this operation nor a transport; choose "
			"another backend with COLL_BACKEND",
			check_kind_name(kind), b->name);
	return COLL_SUCCESS;
}

/* The first algorithm of the kind that fits.  The same on every rank. */
int choose_algorithm(const struct comm *comm, const coll_args_t *a)
{
	size_t bytes = a->count * coll_dtype_size(a->dtype);
	int doubling =
		bytes < comm->link->tuning.allreduce_ring_min || a->count < (size_t)comm->nranks;

	if (a->kind == COLL_KIND_ALLREDUCE && doubling)
		return algo_find(a->kind, "recursive_doubling");
	for (int i = 0; i < algo_count(); i++)
		if (algo_at(i)->kind == a->kind && algo_fits(algo_at(i), comm->nranks, 1))
			return i;
	return -1;
}

int choose_build(struct op *op)
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
	sched_reset(s, op->comm->rank, op->comm->nranks, elem, op->comm->link->tuning.segment);
	s->finish = check_reduces(a->kind) && a->op == COLL_AVG;
	algo_build(algo, s, &w);
	return s->error;
}
