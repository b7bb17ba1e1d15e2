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

/* Has the core an algorithm for it? */
static int choose_has_algorithm(int kind)
{
	switch (kind) {
	case COLL_KIND_ALLREDUCE:
	case COLL_KIND_BROADCAST:
	case COLL_KIND_REDUCE:
	case COLL_KIND_ALLGATHER:
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_BARRIER:
	case COLL_KIND_SEND:
	case COLL_KIND_RECV: return 1;
	default: return 0;
	}
}

int choose_check(const struct comm *comm, int kind)
{
	const coll_backend_t *b = &comm->link->plugin->backend;

	if (choose_native(comm, kind))
		return COLL_SUCCESS;
	if (!choose_has_algorithm(kind))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "%s: neither backend '%s' nor this version of the library has it; "
				 "compose it from coll_send and coll_recv in a group",
				 check_kind_name(kind), b->name);
	if (!b->transport)
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: backend '%s' has neither this operation nor a transport; choose "
			"another backend with COLL_BACKEND",
			check_kind_name(kind), b->name);
	return COLL_SUCCESS;
}

static void choose_allreduce(struct sched *s, const struct tuning *tuning, size_t count)
{
	if (count * s->elem < tuning->allreduce_ring_min || count < (size_t)s->nranks)
		double_allreduce(s, count);
	else
		ring_allreduce(s, count);
}

/* One rank alone: nothing to send, except to itself. */
static int choose_alone(struct sched *s, const coll_args_t *a)
{
	if (s->nranks > 1 || a->kind == COLL_KIND_SEND || a->kind == COLL_KIND_RECV)
		return 0;
	if (a->kind != COLL_KIND_BARRIER)
		direct_self(s, a->count, s->finish);
	return 1;
}

int choose_build(struct op *op)
{
	const coll_args_t *a = &op->args;
	const struct tuning *tuning = &op->comm->link->tuning;
	struct sched *s = &op->sched;
	size_t elem = a->kind == COLL_KIND_BARRIER ? 1 : coll_dtype_size(a->dtype);

	sched_reset(s, op->comm->rank, op->comm->nranks, elem, tuning->segment);
	s->finish = check_reduces(a->kind) && a->op == COLL_AVG;
	if (choose_alone(s, a))
		return s->error;
	switch (a->kind) {
	case COLL_KIND_ALLREDUCE: choose_allreduce(s, tuning, a->count); break;
	case COLL_KIND_BROADCAST: tree_broadcast(s, a->count, a->root); break;
	case COLL_KIND_REDUCE: tree_reduce(s, a->count, a->root); break;
	case COLL_KIND_ALLGATHER: ring_allgather(s, a->count); break;
	case COLL_KIND_REDUCE_SCATTER: ring_reduce_scatter(s, a->count); break;
	case COLL_KIND_BARRIER: dissemination_barrier(s); break;
	case COLL_KIND_SEND: direct_send(s, a->count, a->root); break;
	case COLL_KIND_RECV: direct_recv(s, a->count, a->root); break;
	default: return error_set(COLL_ERR_INTERNAL, "no algorithm for kind %d", a->kind);
	}
	return s->error;
}
