/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_harness.h - ranks for the tests of the stand-in for NCCL: threads or processes, each with a
 * device, a stream and usually a communicator of its own.
 */
#ifndef TESTS_STANDIN_NCCL_H
#define TESTS_STANDIN_NCCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "nccl.h"
#include "../lib/tap.h"

enum { RANKS = 4 };
/* ncclDataType_t, ncclRedOp_t */
enum { I8 = 0, I32 = 2, F16 = 6, F32 = 7, F64 = 8, BF16 = 9, E4M3 = 10, E5M2 = 11 };
enum { SUM, PROD, MAX, MIN, AVG, OPS };

/* One rank: a thread, a process, or the data of a rank that one thread drives. */
struct me {
	int rank, n, bad, blocking;
	nccl_unique_id_t id;
	nccl_comm_t comm;
	void *stream, *context;
	int (*body)(struct me *me);
};

#define WANT(cond) (void)((cond) || want_failed(me, __LINE__, #cond))

static int want_failed(struct me *me, int line, const char *what)
{
	diag("rank %d of %d: line %d: not %s: %s", me->rank, me->n, line, what,
	     ncclGetLastError(NULL));
	return ++me->bad;
}

/* ------------------------------------------------------------------------- ranks -- */

/* Waits for the final result of a call on a non-blocking communicator. */
static int settle(nccl_comm_t comm, int code)
{
	const struct timespec delay = {0, 50000};

	while (!code || code == NCCL_IN_PROGRESS) {
		if (ncclCommGetAsyncError(comm, &code))
			return -1;
		if (code != NCCL_IN_PROGRESS)
			return code;
		nanosleep(&delay, NULL);
	}
	return code;
}

static void device_take(struct me *me)
{
	WANT(cuInit(0) == 0);
	WANT(cuDevicePrimaryCtxRetain(&me->context, me->rank) == 0);
	WANT(cuCtxPushCurrent_v2(me->context) == 0);
	WANT(cuStreamCreate(&me->stream, CU_STREAM_NON_BLOCKING) == 0);
}

static void device_leave(struct me *me)
{
	void *popped;

	WANT(cuStreamDestroy_v2(me->stream) == 0);
	WANT(cuCtxPopCurrent_v2(&popped) == 0);
	WANT(cuDevicePrimaryCtxRelease_v2(me->rank) == 0);
}

static nccl_config_t config(int blocking)
{
	const nccl_config_t made = {.size = sizeof(made),
				    .magic = (unsigned)NCCL_CONFIG_MAGIC,
				    .version = NCCL_2_18,
				    .blocking = blocking,
				    .cga_cluster_size = NCCL_UNDEF,
				    .min_ctas = NCCL_UNDEF,
				    .max_ctas = NCCL_UNDEF,
				    .split_share = NCCL_UNDEF,
				    .traffic_class = NCCL_UNDEF};

	return made;
}

static int init(struct me *me)
{
	nccl_config_t with = config(me->blocking);
	int code = ncclCommInitRankConfig(&me->comm, me->n, me->id, me->rank, &with);

	return me->blocking ? code : settle(me->comm, code);
}

/* Runs a body with a device, a stream and a communicator, which the body may end itself. */
__attribute__((unused)) static void *rank_main(void *arg)
{
	struct me *me = arg;

	device_take(me);
	WANT(init(me) == NCCL_SUCCESS);
	if (me->comm && !me->bad)
		me->body(me);
	if (me->comm && !me->bad)
		WANT(ncclCommDestroy(me->comm) == NCCL_SUCCESS);
	else if (me->comm)
		ncclCommAbort(me->comm);
	device_leave(me);
	return NULL;
}

__attribute__((unused)) static void *bare_main(void *arg)
{
	struct me *me = arg;

	device_take(me);
	me->body(me);
	device_leave(me);
	return NULL;
}

static void us_new(struct me *us, int n, int blocking, int (*body)(struct me *))
{
	nccl_unique_id_t id;
	int r;

	memset(us, 0, sizeof(*us) * RANKS);
	if (ncclGetUniqueId(&id))
		bail_out("no unique id");
	for (r = 0; r < n; r++) {
		us[r].rank = r;
		us[r].n = n;
		us[r].id = id;
		us[r].blocking = blocking;
		us[r].body = body;
	}
}

/* Returns the number of ranks with a fault. */
__attribute__((unused)) static int in_threads(int n, int blocking, void *(*start)(void *),
					      int (*body)(struct me *))
{
	struct me us[RANKS];
	pthread_t threads[RANKS];
	int r, bad = 0;

	us_new(us, n, blocking, body);
	for (r = 0; r < n; r++)
		if (pthread_create(&threads[r], NULL, start, &us[r]))
			bail_out("no thread");
	for (r = 0; r < n; r++) {
		pthread_join(threads[r], NULL);
		bad += us[r].bad != 0;
	}
	return bad;
}

__attribute__((unused)) static int in_processes(int n, int blocking, void *(*start)(void *),
						int (*body)(struct me *))
{
	struct me us[RANKS];
	pid_t children[RANKS];
	int r, status, bad = 0;

	us_new(us, n, blocking, body);
	for (r = 0; r < n; r++) {
		children[r] = fork();
		if (children[r] < 0)
			bail_out("no process");
		if (!children[r]) {
			alarm(300);
			start(&us[r]);
			if (standin_nccl_comms() != 0)
				us[r].bad++;
			exit(us[r].bad != 0);
		}
	}
	for (r = 0; r < n; r++)
		bad += waitpid(children[r], &status, 0) != children[r] || status != 0;
	return bad;
}

/* ------------------------------------------------------------------------ memory -- */

__attribute__((unused)) static void *device_new(struct me *me, size_t n)
{
	CUdeviceptr at = 0;

	WANT(cuMemAlloc_v2(&at, n ? n : 1) == 0);
	return (void *)(uintptr_t)at;
}

__attribute__((unused)) static void device_free(struct me *me, void *at)
{
	WANT(cuMemFree_v2((uintptr_t)at) == 0);
}

__attribute__((unused)) static void copy(struct me *me, void *to, const void *from, size_t n)
{
	WANT(cuMemcpy((uintptr_t)to, (uintptr_t)from, n) == 0);
}

__attribute__((unused)) static int done(struct me *me, int code)
{
	if (!me->blocking)
		code = settle(me->comm, code);
	if (code)
		return code;
	return cuStreamSynchronize(me->stream);
}

/* A step counter by which ranks in threads wait for each other. */
__attribute__((unused)) static atomic_int test_step;

__attribute__((unused)) static void await_step(int wanted)
{
	const struct timespec delay = {0, 200000};

	while (atomic_load(&test_step) < wanted)
		nanosleep(&delay, NULL);
}

/* The sum of all ranks' numbers, each its rank plus one. */
__attribute__((unused)) static int sum(struct me *me, nccl_comm_t comm, int rank)
{
	int x = rank + 1, code;
	char *at = device_new(me, sizeof(x));

	copy(me, at, &x, sizeof(x));
	code = settle(comm, ncclAllReduce(at, at, 1, I32, SUM, comm, me->stream));
	if (code)
		return -code;
	WANT(cuStreamSynchronize(me->stream) == 0);
	copy(me, &x, at, sizeof(x));
	device_free(me, at);
	return x;
}

#endif
