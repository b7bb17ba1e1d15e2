/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_differ.c - calls of rank 0 that differ from those of the other ranks.  NCCL compares nothing: some of these calls
 * never end, others end with wrong data.  The library tells every rank both calls: after `stall_after` where a rank
 * waits, else by the next 1,024th collective.
 */
#include <stdio.h>
#include "gpu.h"

/*
 * DIFFER_ENOUGH: calls after which the ranks have compared theirs, though none has waited long.  After an abort each call
 * that is queued on the stream takes NCCL's kernel some milliseconds, so there are few at a time.
 */
enum {
	DIFFER_ENOUGH = 1100,
	DIFFER_QUEUED = 16,
	DIFFER_HEAR_MS = 10000,
	DIFFER_FIRST = 20,
	DIFFER_SECOND = 40
};

static coll_result_t differ_sum(const struct gpu *g, coll_comm_t comm, size_t count)
{
	return coll_allreduce(g->send, g->recv, count, COLL_INT32, COLL_SUM, comm, NULL);
}

static coll_result_t differ_copy(const struct gpu *g, coll_comm_t comm, int root)
{
	return coll_broadcast(g->send, g->recv, DIFFER_SECOND, COLL_INT32, root, comm, NULL);
}

static coll_result_t differ_count(const struct gpu *g, coll_comm_t comm, int odd)
{
	return differ_sum(g, comm, odd ? DIFFER_SECOND : DIFFER_FIRST);
}

static coll_result_t differ_kind(const struct gpu *g, coll_comm_t comm, int odd)
{
	if (!odd)
		return differ_sum(g, comm, DIFFER_FIRST);
	return coll_reduce(g->send, g->recv, DIFFER_FIRST, COLL_INT32, COLL_SUM, 0, comm, NULL);
}

static coll_result_t differ_root(const struct gpu *g, coll_comm_t comm, int odd)
{
	return differ_copy(g, comm, odd);
}

static coll_result_t differ_op(const struct gpu *g, coll_comm_t comm, int odd)
{
	return coll_allreduce(g->send, g->recv, DIFFER_FIRST, COLL_INT32, odd ? COLL_MAX : COLL_SUM,
			      comm, NULL);
}

static coll_result_t differ_type(const struct gpu *g, coll_comm_t comm, int odd)
{
	return coll_allreduce(g->send, g->recv, DIFFER_FIRST, odd ? COLL_UINT32 : COLL_INT32,
			      COLL_SUM, comm, NULL);
}

static coll_result_t differ_order(const struct gpu *g, coll_comm_t comm, int odd)
{
	coll_result_t code = odd ? differ_copy(g, comm, 0) : differ_sum(g, comm, DIFFER_FIRST);

	if (code)
		return code;
	return odd ? differ_sum(g, comm, DIFFER_FIRST) : differ_copy(g, comm, 0);
}

static coll_result_t differ_fewer(const struct gpu *g, coll_comm_t comm, int odd)
{
	coll_result_t code = odd ? COLL_SUCCESS : differ_sum(g, comm, DIFFER_FIRST);

	return code ? code : differ_copy(g, comm, 0);
}

/* The others wait for a call on device memory, rank 0 for one on host memory. */
static coll_result_t differ_memory(const struct gpu *g, coll_comm_t comm, int odd)
{
	if (!odd)
		return differ_sum(g, comm, DIFFER_FIRST);
	return coll_allreduce(g->host, g->host, DIFFER_SECOND, COLL_INT32, COLL_SUM, comm, NULL);
}

static const struct differ {
	const char *name;
	coll_result_t (*call)(const struct gpu *g, coll_comm_t comm, int odd);
	const char *words[2]; /* both in the text of every rank's error */
} differs[] = {
	{"another count",
	 differ_count,
	 {"allreduce of 20 int32 (sum)", "allreduce of 40 int32 (sum)"}},
	{"another collective",
	 differ_kind,
	 {"allreduce of 20 int32 (sum)", "reduce of 20 int32 (sum) with root 0"}},
	{"another root",
	 differ_root,
	 {"broadcast of 40 int32 with root 0", "broadcast of 40 int32 with root 1"}},
	{"another operation",
	 differ_op,
	 {"allreduce of 20 int32 (sum)", "allreduce of 20 int32 (max)"}},
	{"another type",
	 differ_type,
	 {"allreduce of 20 int32 (sum)", "allreduce of 20 uint32 (sum)"}},
	{"another order",
	 differ_order,
	 {"allreduce of 20 int32 (sum)", "broadcast of 40 int32 with root 0"}},
	{"a call left out",
	 differ_fewer,
	 {"allreduce of 20 int32 (sum)", "broadcast of 40 int32 with root 0"}},
	{"memory of another kind",
	 differ_memory,
	 {"allreduce of 20 int32 (sum)", "allreduce of 40 int32 (sum)"}},
};

/* The ranks have compared their calls; the answer is on its way. */
static coll_result_t differ_hear(coll_comm_t comm)
{
	coll_result_t code = COLL_SUCCESS, error = COLL_SUCCESS;

	for (int i = 0; i < DIFFER_HEAR_MS && !code && !error; i++) {
		code = coll_comm_get_async_error(comm, &error);
		if (!error)
			gpu_sleep(0.001);
	}
	return coll_sync(comm);
}

/* Makes calls that fit, until one fails or there have been enough; returns its code. */
static coll_result_t differ_go_on(const struct gpu *g, coll_comm_t comm, int *calls)
{
	coll_result_t code = COLL_SUCCESS;

	for (*calls = 0; !code && *calls < DIFFER_ENOUGH; ++*calls) {
		code = differ_sum(g, comm, 1);
		if (!code && *calls % DIFFER_QUEUED == 0)
			code = coll_sync(comm);
	}
	return code ? code : differ_hear(comm);
}

static void differ_one(const struct gpu *g, const struct differ *d)
{
	coll_comm_t comm;
	coll_result_t code;
	double begin;
	int calls = 0;

	if (!gpu_did(coll_comm_dup(g->comm, &comm), "coll_comm_dup") ||
	    !gpu_sums(g, comm, gpu_total(g), "while all calls fit"))
		return;
	gpu_did(coll_barrier(g->comm), "coll_barrier");
	begin = gpu_now();
	code = d->call(g, comm, g->rank == 0);
	if (!code)
		code = coll_sync(comm);
	if (!code)
		code = differ_go_on(g, comm, &calls);
	if (gpu_refused(code, COLL_ERR_MISMATCH, d->words[0], d->name) &&
	    gpu_refused(code, COLL_ERR_MISMATCH, d->words[1], d->name) && g->rank == 0)
		gpu_say("note|%s: told after %.0f ms and %d further calls", d->name,
			1e3 * (gpu_now() - begin), calls);
	gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
}

void gpu_differ(struct gpu *g)
{
	char name[100];

	for (size_t i = 0; i < sizeof(differs) / sizeof(differs[0]); i++) {
		snprintf(name, sizeof(name), "a call that differs: %s", differs[i].name);
		if (g->nranks < 2) {
			gpu_skip(name, "one rank");
			continue;
		}
		differ_one(g, &differs[i]);
		gpu_sums(g, g->comm, gpu_total(g), "the other communicator afterwards");
		gpu_report("%s", name);
	}
}
