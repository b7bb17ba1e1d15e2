/* SPDX-License-Identifier: BSD-3-Clause */
/* issue.c - the function of coll.h for a call's arguments. */
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
