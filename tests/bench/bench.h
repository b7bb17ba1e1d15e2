/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - the measuring loop that all engines share, in C and C++.
 *
 *   bench_ENGINE OPERATION BYTES...          BENCH_MS=150: time of a row, in milliseconds
 *
 * An engine is a program (bench_*.c) with one function, which makes one call of an operation and returns when
 * the call is complete on this rank.  bench_rank_run() does the rest, on every rank, for each size:
 *
 * 1. It makes calls until a sample of `batch` calls takes 50 us, so that the clock's resolution and the
 *    different starts of the ranks do not matter.  These calls are the warm-up as well.
 * 2. It measures samples until the row's time is over, at least three.  Before each sample the engine's own
 *    barrier lines the ranks up, because the barrier of another library would keep the engine from progress.
 * 3. The time of a sample is the longest time of any rank; the row's time is the median of the samples.
 * 4. It checks the results of the last call, and rank 0 prints "OPERATION BYTES MICROSECONDS".
 *
 * Roots of successive calls differ, so that no root runs ahead.  Bytes are those of the longer buffer of a rank
 * (allgather: the result; alltoall, reduce_scatter: the input), as in NCCL's tests and `coll perf`.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum bench_op {
	BENCH_ALLREDUCE,
	BENCH_ALLGATHER,
	BENCH_BROADCAST,
	BENCH_REDUCE_SCATTER,
	BENCH_ALLTOALL,
	BENCH_REDUCE,
	BENCH_BARRIER,
	BENCH_PING_PONG, /* ranks 0 and 1; the time of one way */
	BENCH_GROUP,     /* BENCH_GROUPED allreduces; the time of all of them */
	BENCH_OPS
};

enum { BENCH_RANKS = 64, BENCH_SAMPLES = 4096, BENCH_BATCHES = 16, BENCH_GROUPED = 100 };

#define BENCH_SAMPLE_US 50.0

struct bench_call {
	enum bench_op op;
	const float *in;
	float *out;
	size_t count; /* elements of a part for allgather, reduce_scatter and alltoall; else of the buffer */
	int root;
};

/* The memory that the ranks of a run share. */
struct bench_shared {
	int32_t go[BENCH_SAMPLES + 1];    /* by sample: does the row go on? */
	int32_t batch[BENCH_BATCHES + 1]; /* by attempt: calls in the next sample, or 0: enough */
	double us[BENCH_RANKS][BENCH_SAMPLES];
};

struct bench_rank {
	int rank, nranks;
	struct bench_shared *shared;
	/* Makes the call; returns 0 if the engine has no such operation. */
	int (*call)(struct bench_rank *r, const struct bench_call *call);
	void *engine;
};

static const char *const bench_names[] = {"allreduce",      "allgather", "broadcast",
					  "reduce_scatter", "alltoall",  "reduce",
					  "barrier",        "ping_pong", "group"};

static inline void bench_fail(const char *text, const char *name)
{
	fprintf(stderr, "bench: %s%s\n", text, name);
	exit(1);
}

static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* `size` bytes of shared memory for ranks that are processes: the file that BENCH_SHARED names. */
static inline void *bench_map_shared(size_t size)
{
	const char *path = getenv("BENCH_SHARED");
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	void *shared = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		bench_fail("no shared memory in the file that BENCH_SHARED names: ",
			   path ? path : "(not set)");
	close(fd);
	return shared;
}

static inline struct bench_shared *bench_shared_file(void)
{
	return (struct bench_shared *)bench_map_shared(sizeof(struct bench_shared));
}

static inline int bench_has_parts(enum bench_op op)
{
	return op == BENCH_ALLGATHER || op == BENCH_REDUCE_SCATTER || op == BENCH_ALLTOALL;
}

static inline size_t bench_elements(const struct bench_rank *r, enum bench_op op, size_t bytes)
{
	size_t count = bytes / sizeof(float) / (bench_has_parts(op) ? (size_t)r->nranks : 1);

	return count ? count : 1;
}

/* Touches all pages before the clock starts. */
static inline float *bench_buffer(size_t bytes, int rank)
{
	float *x = (float *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!x)
		bench_fail("no memory", "");
	for (size_t i = 0; i < bytes / sizeof(*x); i++)
		x[i] = (float)(i % 13 + 1 + (size_t)rank);
	return x;
}

/* The expected element i of the result of `call` on this rank. */
static inline float bench_want(const struct bench_rank *r, const struct bench_call *call, size_t i)
{
	size_t n = (size_t)r->nranks, rank = (size_t)r->rank, from = 0;

	switch (call->op) {
	case BENCH_ALLGATHER: return (float)(i % call->count % 13 + 1 + i / call->count);
	case BENCH_ALLTOALL:
		return (float)((rank * call->count + i % call->count) % 13 + 1 + i / call->count);
	case BENCH_BROADCAST: return (float)(i % 13 + 1 + (size_t)call->root);
	case BENCH_PING_PONG: return (float)(i % 13 + 1 + (1 - rank));
	case BENCH_REDUCE_SCATTER: from = rank * call->count; break;
	case BENCH_GROUP: i %= call->count; break;
	default: break;
	}
	return (float)(n * ((from + i) % 13 + 1) + n * (n - 1) / 2);
}

/* Looks at every element up to 64 Ki, then at one of 251 (a prime) and at the last. */
static inline void bench_verify(const struct bench_rank *r, const struct bench_call *call)
{
	int all = call->op == BENCH_ALLGATHER || call->op == BENCH_ALLTOALL;
	size_t n = call->count * (all ? (size_t)r->nranks : 1), i = 0;

	/* The root of a broadcast sends its input in place: MPI has no other broadcast. */
	if (call->op == BENCH_BARRIER || (call->op == BENCH_PING_PONG && r->rank > 1) ||
	    (call->op == BENCH_REDUCE && r->rank != call->root) ||
	    (call->op == BENCH_BROADCAST && r->rank == call->root))
		return;
	n *= call->op == BENCH_GROUP ? BENCH_GROUPED : 1;
	while (i < n) {
		float want = bench_want(r, call, i);

		if (call->out[i] != want) {
			fprintf(stderr,
				"bench: %s: rank %d: element %zu of %zu is %g, expected %g\n",
				bench_names[call->op], r->rank, i, n, (double)call->out[i],
				(double)want);
			exit(1);
		}
		i = i < 65536 || i + 1 == n ? i + 1 : i + 251 < n ? i + 251 : n - 1;
	}
}

/* Microseconds of `batch` calls on this rank, after a barrier. */
static inline double bench_sample(struct bench_rank *r, struct bench_call *call, int batch)
{
	double begin = bench_now();

	for (int i = 0; i < batch; i++) {
		call->root = i % r->nranks;
		r->call(r, call);
	}
	return bench_now() - begin;
}

static inline void bench_barrier(struct bench_rank *r)
{
	const struct bench_call barrier = {BENCH_BARRIER, NULL, NULL, 0, 0};

	r->call(r, &barrier);
}

/* Rank 0 decides how many calls a sample has: at least two attempts, which warm up. */
static inline int bench_batch(struct bench_rank *r, struct bench_call *call)
{
	int batch = 1;

	for (int i = 0;; i++) {
		int next = batch;
		double us;

		bench_barrier(r);
		us = bench_sample(r, call, batch);
		if (us < BENCH_SAMPLE_US)
			next = us * 4 < BENCH_SAMPLE_US ? batch * 4 : batch * 2;
		else if (i > 0)
			next = 0;
		if (r->rank == 0)
			__atomic_store_n(&r->shared->batch[i], i + 1 < BENCH_BATCHES ? next : 0,
					 __ATOMIC_RELEASE);
		bench_barrier(r);
		next = __atomic_load_n(&r->shared->batch[i], __ATOMIC_ACQUIRE);
		if (next == 0)
			return batch;
		batch = next;
	}
}

static inline int bench_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median over the samples of the longest time of any rank. */
static inline double bench_median(struct bench_rank *r, int samples)
{
	double *most = r->shared->us[0];

	for (int i = 0; i < samples; i++)
		for (int k = 1; k < r->nranks; k++)
			most[i] = r->shared->us[k][i] > most[i] ? r->shared->us[k][i] : most[i];
	qsort(most, (size_t)samples, sizeof(*most), bench_order);
	return samples % 2 ? most[samples / 2] : (most[samples / 2 - 1] + most[samples / 2]) / 2;
}

static inline void bench_row(struct bench_rank *r, struct bench_call *call, size_t bytes, double ms)
{
	int batch = bench_batch(r, call), samples = 0;
	double begin = bench_now(), us;

	for (;; samples++) {
		int go = samples < 3 || (samples < BENCH_SAMPLES && bench_now() - begin < ms * 1e3);

		/* Each sample has an element of its own: a slow rank may still read the one before. */
		if (r->rank == 0)
			__atomic_store_n(&r->shared->go[samples], go, __ATOMIC_RELEASE);
		bench_barrier(r);
		if (!__atomic_load_n(&r->shared->go[samples], __ATOMIC_ACQUIRE))
			break;
		us = bench_sample(r, call, batch);
		r->shared->us[r->rank][samples] =
			us / batch / (call->op == BENCH_PING_PONG ? 2 : 1);
	}
	bench_verify(r, call);
	if (r->rank == 0)
		printf("%s %zu %.3f\n", bench_names[call->op], bytes, bench_median(r, samples));
	fflush(stdout);
	bench_barrier(r);
}

/* Every rank runs this with the same arguments. */
static inline void bench_rank_run(struct bench_rank *r, int argc, char **argv)
{
	const char *ms = getenv("BENCH_MS");
	struct bench_call call = {BENCH_OPS, NULL, NULL, 1, 0};
	size_t most = 0, result;

	for (int i = 0; argc > 2 && i < BENCH_OPS; i++)
		if (strcmp(argv[1], bench_names[i]) == 0)
			call.op = (enum bench_op)i;
	if (call.op == BENCH_OPS || r->nranks < 2 || r->nranks > BENCH_RANKS)
		bench_fail("usage: OPERATION BYTES..., on 2 to 64 ranks", "");
	for (int i = 2; i < argc; i++)
		most = strtoull(argv[i], NULL, 10) > most ? strtoull(argv[i], NULL, 10) : most;
	most += sizeof(float) * (size_t)r->nranks;
	call.in = bench_buffer(most, r->rank);
	result = call.op == BENCH_GROUP ? most * BENCH_GROUPED : most;
	call.out = bench_buffer(result, r->rank);
	if (!r->call(r, &call)) {
		if (r->rank == 0)
			printf("none\n");
	} else {
		for (int i = 2; i < argc; i++) {
			size_t bytes = strtoull(argv[i], NULL, 10);

			call.count = bench_elements(r, call.op, bytes);
			memset(call.out, 0, result);
			bench_row(r, &call, bytes, ms ? atof(ms) : 150);
		}
	}
	fflush(stdout);
	free((void *)(uintptr_t)call.in);
	free(call.out);
}

#endif
