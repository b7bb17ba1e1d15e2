/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the collectives that can be measured, as a table. */
#include <string.h>
#include "perf/perf.h"

enum { KIND_TAG = 1 };

static coll_result_t kind_allreduce(const struct perf_case *c, const void *send, void *recv)
{
	return coll_allreduce(send, recv, c->count, c->dtype, c->op, c->comm, NULL);
}

static coll_result_t kind_broadcast(const struct perf_case *c, const void *send, void *recv)
{
	return coll_broadcast(send, recv, c->count, c->dtype, c->root, c->comm, NULL);
}

static coll_result_t kind_reduce(const struct perf_case *c, const void *send, void *recv)
{
	return coll_reduce(send, recv, c->count, c->dtype, c->op, c->root, c->comm, NULL);
}

static coll_result_t kind_allgather(const struct perf_case *c, const void *send, void *recv)
{
	return coll_allgather(send, recv, c->count, c->dtype, c->comm, NULL);
}

static coll_result_t kind_reduce_scatter(const struct perf_case *c, const void *send, void *recv)
{
	return coll_reduce_scatter(send, recv, c->count, c->dtype, c->op, c->comm, NULL);
}

static coll_result_t kind_alltoall(const struct perf_case *c, const void *send, void *recv)
{
	return coll_alltoall(send, recv, c->count, c->dtype, c->comm, NULL);
}

static coll_result_t kind_gather(const struct perf_case *c, const void *send, void *recv)
{
	return coll_gather(send, recv, c->count, c->dtype, c->root, c->comm, NULL);
}

static coll_result_t kind_scatter(const struct perf_case *c, const void *send, void *recv)
{
	return coll_scatter(send, recv, c->count, c->dtype, c->root, c->comm, NULL);
}

static coll_result_t kind_scan(const struct perf_case *c, const void *send, void *recv)
{
	return coll_scan(send, recv, c->count, c->dtype, c->op, c->comm, NULL);
}

static coll_result_t kind_exscan(const struct perf_case *c, const void *send, void *recv)
{
	return coll_exscan(send, recv, c->count, c->dtype, c->op, c->comm, NULL);
}

static coll_result_t kind_allgatherv(const struct perf_case *c, const void *send, void *recv)
{
	return coll_allgatherv(send, c->count, recv, c->counts, c->displs, c->dtype, c->comm, NULL);
}

static coll_result_t kind_reduce_scatterv(const struct perf_case *c, const void *send, void *recv)
{
	return coll_reduce_scatterv(send, recv, c->counts, c->dtype, c->op, c->comm, NULL);
}

static coll_result_t kind_alltoallv(const struct perf_case *c, const void *send, void *recv)
{
	return coll_alltoallv(send, c->counts, c->displs, recv, c->counts, c->displs, c->dtype,
			      c->comm, NULL);
}

static coll_result_t kind_gatherv(const struct perf_case *c, const void *send, void *recv)
{
	return coll_gatherv(send, c->count, recv, c->counts, c->displs, c->dtype, c->root, c->comm,
			    NULL);
}

static coll_result_t kind_scatterv(const struct perf_case *c, const void *send, void *recv)
{
	return coll_scatterv(send, c->counts, c->displs, recv, c->count, c->dtype, c->root, c->comm,
			     NULL);
}

/* Sends to the next rank and receives from the previous rank. */
static coll_result_t kind_sendrecv(const struct perf_case *c, const void *send, void *recv)
{
	int32_t next = (c->rank + 1) % c->nranks, before = (c->rank + c->nranks - 1) % c->nranks;
	coll_result_t sent, received, ended, code = coll_group_start();

	if (code != COLL_SUCCESS)
		return code;
	sent = coll_send(send, c->count, c->dtype, next, KIND_TAG, c->comm, NULL);
	received =
		sent ? sent : coll_recv(recv, c->count, c->dtype, before, KIND_TAG, c->comm, NULL);
	ended = coll_group_end();
	return received ? received : ended;
}

static coll_result_t kind_barrier(const struct perf_case *c, const void *send, void *recv)
{
	(void)send;
	(void)recv;
	return coll_barrier(c->comm);
}

const struct perf_kind perf_kinds[] = {
	{.name = "allreduce",
	 .number = COLL_KIND_ALLREDUCE,
	 .reduces = 1,
	 .in_place = 1,
	 .call = kind_allreduce},
	{.name = "broadcast",
	 .number = COLL_KIND_BROADCAST,
	 .rooted = 1,
	 .in_place = 1,
	 .call = kind_broadcast},
	{.name = "reduce",
	 .number = COLL_KIND_REDUCE,
	 .reduces = 1,
	 .rooted = 1,
	 .in_place = 1,
	 .call = kind_reduce},
	{.name = "allgather",
	 .number = COLL_KIND_ALLGATHER,
	 .in_place = 1,
	 .recv_parts = 1,
	 .call = kind_allgather},
	{.name = "reduce_scatter",
	 .number = COLL_KIND_REDUCE_SCATTER,
	 .reduces = 1,
	 .in_place = 1,
	 .send_parts = 1,
	 .call = kind_reduce_scatter},
	{.name = "alltoall",
	 .number = COLL_KIND_ALLTOALL,
	 .send_parts = 1,
	 .recv_parts = 1,
	 .call = kind_alltoall},
	{.name = "gather",
	 .number = COLL_KIND_GATHER,
	 .rooted = 1,
	 .recv_parts = 1,
	 .call = kind_gather},
	{.name = "scatter",
	 .number = COLL_KIND_SCATTER,
	 .rooted = 1,
	 .send_parts = 1,
	 .call = kind_scatter},
	{.name = "allgatherv",
	 .number = COLL_KIND_ALLGATHERV,
	 .in_place = 1,
	 .recv_parts = 1,
	 .call = kind_allgatherv},
	{.name = "reduce_scatterv",
	 .number = COLL_KIND_REDUCE_SCATTERV,
	 .reduces = 1,
	 .in_place = 1,
	 .send_parts = 1,
	 .call = kind_reduce_scatterv},
	{.name = "alltoallv",
	 .number = COLL_KIND_ALLTOALLV,
	 .send_parts = 1,
	 .recv_parts = 1,
	 .call = kind_alltoallv},
	{.name = "gatherv",
	 .number = COLL_KIND_GATHERV,
	 .rooted = 1,
	 .recv_parts = 1,
	 .call = kind_gatherv},
	{.name = "scatterv",
	 .number = COLL_KIND_SCATTERV,
	 .rooted = 1,
	 .send_parts = 1,
	 .call = kind_scatterv},
	{.name = "scan",
	 .number = COLL_KIND_SCAN,
	 .reduces = 1,
	 .in_place = 1,
	 .scans = 1,
	 .call = kind_scan},
	{.name = "exscan",
	 .number = COLL_KIND_EXSCAN,
	 .reduces = 1,
	 .in_place = 1,
	 .scans = 2,
	 .call = kind_exscan},
	{.name = "sendrecv", .number = COLL_KIND_SEND, .call = kind_sendrecv},
	{.name = "barrier", .number = COLL_KIND_BARRIER, .no_data = 1, .call = kind_barrier},
	{.name = NULL},
};

const struct perf_kind *perf_find_kind(const char *name)
{
	for (const struct perf_kind *kind = perf_kinds; kind->name != NULL; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}
