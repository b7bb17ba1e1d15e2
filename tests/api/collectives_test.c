/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives_test.c - compares allreduce, broadcast, reduce, allgather and reduce_scatter with the
 * oracle: rank counts, every data type and operation, counts from 0 to over 16 MiB, in place and
 * out of place, every root, buffers of any alignment with guards around them; also random calls of
 * all kinds.
 *
 * TEST_LEVEL=long makes more calls; TEST_BIG=1 adds calls with more than 2^31 elements, which take
 * 4.5 GiB of memory.  TEST_SEED=N makes random calls only, beginning with the call that a failure
 * named "seed N".
 */
#include <inttypes.h>
#include "../lib/calls.h"

enum { COSTLY = 65537, MIB16 = 16 << 20, DRAWN = 120, DRAWN_BYTES = 1 << 17, ROW = 4093 };

struct test {
	int kind;
	int small, only_drawn;
	uint64_t seed;
	uint64_t hash[RANKS_MAX]; /* bound for inexact results */
};

/* ------------------------------------------------------------- sets of calls -- */

/*
 * Is the test for this count short enough for every type with every operation, or for one operation
 * of each type?
 */
static int is_costly(const struct test *test, int nranks, size_t count)
{
	return count >= COSTLY &&
	       (test->small || (test->kind == COLL_KIND_REDUCE_SCATTER && nranks > 4));
}

static int is_chosen(const struct oracle_case *c)
{
	int t = (int)(oracle_format(c->dtype) - oracle_formats);

	return c->op == oracle_ops[t % 5];
}

static int try_type(void *user, const struct oracle_case *c)
{
	struct rank *r = user;

	/* Bitwise operations move data as the sum does, so the sum stands for them. */
	if (oracle_reduces(c->kind) && c->count >= COSTLY &&
	    (c->op >= COLL_BAND || (is_costly(r->user, r->nranks, c->count) && !is_chosen(c))))
		return 1;
	return calls_try(r, c);
}

static int both_places(struct rank *r, int32_t dtype, int32_t op, int root, size_t count)
{
	const struct test *test = r->user;
	struct oracle_case c = {
		.kind = test->kind, .dtype = dtype, .op = op, .root = root, .count = count};

	for (c.place = ORACLE_APART; c.place <= ORACLE_IN_PLACE; c.place++)
		if (!calls_try(r, &c))
			return 0;
	return 1;
}

static int every_root(struct rank *r)
{
	const struct test *test = r->user;
	struct oracle_case c = {
		.kind = test->kind, .dtype = COLL_INT32, .op = COLL_SUM, .count = 1000};

	if (!oracle_places(&c, r->nranks, calls_try, r))
		return 0;
	c.op = COLL_MAX;
	c.count = 1;
	return oracle_places(&c, r->nranks, calls_try, r);
}

/* Over 16 MiB; for collectives that gather or scatter, the parts of all ranks together. */
static int large(struct rank *r)
{
	const struct test *test = r->user;
	int each = test->kind == COLL_KIND_ALLGATHER || test->kind == COLL_KIND_REDUCE_SCATTER;
	size_t parts = each && r->nranks > 2 ? (size_t)r->nranks : 1;

	if (test->small && r->nranks > 2)
		return 1;
	return both_places(r, COLL_FLOAT32, COLL_SUM, r->nranks / 2, MIB16 / 4 / parts + 1003) &&
	       both_places(r, COLL_FLOAT16, COLL_AVG, 0, MIB16 / 2 / parts + 1009);
}

static void run_kind(struct rank *r)
{
	static const size_t counts[] = {0, 1, 7, 1000, COSTLY};
	const struct test *test = r->user;
	struct oracle_case c = {.kind = test->kind, .inputs = ORACLE_SPECIAL};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		c.count = counts[i];
		if (!oracle_types(&c, r->nranks, try_type, r))
			return;
	}
	if (every_root(r))
		large(r);
}

/* Random calls beyond the table.  Each call has a seed of its own, which a failure names. */
static void run_drawn(struct rank *r)
{
	const struct test *test = r->user;
	struct oracle_case c;

	for (int i = 0; i < (test->small ? DRAWN / 4 : DRAWN); i++) {
		oracle_random(&c, test->seed + (uint64_t)i, r->nranks, DRAWN_BYTES);
		if (!calls_try(r, &c))
			return;
	}
}

/* ------------------------------------------------------------------ inexact sums -- */

/* On rank 0 each element is near the exact sum; another check compares the bits of all ranks. */
static int inexact_check(struct rank *r, const struct oracle_data *d, const float *got,
			 size_t count)
{
	float wanted[ROW];
	size_t at = 0;

	if (r->rank)
		return 1;
	oracle_result_row(d, ROW, wanted);
	return !oracle_wrong(d, got, wanted, ROW, 0, count, &at) ||
	       rank_fail(r, "%s of %zu float32: element %zu is %.9g, not near %.9g",
			 coll_op_name(d->op), count, at, (double)got[at], (double)wanted[at % ROW]);
}

static int inexact(struct rank *r, size_t count, int op)
{
	const struct oracle_data d = {COLL_FLOAT32, op, r->nranks, .inputs = ORACLE_ROUGH,
				      .near = 1};
	const struct oracle_format *f = oracle_format(COLL_FLOAT32);
	float row[ROW], *x = calls_memory(count * sizeof(*x));
	struct test *test = r->user;
	int good;

	oracle_input_row(&d, r->rank, ROW, row);
	oracle_tile(x, row, ROW, sizeof(*x), 0, count);
	good = rank_did(r, coll_allreduce(x, x, count, COLL_FLOAT32, op, r->comm, NULL),
			"allreduce") &&
	       rank_did(r, coll_sync(r->comm), "sync") && inexact_check(r, &d, x, count);
	for (size_t i = 0; i < count; i++)
		test->hash[r->rank] = oracle_mix(test->hash[r->rank], oracle_load(f, x, i));
	free(x);
	return good;
}

static void run_inexact(struct rank *r)
{
	static const size_t counts[] = {1, 7, 1000, 16384, 65537, 300001};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!inexact(r, counts[i], COLL_SUM) || !inexact(r, counts[i], COLL_AVG))
			return;
}

static void test_inexact(struct ranks_job *job)
{
	struct test *test = job->user;
	int equal = 1;

	memset(test->hash, 0, sizeof(test->hash));
	job->fn = run_inexact;
	ranks_ok(job, "inexact sums are within their bound");
	for (int r = 1; r < job->nranks; r++)
		equal = equal && test->hash[r] == test->hash[0];
	ok(equal, "%s, %d %s: inexact sums have the same bits on all ranks", job->backend,
	   job->nranks, job->processes ? "processes" : "threads");
}

/* ------------------------------------------------------------------------- more -- */

static void run_barrier(struct rank *r)
{
	_Atomic int *arrived = r->user;

	for (int round = 1; round <= 20; round++) {
		atomic_fetch_add(arrived, 1);
		if (!rank_did(r, coll_barrier(r->comm), "barrier"))
			return;
		if (atomic_load(arrived) < round * r->nranks) {
			rank_fail(r, "left barrier %d before all had come", round);
			return;
		}
		if (!rank_did(r, coll_barrier(r->comm), "barrier"))
			return;
	}
}

/* Issues many operations before it waits for the first. */
static void run_queue(struct rank *r)
{
	enum { N = 100 };
	int32_t x[N];

	for (int i = 0; i < N; i++) {
		x[i] = r->rank + i;
		if (!rank_did(r,
			      coll_allreduce(&x[i], &x[i], 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r,
			      coll_broadcast(&x[i], &x[i], 1, COLL_INT32, i % r->nranks, r->comm,
					     NULL),
			      "broadcast"))
			return;
	}
	if (!rank_did(r, coll_sync(r->comm), "sync"))
		return;
	for (int i = 0; i < N; i++)
		if (x[i] != r->nranks * (r->nranks - 1) / 2 + r->nranks * i)
			rank_fail(r, "operation %d of the queue gave %d", i, x[i]);
}

/* More elements than a 31-bit count holds. */
static void run_huge(struct rank *r)
{
	const struct oracle_data d = {COLL_INT8, COLL_SUM, r->nranks, .near = 0};
	size_t count = ((size_t)1 << 31) + 12345, at = 0;
	unsigned char row[ROW], *x = malloc(count);

	if (!x) {
		rank_fail(r, "no memory for %zu bytes", count);
		return;
	}
	oracle_input_row(&d, r->rank, ROW, row);
	oracle_tile(x, row, ROW, 1, 0, count);
	oracle_result_row(&d, ROW, row);
	if (rank_did(r, coll_allreduce(x, x, count, COLL_INT8, COLL_SUM, r->comm, NULL),
		     "allreduce") &&
	    rank_did(r, coll_sync(r->comm), "sync") && oracle_wrong(&d, x, row, ROW, 0, count, &at))
		rank_fail(r, "wrong result at element %zu", at);
	free(x);
}

static void test_ranks(struct ranks_job *job)
{
	struct test *test = job->user;

	job->fn = run_drawn;
	ranks_ok(job, "drawn calls");
	if (test->only_drawn)
		return;
	for (int kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_REDUCE_SCATTER; kind++) {
		test->kind = kind;
		job->fn = run_kind;
		ranks_ok(job, "%s agrees with the serial reference", coll_kind_name(kind));
	}
	test_inexact(job);
	job->fn = run_queue;
	ranks_ok(job, "200 operations in the queue");
	job->fn = run_barrier;
	job->user = ranks_memory(sizeof(_Atomic int));
	ranks_ok(job, "barrier");
	job->user = test;
}

static void test_backend(const char *backend, struct test *test)
{
	static const int full[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 0};
	static const int few[] = {1, 2, 3, 4, 7, 0};
	/* The library chooses and builds the same schedules over every backend, so that few numbers of ranks do over ucx. */
	const int is_few = test->small || !strcmp(backend, "ucx");

	for (const int *n = is_few ? few : full; *n; n++) {
		struct ranks_job job = {.backend = backend, .nranks = *n, .user = test};

		if (strcmp(backend, "simulated") && (*n == 3 || *n == 4)) {
			job.processes = 1;
			test_ranks(&job);
			job.processes = 0;
		}
		test_ranks(&job);
	}
}

int main(int argc, char **argv)
{
	struct test *test = ranks_memory(sizeof(*test));
	const char *big = getenv("TEST_BIG"), *seed = getenv("TEST_SEED");

	alarm(3600);
	test->small = ranks_small();
	test->only_drawn = seed && seed[0];
	test->seed = test->only_drawn ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 1000;
	diag("TEST_SEED=%" PRIu64, test->seed);
	for (int i = 1; i < argc; i++)
		test_backend(argv[i], test);
	if (argc == 1) {
		test_backend("simulated", test);
		test_backend("tcp", test);
		if (!test->small && ranks_can("ucx"))
			test_backend("ucx", test);
	}
	if (!big || !big[0]) {
		skip(1, "more than 2^31 elements: set TEST_BIG=1 (takes 4.5 GiB)");
	} else {
		struct ranks_job job = {
			.backend = "tcp", .nranks = 2, .fn = run_huge, .user = test};

		ranks_ok(&job, "allreduce of 2^31 + 12345 int8");
	}
	return done_testing();
}
