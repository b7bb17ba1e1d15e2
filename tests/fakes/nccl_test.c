/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_test.c - the operations of the stand-in for NCCL, on which the backend's tests rest: they
 * follow NCCL's documentation, with ranks as threads and as processes.
 */
#include "nccl_harness.h"

enum { COUNT = 3000 };

/* ------------------------------------------------------------------------ values -- */

/* Element i of rank r: small enough that every tested result is exact. */
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

/* Compares the result of a reduction at `to` with a plain reference, from element first on. */
static void check_result(struct me *me, const void *to, size_t first, size_t count, int op,
			 int line)
{
	int *host = malloc(count * sizeof(int)), wrong = 0;
	size_t i;

	copy(me, host, to, count * sizeof(int));
	for (i = 0; i < count; i++)
		wrong += host[i] != reference(me->n, op, first + i);
	if (wrong)
		want_failed(me, line, "what the reference says");
	free(host);
}

/* The buffer `from`, and `to` beside it or, in place, within it. */
static void check_reductions(struct me *me, size_t count, int in_place)
{
	size_t total = count * (size_t)me->n, mine = (size_t)me->rank * count;
	int *host = malloc(total * sizeof(int)), op, root = me->n - 1;
	char *from = device_new(me, total * sizeof(int));
	char *to = in_place ? from : device_new(me, total * sizeof(int));
	char *part = to + (in_place ? mine * sizeof(int) : 0);

	fill(me, host, me->rank, total);
	for (op = SUM; op < OPS; op++) {
		copy(me, from, host, total * sizeof(int));
		WANT(done(me, ncclAllReduce(from, to, count, I32, op, me->comm, me->stream)) == 0);
		check_result(me, to, 0, count, op, __LINE__);
		copy(me, from, host, total * sizeof(int));
		WANT(done(me, ncclReduceScatter(from, part, count, I32, op, me->comm,
						me->stream)) == 0);
		check_result(me, part, mine, count, op, __LINE__);
		copy(me, from, host, total * sizeof(int));
		WANT(done(me, ncclReduce(from, me->rank == root ? to : NULL, count, I32, op, root,
					 me->comm, me->stream)) == 0);
		if (me->rank == root)
			check_result(me, to, 0, count, op, __LINE__);
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

/* ------------------------------------------------------------------------ groups -- */

/*
 * Every rank sends to every rank at once, also to itself, several times, more bytes than any buffer
 * holds.
 */
static int pairs(struct me *me)
{
	enum { N = 50000, TIMES = 2 };
	size_t bytes = sizeof(int) * N, i;
	int *host = malloc(bytes), r, k;
	char *from = device_new(me, bytes * TIMES), *to = device_new(me, bytes * TIMES * RANKS);

	for (k = 0; k < TIMES; k++) {
		fill(me, host, me->rank + 10 * k, N);
		copy(me, from + (size_t)k * bytes, host, bytes);
	}
	WANT(ncclGroupStart() == 0);
	for (k = 0; k < TIMES; k++)
		for (r = 0; r < me->n; r++)
			WANT(ncclSend(from + (size_t)k * bytes, N, I32, r, me->comm, me->stream) ==
			     0);
	for (k = 0; k < TIMES; k++)
		for (r = 0; r < me->n; r++)
			WANT(ncclRecv(to + (size_t)(k * RANKS + r) * bytes, N, I32, r, me->comm,
				      me->stream) == 0);
	WANT(done(me, ncclGroupEnd()) == 0);
	for (k = 0; k < TIMES; k++)
		for (r = 0; r < me->n; r++) {
			copy(me, host, to + (size_t)(k * RANKS + r) * bytes, bytes);
			WANT(wrong_at(host, r + 10 * k, 0, N) == 0);
		}
	for (i = 0; i < 2; i++) {
		WANT(ncclGroupStart() == 0);
		WANT(ncclGroupStart() == 0);
		WANT(ncclAllReduce(from, from, N, I32, SUM, me->comm, me->stream) == 0);
		WANT(ncclGroupEnd() == 0);
		WANT(ncclBroadcast(from, to, N, I32, 0, me->comm, me->stream) == 0);
		WANT(done(me, ncclGroupEnd()) == 0);
	}
	device_free(me, from);
	device_free(me, to);
	free(host);
	return 0;
}

/* A ring of single sends and receives without groups: even ranks send first. */
static int ring(struct me *me)
{
	int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n, got = -1, k;
	char *at = device_new(me, 8);

	copy(me, at, &me->rank, sizeof(int));
	for (k = 0; k < 2; k++)
		if ((me->rank + k) % 2 == 0)
			WANT(done(me, ncclSend(at, 1, I32, next, me->comm, me->stream)) == 0);
		else
			WANT(done(me, ncclRecv(at + 4, 1, I32, last, me->comm, me->stream)) == 0);
	copy(me, &got, at + 4, sizeof(int));
	WANT(got == last);
	device_free(me, at);
	return 0;
}

/* The operations of one group are on two streams: each stream waits for all of them. */
static int streams(struct me *me)
{
	void *other;
	int *host = malloc(COUNT * sizeof(int));
	char *a = device_new(me, COUNT * sizeof(int)), *b = device_new(me, COUNT * sizeof(int));

	WANT(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0);
	fill(me, host, me->rank, COUNT);
	WANT(cuMemcpyHtoDAsync_v2((uintptr_t)b, host, COUNT * sizeof(int), other) == 0);
	WANT(cuMemcpyHtoDAsync_v2((uintptr_t)a, host, COUNT * sizeof(int), me->stream) == 0);
	WANT(ncclGroupStart() == 0);
	WANT(ncclAllReduce(a, a, COUNT, I32, SUM, me->comm, me->stream) == 0);
	WANT(ncclAllReduce(b, b, COUNT, I32, MAX, me->comm, other) == 0);
	WANT(done(me, ncclGroupEnd()) == 0);
	check_result(me, b, 0, COUNT, MAX, __LINE__);
	WANT(cuStreamSynchronize(other) == 0);
	check_result(me, a, 0, COUNT, SUM, __LINE__);
	WANT(cuStreamDestroy_v2(other) == 0);
	device_free(me, a);
	device_free(me, b);
	free(host);
	return 0;
}

static void test_groups(void)
{
	int blocking;

	for (blocking = 0; blocking < 2; blocking++) {
		is_int(in_threads(4, blocking, rank_main, pairs), 0, "4 ranks: pairs at once, %d",
		       blocking);
		is_int(in_threads(1, blocking, rank_main, pairs), 0, "1 rank: pairs at once, %d",
		       blocking);
		is_int(in_threads(2, blocking, rank_main, ring), 0, "2 ranks: a ring, %d",
		       blocking);
		is_int(in_threads(3, blocking, rank_main, streams), 0, "two streams, %d", blocking);
	}
}

int main(void)
{
	setenv("STANDIN_CUDA_DEVICES", "8", 1);
	test_collectives();
	test_groups();
	is_int(standin_nccl_comms(), 0, "no communicator is left");
	return done_testing();
}
