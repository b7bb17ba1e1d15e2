/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - the measuring loop that all engines share, in C and C++.
 *
 *   bench_ENGINE OPERATION BYTES... [OPERATION BYTES...]...
 *       BENCH_MS=150: milliseconds of a row.  BENCH_LIMIT=60: seconds after which SIGALRM ends the rank.
 *       BENCH_FRESH=0: the input stays as it is; else each call has a new one.
 *       BENCH_NS=15-50,120-211: samples while a cache line takes so many nanoseconds from one processor to another, near or
 *       far (near.h), count apart.  BENCH_AWAITED="near far": a row waits for these.  BENCH_PATIENCE=1000: the most
 *       milliseconds of a row then.
 *
 * An engine is a program (bench_*.c) with one function, which makes one call of an operation and returns when
 * the call is complete on this rank.  bench_rank_run() does the rest, on every rank, for each size:
 *
 * 1. It makes calls until a sample of `batch` calls takes 50 us, so that the clock's resolution and the
 *    different starts of the ranks do not matter.  These calls are the warm-up as well.
 * 2. It measures samples until the row's time is over, at least three within three times the row's time.  Before
 *    each sample the engine's own barrier lines the ranks up, because the barrier of another library would keep the
 *    engine from progress.  Where the first call takes longer than two seconds, it is the only sample.  (It pays for the
 *    pages of the engine's memory: 0.3 s for a reduce of 128 MiB on 4 ranks that takes 0.06 s afterwards.)
 * 3. The time of a sample is the longest time of any rank; the row's time is the median of the samples.
 * 4. It checks the results of the last call, and rank 0 prints "OPERATION BYTES any MICROSECONDS SAMPLES MEAN", where
 *    MEAN is the mean of the samples.  Before the row rank 0 prints "OPERATION BYTES begun", and "OPERATION none" if the
 *    engine has no such operation.
 *
 * Before each call a rank writes a byte in each cache line of its input, as a program has that computed it.  The time
 * counts.  Without it an engine that reads the sender's memory finds it in the cache of the receiver's processor, where the
 * last call has left it.
 *
 * With BENCH_NS the row goes on until there are samples of BENCH_MS milliseconds of near and of far processors, and step 4
 * prints a line with "near" and a line with "far"; 0 SAMPLES: there were none.  "OPERATION BYTES neither 0 SAMPLES 0" counts
 * the samples that are of neither.
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
#include "near.h"

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
	BENCH_ALLREDUCE_F16,
	BENCH_ALLREDUCE_BF16,
	BENCH_OPS
};

enum {
	BENCH_RANKS = 64,
	BENCH_SAMPLES = 4096,
	BENCH_BATCHES = 16,
	BENCH_GROUPED = 100,
	BENCH_WORDS = 64,
	BENCH_SLEEP_NS =
		20000 /* of ranks that wait for rank 0's word while others look how near they are */
};

/* What rank 0 says before each sample: whether there is one, plus BENCH_KIND * (1 + the kind of the sample before). */
enum { BENCH_GO = 1, BENCH_KIND = 2, BENCH_ANSWERS = BENCH_KIND * (1 + NEAR_KINDS) };

#define BENCH_SAMPLE_US 50.0
#define BENCH_LONG_US   2e6 /* a first call of this length is the only sample */

struct bench_call {
	enum bench_op op;
	const float *in; /* BENCH_ALLREDUCE_F16, _BF16: 16-bit elements, in `out` too */
	float *out;
	size_t count; /* elements of a part for allgather, reduce_scatter and alltoall; else of the buffer */
	int root;
};

/* The memory that the ranks of a run share. */
struct bench_shared {
	struct near_shared near;
	int32_t words[BENCH_WORDS]; /* by sample: its number times BENCH_ANSWERS, plus the answer */
	int32_t batch[BENCH_BATCHES + 1]; /* by attempt: calls in the next sample, or 0: enough */
	double us[NEAR_KINDS][BENCH_RANKS][BENCH_SAMPLES];
};

struct bench_rank {
	int rank, nranks;
	struct bench_shared *shared;
	int fresh; /* BENCH_FRESH */
	struct near near;
	int32_t words;
	/* Makes the call; returns 0 if the engine has no such operation. */
	int (*call)(struct bench_rank *r, const struct bench_call *call);
	/* Allocate and free the buffers; NULL: aligned_alloc and free. */
	void *(*alloc)(struct bench_rank *r, size_t bytes);
	void (*release)(void *buffer);
	void *engine;
};

static const char *const bench_names[] = {
	"allreduce", "allgather", "broadcast", "reduce_scatter", "alltoall",      "reduce",
	"barrier",   "ping_pong", "group",     "allreduce_f16",  "allreduce_bf16"};

static inline void bench_fail(const char *text, const char *name)
{
	fprintf(stderr, "bench: %s%s\n", text, name);
	exit(1);
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

static inline int bench_is_16bit(enum bench_op op)
{
	return op == BENCH_ALLREDUCE_F16 || op == BENCH_ALLREDUCE_BF16;
}

static inline size_t bench_elements(const struct bench_rank *r, enum bench_op op, size_t bytes)
{
	size_t size = bench_is_16bit(op) ? sizeof(uint16_t) : sizeof(float);
	size_t count = bytes / size / (bench_has_parts(op) ? (size_t)r->nranks : 1);

	return count ? count : 1;
}

/* Element i of rank 0's input; rank r's is greater by r.  Sums of 16 ranks stay exact in bf16's 8 bits. */
static inline float bench_value(enum bench_op op, size_t i)
{
	return (float)(i % (bench_is_16bit(op) ? 4 : 13) + 1);
}

/* The 16-bit form of a float that is normal and exact in f16 or bf16, and back. */
static inline uint16_t bench_narrow(enum bench_op op, float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)(op == BENCH_ALLREDUCE_BF16 ? bits >> 16 : (bits >> 13) - (112 << 10));
}

static inline float bench_widen(enum bench_op op, uint16_t x)
{
	uint32_t bits =
		op == BENCH_ALLREDUCE_BF16 ? (uint32_t)x << 16 : ((uint32_t)x << 13) + (112u << 23);
	float wide;

	memcpy(&wide, &bits, sizeof(wide));
	return wide;
}

static inline void bench_fill(float *x, size_t bytes, enum bench_op op, int rank)
{
	uint16_t *narrow = (uint16_t *)x;

	for (size_t i = 0; bench_is_16bit(op) && i < bytes / sizeof(*narrow); i++)
		narrow[i] = bench_narrow(op, bench_value(op, i) + (float)rank);
	for (size_t i = 0; !bench_is_16bit(op) && i < bytes / sizeof(*x); i++)
		x[i] = bench_value(op, i) + (float)rank;
}

/* Touches all pages before the clock starts. */
static inline float *bench_buffer(size_t bytes, int rank)
{
	float *x = (float *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!x)
		bench_fail("no memory", "");
	bench_fill(x, bytes, BENCH_ALLREDUCE, rank);
	return x;
}

/* The same in the engine's own memory, if it has any. */
static inline float *bench_engine_buffer(struct bench_rank *r, size_t bytes)
{
	float *x;

	if (!r->alloc)
		return bench_buffer(bytes, r->rank);
	x = (float *)r->alloc(r, bytes);
	bench_fill(x, bytes, BENCH_ALLREDUCE, r->rank);
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
	return (float)n * bench_value(call->op, from + i) + (float)(n * (n - 1) / 2);
}

/* Elements of the result of a rank. */
static inline size_t bench_results(const struct bench_rank *r, const struct bench_call *call)
{
	int all = call->op == BENCH_ALLGATHER || call->op == BENCH_ALLTOALL;

	return call->count * (all ? (size_t)r->nranks : 1) *
	       (call->op == BENCH_GROUP ? BENCH_GROUPED : 1);
}

/* Looks at every element up to 64 Ki, then at one of 251 (a prime) and at the last. */
static inline void bench_verify(const struct bench_rank *r, const struct bench_call *call)
{
	size_t n = bench_results(r, call), i = 0;

	/* The root of a broadcast sends its input in place: MPI has no other broadcast. */
	if (call->op == BENCH_BARRIER || (call->op == BENCH_PING_PONG && r->rank > 1) ||
	    (call->op == BENCH_REDUCE && r->rank != call->root) ||
	    (call->op == BENCH_BROADCAST && r->rank == call->root))
		return;
	while (i < n) {
		float want = bench_want(r, call, i), got;

		got = bench_is_16bit(call->op)
			      ? bench_widen(call->op, ((const uint16_t *)call->out)[i])
			      : call->out[i];
		if (got != want) {
			fprintf(stderr,
				"bench: %s: rank %d: element %zu of %zu is %g, expected %g\n",
				bench_names[call->op], r->rank, i, n, (double)got, (double)want);
			exit(1);
		}
		i = i < 65536 || i + 1 == n ? i + 1 : i + 251 < n ? i + 251 : n - 1;
	}
}

/* Bytes of the input that this rank gives in the call. */
static inline size_t bench_given(const struct bench_rank *r, const struct bench_call *call)
{
	size_t parts = call->op == BENCH_ALLTOALL || call->op == BENCH_REDUCE_SCATTER
			       ? (size_t)r->nranks
			       : 1;

	if (call->op == BENCH_BARRIER || (call->op == BENCH_BROADCAST && r->rank != call->root) ||
	    (call->op == BENCH_PING_PONG && r->rank > 1))
		return 0;
	return call->count * parts * (bench_is_16bit(call->op) ? sizeof(uint16_t) : sizeof(float));
}

/* This rank writes a byte of each cache line of its input again, with the value that the byte has. */
static inline void bench_renew(const struct bench_rank *r, const struct bench_call *call)
{
	volatile char *in = (volatile char *)(uintptr_t)call->in;
	size_t n = r->fresh ? bench_given(r, call) : 0;

	for (size_t i = 0; i < n; i += 64)
		in[i] = in[i];
}

/* Microseconds of `batch` calls on this rank, after a barrier. */
static inline double bench_sample(struct bench_rank *r, struct bench_call *call, int batch)
{
	double begin = bench_now();

	for (int i = 0; i < batch; i++) {
		call->root = i % r->nranks;
		bench_renew(r, call);
		r->call(r, call);
	}
	return bench_now() - begin;
}

static inline void bench_barrier(struct bench_rank *r)
{
	const struct bench_call barrier = {BENCH_BARRIER, NULL, NULL, 0, 0};

	r->call(r, &barrier);
}

/*
 * Rank 0 decides how many calls a sample has: at least two attempts, which warm up; one if the first takes longer than
 * the row's time.  Returns 0 if the first call was so long that its time, in `us`, is the row's.
 */
static inline int bench_batch(struct bench_rank *r, struct bench_call *call, double ms, double *us)
{
	int batch = 1;

	for (int i = 0;; i++) {
		int next = batch;

		bench_barrier(r);
		*us = bench_sample(r, call, batch);
		if (*us < BENCH_SAMPLE_US)
			next = *us * 4 < BENCH_SAMPLE_US ? batch * 4 : batch * 2;
		else if (i == 0 && *us > BENCH_LONG_US)
			next = -1;
		else if (i > 0 || *us > ms * 1e3)
			next = 0;
		if (r->rank == 0)
			__atomic_store_n(&r->shared->batch[i], i + 1 < BENCH_BATCHES ? next : 0,
					 __ATOMIC_RELEASE);
		bench_barrier(r);
		next = __atomic_load_n(&r->shared->batch[i], __ATOMIC_ACQUIRE);
		if (next <= 0)
			return next < 0 ? 0 : batch;
		batch = next;
	}
}

static inline void bench_say(struct bench_rank *r, int32_t word)
{
	__atomic_store_n(&r->shared->words[(r->words + 1) % BENCH_WORDS],
			 BENCH_ANSWERS * (r->words + 1) + word, __ATOMIC_RELEASE);
}

/* A slow rank may still read the word before, which has an element of its own. */
static inline int32_t bench_hear(struct bench_rank *r)
{
	const struct timespec sleep = {0, BENCH_SLEEP_NS};
	int32_t word, number = ++r->words;

	for (;;) {
		word = __atomic_load_n(&r->shared->words[number % BENCH_WORDS], __ATOMIC_ACQUIRE);
		if (word / BENCH_ANSWERS == number)
			return word % BENCH_ANSWERS;
		if (r->near.binds)
			nanosleep(&sleep, NULL);
		else
			bench_pause();
	}
}

/* How far a row is; only rank 0 knows all of it. */
struct bench_progress {
	double ms, begin;
	double ns; /* the distance before the last sample */
	int attempts;
	int neither; /* samples that are of neither kind */
	int samples[NEAR_KINDS];
	double counted[NEAR_KINDS]; /* microseconds of these samples */
};

/* Does the row need more samples of this kind?  `time`: milliseconds that the samples of this kind have taken. */
static inline int bench_lacks(const struct bench_progress *p, int kind, double time)
{
	const int samples = p->samples[kind];

	return samples < 1 || (samples < 3 && time < 3 * p->ms) ||
	       (samples < BENCH_SAMPLES && time < p->ms);
}

/* Does the row go on?  Where distances count, the time is that of the samples of a kind, else all time. */
static inline int bench_goes_on(const struct bench_rank *r, const struct bench_progress *p)
{
	const double passed = (bench_now() - p->begin) / 1e3;

	if (r->near.kinds == 1)
		return bench_lacks(p, NEAR_NEAR, passed);
	for (int kind = 0; kind < NEAR_KINDS && passed <= r->near.patience_ms; kind++)
		if (r->near.awaited[kind] && bench_lacks(p, kind, p->counted[kind] / 1e3))
			return 1;
	return 0;
}

/*
 * Rank 0, after `us` of the last sample and with the distance since: of which kind is that sample, and does the row go on?
 * The other ranks count the sample when they hear the answer.
 */
static inline int32_t bench_decide(const struct bench_rank *r, struct bench_progress *p, double us,
				   double ns)
{
	int kind = p->attempts ? near_kind_of(&r->near, p->ns, ns) : NEAR_NEITHER;

	p->neither += p->attempts > 0 && kind == NEAR_NEITHER;
	p->attempts++;
	p->ns = ns;
	if (kind != NEAR_NEITHER && p->samples[kind] == BENCH_SAMPLES)
		kind = NEAR_NEITHER; /* one too many, while the row waits for the other kind */
	if (kind != NEAR_NEITHER) {
		p->samples[kind]++;
		p->counted[kind] += us;
	}
	return BENCH_KIND * (1 + kind) + bench_goes_on(r, p);
}

/* Notes the time of the last sample, which is of this kind.  On rank 0 bench_decide has counted it. */
static inline void bench_keep(struct bench_rank *r, struct bench_progress *p, int kind, double us)
{
	if (r->rank != 0)
		p->samples[kind]++;
	r->shared->us[kind][r->rank][p->samples[kind] - 1] = us;
}

/* Lines the ranks up.  Returns rank 0's answer about the sample of `us` before. */
static inline int32_t bench_between(struct bench_rank *r, struct bench_progress *p, double us)
{
	double ns = 0;
	int32_t word;

	/* The ranks leave the engine's barrier before they are measured: until then one may need the other's progress. */
	if (r->near.kinds > 1) {
		bench_barrier(r);
		ns = near_look(&r->near);
	}
	if (r->rank == 0)
		bench_say(r, bench_decide(r, p, us, ns));
	if (r->near.kinds == 1)
		bench_barrier(r);
	word = bench_hear(r);
	/* Those that have slept come late. */
	if (r->near.binds)
		bench_barrier(r);
	return word;
}

static inline int bench_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median over the samples of a kind of the longest time of any rank. */
static inline double bench_median(struct bench_rank *r, int kind, int samples)
{
	double(*us)[BENCH_SAMPLES] = r->shared->us[kind], *most = us[0];

	for (int i = 0; i < samples; i++)
		for (int k = 1; k < r->nranks; k++)
			most[i] = us[k][i] > most[i] ? us[k][i] : most[i];
	qsort(most, (size_t)samples, sizeof(*most), bench_order);
	return samples % 2 ? most[samples / 2] : (most[samples / 2 - 1] + most[samples / 2]) / 2;
}

/* Reads what of the samples counts. */
static inline void bench_set_samples(struct bench_rank *r)
{
	const char *fresh = getenv("BENCH_FRESH");

	r->fresh = !fresh || atoi(fresh) != 0;
	if (!near_set(&r->near, &r->shared->near, r->rank, r->nranks))
		bench_fail("BENCH_NS is not LEAST-MOST,LEAST-MOST, nanoseconds of near and of far "
			   "processors: ",
			   getenv("BENCH_NS"));
}

/* The mean over the samples of a kind of the longest time of any rank.  To be called after bench_median, which collects them. */
static inline double bench_mean(const struct bench_rank *r, int kind, int samples)
{
	double sum = 0;

	for (int i = 0; i < samples; i++)
		sum += r->shared->us[kind][0][i];
	return sum / samples;
}

/* Rank 0 prints the row, when all ranks have their times in the shared memory. */
static inline void bench_print(struct bench_rank *r, const struct bench_progress *p,
			       enum bench_op op, size_t bytes)
{
	for (int kind = 0; kind < r->near.kinds; kind++) {
		const int n = p->samples[kind];
		const double median = n ? bench_median(r, kind, n) : 0;

		printf("%s %zu %s %.3f %d %.3f\n", bench_names[op], bytes,
		       near_name(&r->near, kind), median, n, n ? bench_mean(r, kind, n) : 0);
	}
	if (p->neither)
		printf("%s %zu neither 0 %d 0\n", bench_names[op], bytes, p->neither);
	fflush(stdout);
}

/* A call of more than two seconds is the row's only sample, of the kind that is nearest to the distance after it. */
static inline void bench_take_only(struct bench_rank *r, struct bench_progress *p, double us)
{
	int kind = NEAR_NEAR;

	bench_barrier(r);
	if (r->near.kinds > 1 && near_look(&r->near) >= r->near.least[NEAR_FAR])
		kind = NEAR_FAR;
	if (r->rank == 0)
		bench_say(r, BENCH_KIND * (1 + kind));
	kind = bench_hear(r) / BENCH_KIND - 1;
	p->samples[kind] = 1;
	r->shared->us[kind][r->rank][0] = us;
	bench_barrier(r);
}

static inline void bench_row(struct bench_rank *r, struct bench_call *call, size_t bytes, double ms)
{
	struct bench_progress p = {.ms = ms};
	double scale = call->op == BENCH_PING_PONG ? 2 : 1, us = 0;
	int32_t answer = BENCH_GO;
	int batch, kind;

	if (r->rank == 0)
		printf("%s %zu begun\n", bench_names[call->op], bytes);
	fflush(stdout);
	batch = bench_batch(r, call, ms, &us);
	p.begin = bench_now();
	if (batch == 0)
		bench_take_only(r, &p, us / scale);
	while (batch > 0 && answer & BENCH_GO) {
		answer = bench_between(r, &p, us);
		kind = answer / BENCH_KIND - 1;
		if (kind >= 0)
			bench_keep(r, &p, kind, us / batch / scale);
		if (answer & BENCH_GO)
			us = bench_sample(r, call, batch);
	}
	bench_verify(r, call);
	bench_barrier(r);
	if (r->rank == 0)
		bench_print(r, &p, call->op, bytes);
	bench_barrier(r);
}

/* The operation of that name, or BENCH_OPS. */
static inline enum bench_op bench_op_named(const char *name)
{
	for (int i = 0; i < BENCH_OPS; i++)
		if (strcmp(name, bench_names[i]) == 0)
			return (enum bench_op)i;
	return BENCH_OPS;
}

/* The longest input and result of all rows, in bytes. */
static inline void bench_longest(int nranks, int argc, char **argv, size_t longest[2])
{
	enum bench_op op = BENCH_OPS;

	for (int i = 1; i < argc; i++) {
		size_t bytes = strtoull(argv[i], NULL, 10) + sizeof(float) * (size_t)nranks;

		op = bench_op_named(argv[i]) == BENCH_OPS ? op : bench_op_named(argv[i]);
		longest[0] = bytes > longest[0] ? bytes : longest[0];
		bytes *= op == BENCH_GROUP ? BENCH_GROUPED : 1;
		longest[1] = bytes > longest[1] ? bytes : longest[1];
	}
}

/* Every rank runs this with the same arguments. */
static inline void bench_rank_run(struct bench_rank *r, int argc, char **argv)
{
	const char *ms = getenv("BENCH_MS"), *limit = getenv("BENCH_LIMIT");
	struct bench_call call = {BENCH_OPS, NULL, NULL, 1, 0};
	size_t longest[2] = {0, 0};
	float *in;
	int has = 0;

	alarm(limit ? (unsigned)atoi(limit) : 0);
	if (argc < 3 || bench_op_named(argv[1]) == BENCH_OPS || r->nranks < 2 ||
	    r->nranks > BENCH_RANKS)
		bench_fail("usage: OPERATION BYTES..., on 2 to 64 ranks", "");
	bench_set_samples(r);
	bench_longest(r->nranks, argc, argv, longest);
	call.in = in = bench_engine_buffer(r, longest[0]);
	call.out = bench_engine_buffer(r, longest[1]);
	for (int i = 1; i < argc; i++) {
		enum bench_op op = bench_op_named(argv[i]);
		size_t bytes = strtoull(argv[i], NULL, 10);

		if (op != BENCH_OPS) {
			if (bench_is_16bit(op) || bench_is_16bit(call.op))
				bench_fill(in, longest[0], op, r->rank);
			call.op = op;
			call.count = 1;
			has = r->call(r, &call);
			if (!has && r->rank == 0)
				printf("%s none\n", argv[i]);
		} else if (has) {
			call.count = bench_elements(r, call.op, bytes);
			memset(call.out, 0,
			       bench_results(r, &call) * (bench_is_16bit(call.op) ? 2 : 4));
			bench_row(r, &call, bytes, ms ? atof(ms) : 150);
		}
	}
	fflush(stdout);
	(r->release ? r->release : free)(in);
	(r->release ? r->release : free)(call.out);
}

#endif
