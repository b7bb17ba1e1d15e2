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
	 .reduces = 1,
	 .in_place = 1,
	 .factor = PERF_FACTOR_TWICE,
	 .call = kind_allreduce},
	{.name = "broadcast", .rooted = 1, .in_place = 1, .call = kind_broadcast},
	{.name = "reduce", .reduces = 1, .rooted = 1, .in_place = 1, .call = kind_reduce},
	{.name = "allgather",
	 .in_place = 1,
	 .recv_parts = 1,
	 .factor = PERF_FACTOR_PART,
	 .call = kind_allgather},
	{.name = "reduce_scatter",
	 .reduces = 1,
	 .in_place = 1,
	 .send_parts = 1,
	 .factor = PERF_FACTOR_PART,
	 .call = kind_reduce_scatter},
	{.name = "alltoall",
	 .send_parts = 1,
	 .recv_parts = 1,
	 .factor = PERF_FACTOR_PART,
	 .call = kind_alltoall},
	{.name = "gather",
	 .rooted = 1,
	 .recv_parts = 1,
	 .factor = PERF_FACTOR_PART,
	 .call = kind_gather},
	{.name = "scatter",
	 .rooted = 1,
	 .send_parts = 1,
	 .factor = PERF_FACTOR_PART,
	 .call = kind_scatter},
	{.name = "scan", .reduces = 1, .in_place = 1, .scans = 1, .call = kind_scan},
	{.name = "exscan", .reduces = 1, .in_place = 1, .scans = 2, .call = kind_exscan},
	{.name = "sendrecv", .call = kind_sendrecv},
	{.name = "barrier", .no_data = 1, .call = kind_barrier},
	{.name = NULL},
};

const struct perf_kind *perf_find_kind(const char *name)
{
	for (const struct perf_kind *kind = perf_kinds; kind->name != NULL; kind++)
		if (strcmp(kind->name, name) == 0)
			return kind;
	return NULL;
}

/* The formulas come from nccl-tests, doc/PERFORMANCE.md; for gather and scatter from its source. */
double perf_bus_factor(const struct perf_kind *kind, int nranks)
{
	double n = nranks;

	switch (kind->factor) {
	case PERF_FACTOR_TWICE: return 2 * (n - 1) / n;
	case PERF_FACTOR_PART: return (n - 1) / n;
	default: return 1;
	}
}
