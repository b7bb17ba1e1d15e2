/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reproducible_test.c - with `reproducible = yes` a reduction is T(0, n), bit for bit, where
 *
 *   T(lo, hi) = T(lo, lo + p) + T(lo + p, hi), p the greatest power of two below hi - lo,
 *
 * and T(r, r + 1) is rank r's input.  This holds for every backend, algorithm, segment and placement
 * of ranks on nodes, in place and out of place.  With the inputs of this test any other order gives
 * other bits.  The test also checks that in every mode all ranks of an allreduce get the same bits.
 */
#include "../../tools/oracle/oracle.h"
#include "../lib/ranks.h"

enum { NRANKS_MAX = 9, LENGTH = 40000 };

static float input[NRANKS_MAX][LENGTH];
static float expected[2][LENGTH]; /* sum, average */

/* ------------------------------------------------------------------------ inputs -- */

static struct oracle_data data_of(int32_t op, int nranks)
{
	return (struct oracle_data){
		.dtype = COLL_FLOAT32, .op = op, .nranks = nranks, .inputs = ORACLE_ROUGH};
}

static void make_inputs(void)
{
	const struct oracle_data d = data_of(COLL_SUM, NRANKS_MAX);

	for (int r = 0; r < NRANKS_MAX; r++)
		oracle_input_row(&d, r, LENGTH, input[r]);
}

/* Keeps the compiler from computing with more precision than a float has. */
static float sum(float a, float b)
{
	volatile float s = a + b;

	return s;
}

/* Number of elements that would differ if the ranks were added from the last to the first. */
static int make_expected(int nranks)
{
	const struct oracle_data sums = data_of(COLL_SUM, nranks),
				 averages = data_of(COLL_AVG, nranks);
	int different = 0;

	oracle_result_row(&sums, LENGTH, expected[0]);
	oracle_result_row(&averages, LENGTH, expected[1]);
	for (int i = 0; i < LENGTH; i++) {
		float row = input[nranks - 1][i];

		for (int r = nranks - 2; r >= 0; r--)
			row = sum(row, input[r][i]);
		different += row != expected[0][i];
	}
	return different;
}

/* ------------------------------------------------------------------------- calls -- */

/* Results that ranks leave for the test: a hash over the bits of all their allreduces. */
struct answer {
	uint64_t hash[RANKS_MAX];
};

struct run {
	struct rank *r;
	float *in, *out;
	uint64_t hash;
};

static int is_expected(struct run *run, coll_op_t op, const float *out, size_t first, size_t count,
		       const char *what)
{
	const float *want = expected[op == COLL_AVG] + first;

	for (size_t i = 0; i < count; i++)
		if (memcmp(&out[i], &want[i], sizeof(float)) != 0)
			return rank_fail(run->r, "%s, %s of %zu: element %zu is %a, not %a", what,
					 coll_op_name(op), count, i, (double)out[i],
					 (double)want[i]);
	return 1;
}

static int done(struct run *run, coll_result_t code, const char *what)
{
	return rank_did(run->r, code, what) && rank_did(run->r, coll_sync(run->r->comm), "sync");
}

/* FNV-1a. */
static void add_hash(struct run *run, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		run->hash = (run->hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
}

static int allreduce(struct run *run, size_t count, coll_op_t op, int in_place)
{
	float *out = in_place ? run->in : run->out;
	int good;

	memcpy(run->in, input[run->r->rank], count * sizeof(float));
	good = done(run, coll_allreduce(run->in, out, count, COLL_FLOAT32, op, run->r->comm, NULL),
		    "allreduce");
	add_hash(run, out, count * sizeof(float));
	return good;
}

static int check_allreduce(struct run *run, size_t count, coll_op_t op, int in_place)
{
	return allreduce(run, count, op, in_place) &&
	       is_expected(run, op, in_place ? run->in : run->out, 0, count,
			   in_place ? "allreduce in place" : "allreduce");
}

static int check_reduce(struct run *run, size_t count, coll_op_t op, int in_place)
{
	for (int root = 0; root < run->r->nranks; root++) {
		int at_root = run->r->rank == root;
		float *out = !at_root ? NULL : in_place ? run->in : run->out;

		memcpy(run->in, input[run->r->rank], count * sizeof(float));
		if (!done(run,
			  coll_reduce(run->in, out, count, COLL_FLOAT32, op, root, run->r->comm,
				      NULL),
			  "reduce") ||
		    (at_root && !is_expected(run, op, out, 0, count, "reduce")))
			return 0;
	}
	return 1;
}

static int check_reduce_scatter(struct run *run, size_t count, coll_op_t op, int in_place)
{
	size_t n = count / (size_t)run->r->nranks, first = (size_t)run->r->rank * n;
	float *out = in_place ? run->in + first : run->out;

	memcpy(run->in, input[run->r->rank], count * sizeof(float));
	return done(run, coll_reduce_scatter(run->in, out, n, COLL_FLOAT32, op, run->r->comm, NULL),
		    "reduce_scatter") &&
	       is_expected(run, op, out, first, n, "reduce_scatter");
}

/* Uneven parts; every third part is empty. */
static int check_reduce_scatterv(struct run *run, size_t count, coll_op_t op)
{
	size_t counts[NRANKS_MAX], first = 0, left = count;
	int last = run->r->nranks - 1;

	for (int r = 0; r < last; r++) {
		counts[r] = r % 3 == 1 ? 0 : left / 3;
		left -= counts[r];
	}
	counts[last] = left;
	for (int r = 0; r < run->r->rank; r++)
		first += counts[r];
	memcpy(run->in, input[run->r->rank], count * sizeof(float));
	return done(run,
		    coll_reduce_scatterv(run->in, run->out, counts, COLL_FLOAT32, op, run->r->comm,
					 NULL),
		    "reduce_scatterv") &&
	       is_expected(run, op, run->out, first, counts[run->r->rank], "reduce_scatterv");
}

static const size_t counts[] = {1, 2, 7, 64, 1000, 9973, LENGTH};

enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

static void begin(struct run *run, struct rank *r)
{
	*run = (struct run){r, calloc(LENGTH, sizeof(float)), calloc(LENGTH, sizeof(float)),
			    0xcbf29ce484222325};
	if (!run->in || !run->out)
		bail_out("no memory");
}

static void end(struct run *run)
{
	struct answer *answer = run->r->user;

	answer->hash[run->r->rank] = run->hash;
	free(run->in);
	free(run->out);
}

/* Runs every collective that reduces. */
static void reproduce(struct rank *r)
{
	struct run run;
	int good = 1;

	begin(&run, r);
	for (int c = 0; c < COUNTS && good; c++)
		for (int i = 0; i < 4 && good; i++) {
			coll_op_t op = i / 2 ? COLL_AVG : COLL_SUM;

			good = check_allreduce(&run, counts[c], op, i % 2) &&
			       check_reduce(&run, counts[c], op, i % 2) &&
			       check_reduce_scatter(&run, counts[c], op, i % 2) &&
			       check_reduce_scatterv(&run, counts[c], op);
		}
	end(&run);
}

/* Any order of addition is right, as long as all ranks have the same. */
static void agree(struct rank *r)
{
	struct run run;
	int good = 1;

	begin(&run, r);
	for (int c = 0; c < COUNTS && good; c++)
		for (int i = 0; i < 4 && good; i++)
			good = allreduce(&run, counts[c], i / 2 ? COLL_AVG : COLL_SUM, i % 2);
	end(&run);
}

/* ----------------------------------------------------------------------- options -- */

/* The values to test of one option; the other options keep their defaults. */
struct variant {
	const char *variable, *value;
};

static const char *const segments[] = {"1M", "4K"};

enum { SEGMENTS = sizeof(segments) / sizeof(segments[0]) };

static struct variant variants[64];
static int nvariants;

/* Lists the algorithms of a kind that have these flags. */
static void add_algorithms(int32_t kind, const char *variable, uint32_t flags)
{
	coll_algorithm_info_t a = {.size = sizeof(a)};

	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!coll_algorithm(i, &a) && a.kind == kind && (a.flags & flags) == flags &&
		    nvariants < 60)
			variants[nvariants++] = (struct variant){variable, a.name};
}

static void make_variants(uint32_t flags)
{
	nvariants = 0;
	variants[nvariants++] = (struct variant){"COLL_NODE_SIZE", "1"};
	variants[nvariants++] = (struct variant){"COLL_NODE_SIZE", "2"};
	variants[nvariants++] = (struct variant){"COLL_PROGRESS", "thread"};
	add_algorithms(COLL_KIND_ALLREDUCE, "COLL_ALLREDUCE_ALGORITHM", flags);
	if (!flags)
		return;
	add_algorithms(COLL_KIND_REDUCE, "COLL_REDUCE_ALGORITHM", flags);
	add_algorithms(COLL_KIND_REDUCE_SCATTER, "COLL_REDUCE_SCATTER_ALGORITHM", flags);
	add_algorithms(COLL_KIND_REDUCE_SCATTERV, "COLL_REDUCE_SCATTERV_ALGORITHM", flags);
}

static int run_variant(const struct ranks_job *job, const struct variant *v, const char *what)
{
	const char *lower = v->variable + strlen("COLL_");
	int good;

	setenv(v->variable, v->value, 1);
	good = ranks_ok(job, "%s with SEGMENT=%s %s=%s", what, getenv("COLL_SEGMENT"), lower,
			v->value);
	unsetenv(v->variable);
	return good;
}

/* ------------------------------------------------------------------------- tests -- */

static void is_hash(const struct answer *answer, int nranks, uint64_t want, const char *what)
{
	int different = 0;

	for (int r = 0; r < nranks; r++)
		different += answer->hash[r] != want;
	ok(!different, "%s: every rank's hash is %016" PRIx64, what, want);
	for (int r = 0; r < nranks && different; r++)
		diag("rank %d: %016" PRIx64, r, answer->hash[r]);
}

/* Tests one backend; *hash is the hash that every backend must give, or 0 before the first. */
static void test_backend(const char *backend, int processes, int nranks, uint64_t *hash)
{
	struct answer *answer = ranks_memory(sizeof(*answer));
	struct ranks_job job = {backend, nranks, processes, reproduce, answer};

	for (int v = 0; v < (processes ? 1 : nvariants); v++) {
		if (!run_variant(&job, &variants[v], "T(0, n)"))
			continue;
		*hash = *hash ? *hash : answer->hash[0];
		is_hash(answer, nranks, *hash, backend);
	}
}

static int has_ucx;

static void test_reproducible(int nranks)
{
	int different = make_expected(nranks);
	uint64_t hash = 0;

	if (nranks > 2)
		ok(different > LENGTH / 20, "%d ranks: %d of %d elements show another order",
		   nranks, different, LENGTH);
	for (int i = ranks_small(); i < SEGMENTS; i++) {
		setenv("COLL_SEGMENT", segments[i], 1);
		test_backend("simulated", 0, nranks, &hash);
		test_backend("tcp", 0, nranks, &hash);
		test_backend("tcp", 1, nranks, &hash);
		if (has_ucx)
			test_backend("ucx", nranks % 2, nranks, &hash);
	}
}

/* Without reproducible mode, with every algorithm. */
static void test_agreement(const char *backend, int nranks)
{
	struct answer *answer = ranks_memory(sizeof(*answer));
	struct ranks_job job = {backend, nranks, 0, agree, answer};

	for (int i = 0; i < SEGMENTS * nvariants; i++) {
		if (ranks_small() && i % SEGMENTS == 0)
			continue;
		setenv("COLL_SEGMENT", segments[i % SEGMENTS], 1);
		if (run_variant(&job, &variants[i / SEGMENTS], "equal bits"))
			is_hash(answer, nranks, answer->hash[0], "not reproducible");
	}
}

int main(void)
{
	const int most = ranks_small() ? 5 : NRANKS_MAX;

	make_inputs();
	setenv("COLL_REPRODUCIBLE", "yes", 1);
	make_variants(COLL_ALGORITHM_CANONICAL);
	has_ucx = !ranks_small() && ranks_can("ucx");
	ok(nvariants > 5, "%d variants in reproducible mode", nvariants);
	for (int n = 1; n <= most; n++)
		test_reproducible(n);
	unsetenv("COLL_REPRODUCIBLE");
	make_variants(0);
	for (int n = 2; n <= most; n += 1 + n / 4)
		test_agreement("simulated", n);
	test_agreement("tcp", 3);
	test_agreement("tcp", 4);
	if (has_ucx)
		test_agreement("ucx", 3);
	return done_testing();
}
