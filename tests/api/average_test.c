/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * average_test.c - averages of floats by every algorithm.  The inputs are so large that their sum
 * overflows, and so chosen that the quotients and all sums of quotients are exact: only one result is
 * right, and it is an infinity if a sum was divided, too small if an input was divided twice.
 */
#include "../lib/ranks.h"

enum { NRANKS_MAX = 9, LENGTH = 36000, QUOTIENTS = 2048, UNIT = 32 };

/* The code of a positive float16 that is a whole number with at most 11 bits. */
static uint16_t code(unsigned value)
{
	unsigned exponent = 31 - (unsigned)__builtin_clz(value);
	unsigned mantissa = exponent > 10 ? value >> (exponent - 10) : value << (10 - exponent);

	return (uint16_t)((exponent + 15) << 10 | (mantissa & 0x3ff));
}

/* What a rank contributes to the average, in units: different from rank to rank and element to element. */
static unsigned quotient(int rank, size_t i, int nranks)
{
	return QUOTIENTS / (unsigned)nranks - 1 - (unsigned)((i + 3 * (size_t)rank) % 7);
}

static uint16_t input(int rank, size_t i, int nranks)
{
	return code(UNIT * (unsigned)nranks * quotient(rank, i, nranks));
}

static uint16_t expected(size_t i, int nranks)
{
	unsigned sum = 0;

	for (int r = 0; r < nranks; r++)
		sum += quotient(r, i, nranks);
	return code(UNIT * sum);
}

/* ------------------------------------------------------------------------ a rank -- */

struct run {
	struct rank *r;
	int kind, in_place;
	uint16_t own[LENGTH], want[LENGTH]; /* this rank's input, the result */
	uint16_t in[LENGTH], out[LENGTH];
};

static void fill(struct run *run)
{
	memcpy(run->in, run->own, sizeof(run->in));
}

/* Verifies the result and, out of place, that the send buffer is as it was. */
static int is_right(struct run *run, coll_result_t result, const uint16_t *out, size_t first,
		    size_t count)
{
	struct rank *r = run->r;

	if (!rank_did(r, result, coll_kind_name(run->kind)) ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return 0;
	for (size_t i = 0; i < count; i++)
		if (out[i] != run->want[first + i])
			return rank_fail(r, "%s%s of %zu: element %zu is %#x, not %#x",
					 coll_kind_name(run->kind),
					 run->in_place ? " in place" : "", count, i,
					 (unsigned)out[i], (unsigned)run->want[first + i]);
	if (!run->in_place && memcmp(run->in, run->own, sizeof(run->in)) != 0)
		return rank_fail(r, "%s of %zu: the send buffer was changed",
				 coll_kind_name(run->kind), count);
	return 1;
}

static int whole(struct run *run, size_t count, int root)
{
	uint16_t *out = run->in_place ? run->in : run->out;
	struct rank *r = run->r;
	coll_result_t result;

	fill(run);
	if (run->kind == COLL_KIND_ALLREDUCE) {
		result = coll_allreduce(run->in, out, count, COLL_FLOAT16, COLL_AVG, r->comm, NULL);
		return is_right(run, result, out, 0, count);
	}
	result = coll_reduce(run->in, r->rank == root ? out : NULL, count, COLL_FLOAT16, COLL_AVG,
			     root, r->comm, NULL);
	return is_right(run, result, out, 0, r->rank == root ? count : 0);
}

/* Even parts, or uneven parts of which some are empty. */
static int parts(struct run *run, size_t count)
{
	size_t counts[NRANKS_MAX], first = 0, n = count / (size_t)run->r->nranks;
	int even = run->kind == COLL_KIND_REDUCE_SCATTER;
	struct rank *r = run->r;
	coll_result_t result;
	uint16_t *out;

	for (int p = 0; p < r->nranks; p++)
		counts[p] = even ? n : p % 3 == 1 ? 0 : n / (size_t)(p + 1) + (size_t)p;
	for (int p = 0; p < r->rank; p++)
		first += counts[p];
	fill(run);
	out = run->in_place ? run->in + first : run->out;
	result = even ? coll_reduce_scatter(run->in, out, n, COLL_FLOAT16, COLL_AVG, r->comm, NULL)
		      : coll_reduce_scatterv(run->in, out, counts, COLL_FLOAT16, COLL_AVG, r->comm,
					     NULL);
	return is_right(run, result, out, first, counts[r->rank]);
}

static int calls(struct run *run, size_t count)
{
	int rooted = run->kind == COLL_KIND_REDUCE;

	if (run->kind != COLL_KIND_ALLREDUCE && !rooted)
		return parts(run, count);
	for (int root = 0; root < (rooted ? run->r->nranks : 1); root++)
		if (!whole(run, count, root))
			return 0;
	return 1;
}

/* Each call twice: the second takes the operation that the first has left in the cache. */
static void work(struct rank *r)
{
	static const size_t counts[] = {0, 1, 5, 300, 5900, LENGTH - 100};
	struct run *run = calloc(1, sizeof(*run));
	int good = 1;

	if (!run)
		bail_out("no memory");
	run->r = r;
	run->kind = *(const int *)r->user;
	for (size_t i = 0; i < LENGTH; i++) {
		run->own[i] = input(r->rank, i, r->nranks);
		run->want[i] = expected(i, r->nranks);
	}
	for (size_t c = 0; good && c < sizeof(counts) / sizeof(counts[0]); c++)
		for (int i = 0; good && i < 4; i++) {
			run->in_place = i / 2;
			good = calls(run, counts[c]);
		}
	free(run);
}

/* -------------------------------------------------------------------------- jobs -- */

static const struct {
	int kind;
	const char *variable;
} kinds[] = {{COLL_KIND_ALLREDUCE, "COLL_ALLREDUCE_ALGORITHM"},
	     {COLL_KIND_REDUCE, "COLL_REDUCE_ALGORITHM"},
	     {COLL_KIND_REDUCE_SCATTER, "COLL_REDUCE_SCATTER_ALGORITHM"},
	     {COLL_KIND_REDUCE_SCATTERV, "COLL_REDUCE_SCATTERV_ALGORITHM"}};

static void test_backend(const char *backend, int processes, int nranks)
{
	coll_algorithm_info_t a = {.size = sizeof(a)};

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct ranks_job job = {backend, nranks, processes, work,
					(void *)(uintptr_t)&kinds[k].kind};

		for (int32_t i = 0; i < coll_algorithm_count(); i++)
			if (!coll_algorithm(i, &a) && a.kind == kinds[k].kind) {
				setenv(kinds[k].variable, a.name, 1);
				ranks_ok(&job, "%s by %s", coll_kind_name(a.kind), a.name);
			}
		unsetenv(kinds[k].variable);
	}
}

int main(void)
{
	const int most = ranks_small() ? 5 : NRANKS_MAX;

	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_NODE_SIZE", "2", 1);
	for (int n = 1; n <= most; n++)
		test_backend("simulated", 0, n);
	test_backend("tcp", 1, 3);
	if (ranks_can("ucx"))
		test_backend("ucx", 1, 4);
	return done_testing();
}
