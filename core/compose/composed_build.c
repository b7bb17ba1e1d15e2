/* SPDX-License-Identifier: BSD-3-Clause */
/* composed_build.c - the schedule of an operation: the steps of its algorithm and the copies of staged buffers. */
#include "compose/composed.h"
#include "comm/op.h"
#include "compose/staging.h"
#include "schedule/algo.h"
#include "base/error.h"
#include "transport/traffic.h"

/*
 * The displacements of a v-form's blocks in the buffer that the steps use: staging memory and the scaled copy of
 * a list have no gaps.
 */
static const size_t *composed_displs(const struct op *op, int buf)
{
	const int bit = 1 << buf;
	const int scaled = buf == COLL_BUFFER_SEND && op->call.redop.premul_sum;

	if (op->call.list & bit && (op->call.staged & bit || scaled))
		return op->arrays + 4 * (size_t)op->lane->comm->nranks;
	return buf == COLL_BUFFER_SEND ? op->call.args.senddispls : op->call.args.recvdispls;
}

int composed_build(struct op *op)
{
	const struct lane *lane = op->lane;
	const coll_args_t *a = &op->call.args;
	const struct algo *algo = algo_at(op->call.algorithm);
	struct sched *s = &op->sched;
	size_t elem = a->kind == COLL_KIND_BARRIER ? 1 : coll_dtype_size(a->dtype);
	/* All ranks cut the messages of send and receive, or no rank does: neither rank knows the memory of its peer. */
	const struct selection *selection = &lane->traffic->selection;
	const int whole = op->call.kind->is_p2p && !selection->cuts_messages;
	struct work w = {.kind = a->kind, .root = a->root, .count = a->count};

	if (op->stage >= PLAN_BUILT)
		return COLL_SUCCESS;
	if (!algo)
		return error_set(COLL_ERR_INTERNAL, "no algorithm for kind %d", a->kind);
	w.in_place = op->call.in_place;
	if (op->call.kind->is_v) {
		w.sendcounts = a->sendcounts;
		w.senddispls = composed_displs(op, COLL_BUFFER_SEND);
		w.recvcounts = a->recvcounts;
		w.recvdispls = composed_displs(op, COLL_BUFFER_RECV);
	}
	w.nodes = &lane->composed->nodes;
	sched_reset(s, lane->comm->rank, lane->comm->nranks, elem,
		    whole ? SIZE_MAX : selection->segment);
	s->finish = op->call.redop.division == REDOP_DIVIDES_RESULT;
	s->scale = op->call.redop.division == REDOP_DIVIDES_INPUTS;
	algo_build(algo, s, &w);
	op->in_pieces = op->call.kind->is_p2p && s->nsteps > 1;
	if (op->call.staged)
		staging_schedule(op);
	if (!s->error)
		op->stage = PLAN_BUILT;
	return s->error;
}
