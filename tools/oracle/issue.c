/* SPDX-License-Identifier: BSD-3-Clause */
/* issue.c - calls the function of coll.h that a call's arguments name. */
#include "oracle/oracle.h"

static coll_result_t issue_varying(const coll_args_t *a, coll_comm_t comm, coll_stream_t stream)
{
	switch (a->kind) {
	case COLL_KIND_ALLGATHERV:
		return coll_allgatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts,
				       a->recvdispls, a->dtype, comm, stream);
	case COLL_KIND_REDUCE_SCATTERV:
		return coll_reduce_scatterv(a->sendbuf, a->recvbuf, a->recvcounts, a->dtype, a->op,
					    comm, stream);
	case COLL_KIND_ALLTOALLV:
		return coll_alltoallv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf,
				      a->recvcounts, a->recvdispls, a->dtype, comm, stream);
	case COLL_KIND_GATHERV:
		return coll_gatherv(a->sendbuf, a->count, a->recvbuf, a->recvcounts, a->recvdispls,
				    a->dtype, a->root, comm, stream);
	default:
		return coll_scatterv(a->sendbuf, a->sendcounts, a->senddispls, a->recvbuf, a->count,
				     a->dtype, a->root, comm, stream);
	}
}

coll_result_t oracle_issue(const coll_args_t *a, coll_comm_t comm, coll_stream_t stream)
{
	const void *s = a->sendbuf;
	void *d = a->recvbuf;

	switch (a->kind) {
	case COLL_KIND_ALLREDUCE:
		return coll_allreduce(s, d, a->count, a->dtype, a->op, comm, stream);
	case COLL_KIND_BROADCAST:
		return coll_broadcast(s, d, a->count, a->dtype, a->root, comm, stream);
	case COLL_KIND_REDUCE:
		return coll_reduce(s, d, a->count, a->dtype, a->op, a->root, comm, stream);
	case COLL_KIND_ALLGATHER: return coll_allgather(s, d, a->count, a->dtype, comm, stream);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter(s, d, a->count, a->dtype, a->op, comm, stream);
	case COLL_KIND_ALLTOALL: return coll_alltoall(s, d, a->count, a->dtype, comm, stream);
	case COLL_KIND_GATHER: return coll_gather(s, d, a->count, a->dtype, a->root, comm, stream);
	case COLL_KIND_SCATTER:
		return coll_scatter(s, d, a->count, a->dtype, a->root, comm, stream);
	case COLL_KIND_SCAN: return coll_scan(s, d, a->count, a->dtype, a->op, comm, stream);
	case COLL_KIND_EXSCAN: return coll_exscan(s, d, a->count, a->dtype, a->op, comm, stream);
	case COLL_KIND_BARRIER: return coll_barrier(comm);
	case COLL_KIND_SEND: return coll_send(s, a->count, a->dtype, a->root, a->tag, comm, stream);
	case COLL_KIND_RECV: return coll_recv(d, a->count, a->dtype, a->root, a->tag, comm, stream);
	default: return issue_varying(a, comm, stream);
	}
}

/* Fills in the blocks of a buffer as a list. */
static void issue_fill(const struct oracle_call *call, const struct oracle_blocks *b, void *buffer,
		       void *list[ORACLE_RANKS])
{
	for (int32_t r = 0; r < call->nranks; r++)
		list[r] = (char *)buffer + b->displ[r] * call->elem;
}

coll_result_t oracle_call_issue(const struct oracle_call *call, coll_comm_t comm,
				coll_stream_t stream)
{
	const coll_args_t *a = &call->args;
	void *sends[ORACLE_RANKS], *recvs[ORACLE_RANKS];
	void *const *to = a->recvbuf ? recvs : NULL;
	const void *const *from = a->sendbuf ? (const void *const *)sends : NULL;

	if (!call->c.list)
		return oracle_issue(a, comm, stream);
	if (from)
		issue_fill(call, &call->send, (void *)(uintptr_t)a->sendbuf, sends);
	if (to)
		issue_fill(call, &call->recv, a->recvbuf, recvs);
	switch (a->kind) {
	case COLL_KIND_ALLGATHER:
		return coll_allgather_list(a->sendbuf, to, a->count, a->dtype, comm, stream);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter_list(from, a->recvbuf, a->count, a->dtype, a->op, comm,
						stream);
	case COLL_KIND_ALLTOALL:
		return coll_alltoall_list(from, to, a->count, a->dtype, comm, stream);
	case COLL_KIND_GATHER:
		return coll_gather_list(a->sendbuf, to, a->count, a->dtype, a->root, comm, stream);
	default:
		return coll_scatter_list(from, a->recvbuf, a->count, a->dtype, a->root, comm,
					 stream);
	}
}
