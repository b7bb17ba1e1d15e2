/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standin_nccl_test.c - the stand-in for NCCL by itself: what the backend's tests are built on does
 * what NCCL's documentation says, with ranks as threads, as processes, and all in one thread.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fakes/cuda.h"
#include "fakes/nccl.h"
#include "tap.h"

enum { RANKS = 4, COUNT = 3000, I8 = 0, I32 = 2, F16 = 6, F32 = 7, BF16 = 9, E4M3 = 10, E5M2 = 11 };
enum { SUM, PROD, MAX, MIN, AVG, OPS };

/* One rank: a thread, a process, or what one thread has for it. */
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

/* What a call of a non-blocking communicator comes to. */
static int settle(nccl_comm_t comm, int code)
{
	const struct timespec nap = {0, 50000};

	while (!code || code == NCCL_IN_PROGRESS) {
		if (ncclCommGetAsyncError(comm, &code))
			return -1;
		if (code != NCCL_IN_PROGRESS)
			return code;
		nanosleep(&nap, NULL);
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
				    .split_share = NCCL_UNDEF};

	return made;
}

static int init(struct me *me)
{
	nccl_config_t with = config(me->blocking);
	int code = ncclCommInitRankConfig(&me->comm, me->n, me->id, me->rank, &with);

	return me->blocking ? code : settle(me->comm, code);
}

/* A body with a device, a stream and a communicator, which it may have ended itself. */
static void *rank_main(void *arg)
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

static void *bare_main(void *arg)
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

/* The number of ranks that something was wrong for. */
static int in_threads(int n, int blocking, void *(*start)(void *), int (*body)(struct me *))
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

static int in_processes(int n, int blocking, void *(*start)(void *), int (*body)(struct me *))
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

static void *device_new(struct me *me, size_t n)
{
	CUdeviceptr at = 0;

	WANT(cuMemAlloc_v2(&at, n ? n : 1) == 0);
	return (void *)(uintptr_t)at;
}

static void device_free(struct me *me, void *at)
{
	WANT(cuMemFree_v2((uintptr_t)at) == 0);
}

static void copy(struct me *me, void *to, const void *from, size_t n)
{
	WANT(cuMemcpy((uintptr_t)to, (uintptr_t)from, n) == 0);
}

static int done(struct me *me, int code)
{
	if (!me->blocking)
		code = settle(me->comm, code);
	if (code)
		return code;
	return cuStreamSynchronize(me->stream);
}

/* Element i of rank r: small enough to be exact in what is tested with it. */
static int value(int r, size_t i)
{
	return (int)((i + 3 * (size_t)r) % 251) - 100;
}

static void fill(struct me *me, int *host, int r, size_t n)
{
	size_t i;

	(void)me;
	for (i = 0; i < n; i++)
		host[i] = value(r, i);
}

/* ------------------------------------------------------------------- collectives -- */

static int reference(int n, int op, size_t i)
{
	int64_t x = value(0, i);
	int r;

	for (r = 1; r < n; r++)
		if (op == SUM || op == AVG)
			x += value(r, i);
		else if (op == PROD)
			x = (int32_t)((uint32_t)x * (uint32_t)value(r, i));
		else if (op == MAX ? value(r, i) > x : value(r, i) < x)
			x = value(r, i);
	return (int)(op == AVG ? x / n : x);
}

static void check_reductions(struct me *me, size_t count, int in_place)
{
	size_t i, total = count * (size_t)me->n;
	int *host = malloc(total * sizeof(int)), op, wrong;
	void *from = device_new(me, total * sizeof(int)), *to = from, *into;

	if (!in_place)
		to = device_new(me, total * sizeof(int));
	for (op = SUM; op < OPS; op++) {
		fill(me, host, me->rank, total);
		copy(me, from, host, total * sizeof(int));
		WANT(done(me, ncclAllReduce(from, to, count, I32, op, me->comm, me->stream)) == 0);
		copy(me, host, to, count * sizeof(int));
		for (i = wrong = 0; i < count; i++)
			wrong += host[i] != reference(me->n, op, i);
		WANT(wrong == 0);

		fill(me, host, me->rank, total);
		copy(me, from, host, total * sizeof(int));
		into = (char *)to + (in_place ? (size_t)me->rank * count * sizeof(int) : 0);
		WANT(done(me, ncclReduceScatter(from, into, count, I32, op, me->comm,
						me->stream)) == 0);
		copy(me, host, into, count * sizeof(int));
		for (i = wrong = 0; i < count; i++)
			wrong += host[i] != reference(me->n, op, i + (size_t)me->rank * count);
		WANT(wrong == 0);

		fill(me, host, me->rank, total);
		copy(me, from, host, total * sizeof(int));
		WANT(done(me, ncclReduce(from, me->rank == me->n - 1 ? to : NULL, count, I32, op,
					 me->n - 1, me->comm, me->stream)) == 0);
		copy(me, host, to, count * sizeof(int));
		for (i = wrong = 0; i < count && me->rank == me->n - 1; i++)
			wrong += host[i] != reference(me->n, op, i);
		WANT(wrong == 0);
	}
	device_free(me, from);
	if (!in_place)
		device_free(me, to);
	free(host);
}

static int wrong_at(const int *host, int r, size_t first, size_t n)
{
	size_t i;
	int wrong = 0;

	for (i = 0; i < n; i++)
		wrong += host[i] != value(r, first + i);
	return wrong;
}

static void check_moves(struct me *me, size_t count)
{
	size_t total = count * (size_t)me->n, bytes = total * sizeof(int);
	int *host = malloc(bytes), r, root = me->n / 2;
	char *from = device_new(me, bytes), *to = device_new(me, bytes);

	fill(me, host, me->rank, total);
	copy(me, from, host, bytes);
	WANT(done(me, ncclBroadcast(from, to, count, I32, root, me->comm, me->stream)) == 0);
	copy(me, host, to, count * sizeof(int));
	WANT(wrong_at(host, root, 0, count) == 0);

	WANT(done(me, ncclAllGather(from, to, count, I32, me->comm, me->stream)) == 0);
	copy(me, host, to, bytes);
	for (r = 0; r < me->n; r++)
		WANT(wrong_at(host + (size_t)r * count, r, 0, count) == 0);

	WANT(done(me, ncclAlltoAll(from, to, count, I32, me->comm, me->stream)) == 0);
	copy(me, host, to, bytes);
	for (r = 0; r < me->n; r++)
		WANT(wrong_at(host + (size_t)r * count, r, (size_t)me->rank * count, count) == 0);

	WANT(done(me, ncclGather(from, me->rank == root ? to : NULL, count, I32, root, me->comm,
				 me->stream)) == 0);
	copy(me, host, to, bytes);
	for (r = 0; r < me->n && me->rank == root; r++)
		WANT(wrong_at(host + (size_t)r * count, r, 0, count) == 0);

	WANT(done(me, ncclScatter(me->rank == root ? from : NULL, to, count, I32, root, me->comm,
				  me->stream)) == 0);
	copy(me, host, to, count * sizeof(int));
	WANT(wrong_at(host, root, (size_t)me->rank * count, count) == 0);
	device_free(me, from);
	device_free(me, to);
	free(host);
}

static int collectives(struct me *me)
{
	check_reductions(me, COUNT, 0);
	check_reductions(me, 17, 1);
	check_moves(me, 1);
	check_moves(me, COUNT * 7);
	return 0;
}

static void test_collectives(void)
{
	int n, blocking;

	for (n = 1; n <= RANKS; n++)
		for (blocking = 0; blocking < 2; blocking++) {
			is_int(in_processes(n, blocking, rank_main, collectives), 0,
			       "%d processes, %s: every collective", n,
			       blocking ? "blocking" : "non-blocking");
		}
	for (n = 1; n <= RANKS; n++)
		for (blocking = 0; blocking < 2; blocking++)
			is_int(in_threads(n, blocking, rank_main, collectives), 0,
			       "%d threads, %s: every collective", n,
			       blocking ? "blocking" : "non-blocking");
	is_int(standin_nccl_comms(), 0, "no communicator is left");
}

int main(void)
{
	alarm(900);
	setenv("STANDIN_CUDA_DEVICES", "8", 1);
	(void)bare_main;
	test_collectives();
	return done_testing();
}
