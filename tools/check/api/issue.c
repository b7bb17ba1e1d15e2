/* SPDX-License-Identifier: BSD-3-Clause */
/* issue.c - makes a collective call from its arguments, waits for it, has it verified. */
#include "check/api/api.h"

static coll_result_t call_issue_v(const coll_args_t *a, coll_comm_t comm)
{
	switch (a->kind) {
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts,
				       a->recvdispls, a->dtype, comm, NULL);
	case COLL_KIND_REDUCE_SCATTERV:
		return coll_reduce_scatterv(a->sendbuf, a->recvbuf, a->recvcounts, a->dtype, a->op,
					    comm, NULL);
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf,
				      a->recvcounts, a->recvdispls, a->dtype, comm, NULL);
	case COLL_KIND_GATHERV:
		return coll_gatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts, a->recvdispls,
				    a->dtype, a->root, comm, NULL);
	default:
		return coll_scatterv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf, a->count,
				     a->dtype, a->root, comm, NULL);
	}
}

coll_result_t api_issue(const coll_args_t *a, coll_comm_t comm)
{
	const void *s = a->sendbuf;
	void *d = a->recvbuf;

	switch (a->kind) {
	case COLL_KIND_ALLREDUCE:
		return coll_allreduce(s, d, a->count, a->dtype, a->op, comm, NULL);
	case COLL_KIND_BROADCAST:
		return coll_broadcast(s, d, a->count, a->dtype, a->root, comm, NULL);
	case COLL_KIND_REDUCE:
		return coll_reduce(s, d, a->count, a->dtype, a->op, a->root, comm, NULL);
	case COLL_KIND_ALLGATHER: return coll_allgather(s, d, a->count, a->dtype, comm, NULL);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter(s, d, a->count, a->dtype, a->op, comm, NULL);
	case COLL_KIND_ALLTOALL: return coll_alltoall(s, d, a->count, a->dtype, comm, NULL);
	case COLL_KIND_GATHER: return coll_gather(s, d, a->count, a->dtype, a->root, comm, NULL);
	case COLL_KIND_SCATTER: return coll_scatter(s, d, a->count, a->dtype, a->root, comm, NULL);
	case COLL_KIND_BARRIER: return coll_barrier(comm);
	case COLL_KIND_SEND: return coll_send(s, a->count, a->dtype, a->root, a->tag, comm, NULL);
	case COLL_KIND_RECV: return coll_recv(d, a->count, a->dtype, a->root, a->tag, comm, NULL);
	default: return call_issue_v(a, comm);
	}
}

static int call_do(struct api_rank *r, struct api_call *call)
{
	coll_result_t code;

	api_call_fill(call);
	code = api_issue(&call->args, r->comm);
	code = code ? code : coll_sync(r->comm);
	if (r->patient && code == COLL_ERR_UNSUPPORTED)
		return api_pass_over(r, code);
	return api_did(r, code, coll_kind_name(call->c.kind)) && api_call_verify(call);
}

int api_call_run(struct api_rank *r, const struct api_case *c)
{
	struct api_call call;
	int good;

	check_slot(r->c, r->slot, coll_kind_name(c->kind));
	good = api_call_make(&call, r, c) && call_do(r, &call);
	api_call_free(&call);
	check_slot(r->c, r->slot, NULL);
	return good;
}
