/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redop_test.c - reductions by every algorithm with operations made at run time: two functions of
 * the application, one of them not commutative, and sums of scaled inputs.  All values are
 * integers, so that only one result is right.
 */
#include "../lib/ranks.h"

#include <stdbool.h>

enum { NRANKS_MAX = 9, LENGTH = 6000 };

/* ------------------------------------------------------------------- operations -- */

/*
 * The two halves of an element are a map x -> ax + b; the left operand's map is applied first.
 * Does not commute.
 */
static uint64_t then(uint64_t left, uint64_t right)
{
	uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left;
	uint32_t c = (uint32_t)(right >> 32), d = (uint32_t)right;

	return (uint64_t)(a * c) << 32 | (uint32_t)(c * b + d);
}

/* Commutes: x + y + xy, which is (1 + x)(1 + y) - 1. */
static uint64_t circle(uint64_t left, uint64_t right)
{
	return left + right + left * right;
}

struct function {
	uint64_t (*fn)(uint64_t left, uint64_t right);
	int unaligned, wrong_type;
};

static void apply(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	struct function *f = user;
	const uint64_t *a = left;
	uint64_t *b = inout;

	f->unaligned += ((uintptr_t)left | (uintptr_t)inout) % 16 != 0;
	f->wrong_type += dtype != COLL_UINT64;
	for (size_t i = 0; i < count; i++)
		b[i] = f->fn(a[i], b[i]);
}

enum { SUM, THEN, CIRCLE, SCALED, SCALED_LATE, OPERATIONS };

static const char *const names[] = {"sum", "then", "circle", "scaled", "scaled late"};

static uint64_t input(int rank, size_t i)
{
	uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;

	return x ^ (x >> 29);
}

static uint64_t scalar(int rank)
{
	return (uint64_t)rank * 7 + 2;
}

static uint64_t expected(int operation, int nranks, size_t i)
{
	bool scaled = operation == SCALED || operation == SCALED_LATE;
	uint64_t y = input(0, i) * (scaled ? scalar(0) : 1), x;

	for (int r = 1; r < nranks; r++) {
		x = input(r, i) * (scaled ? scalar(r) : 1);
		y = operation == THEN ? then(y, x) : operation == CIRCLE ? circle(y, x) : y + x;
	}
	return y;
}

/* ------------------------------------------------------------------------ a rank -- */

struct run {
	struct rank *r;
	int kind, operation;
	coll_op_t op[OPERATIONS];
	struct function function[2];
	uint64_t late; /* the scalar that the library reads when the operation begins */
	uint64_t *in, *out;
	uint64_t *want[OPERATIONS];
};

/* Op values differ between communicators, but all are above the built-in values. */
static int make_operations(struct run *run)
{
	coll_comm_t comm = run->r->comm;
	uint64_t now = scalar(run->r->rank);

	run->op[SUM] = COLL_SUM;
	run->function[0].fn = then;
	run->function[1].fn = circle;
	return rank_did(run->r,
			coll_red_op_create_user(&run->op[THEN], apply, &run->function[0], 0, comm),
			"red_op_create_user") &&
	       rank_did(
		       run->r,
		       coll_red_op_create_user(&run->op[CIRCLE], apply, &run->function[1], 1, comm),
		       "red_op_create_user") &&
	       rank_did(run->r,
			coll_red_op_create_pre_mul_sum(&run->op[SCALED], &now, COLL_UINT64,
						       COLL_SCALAR_HOST_IMMEDIATE, comm),
			"red_op_create_pre_mul_sum") &&
	       rank_did(run->r,
			coll_red_op_create_pre_mul_sum(&run->op[SCALED_LATE], &run->late,
						       COLL_UINT64, COLL_SCALAR_DEVICE, comm),
			"red_op_create_pre_mul_sum");
}

static void begin(struct run *run, struct rank *r)
{
	*run = (struct run){.r = r, .in = calloc(LENGTH, 8), .out = calloc(LENGTH, 8)};
	if (!run->in || !run->out)
		bail_out("no memory");
	for (int o = 0; o < OPERATIONS; o++) {
		run->want[o] = calloc(LENGTH, 8);
		if (!run->want[o])
			bail_out("no memory");
		for (size_t i = 0; i < LENGTH; i++)
			run->want[o][i] = expected(o, r->nranks, i);
	}
}

static void end(struct run *run)
{
	for (int f = 0; f < 2; f++)
		if (run->function[f].unaligned || run->function[f].wrong_type)
			rank_fail(run->r,
				  "a function was called %d times with other than 16-byte "
				  "aligned arrays, %d times with another type",
				  run->function[f].unaligned, run->function[f].wrong_type);
	free(run->in);
	free(run->out);
	for (int o = 0; o < OPERATIONS; o++)
		free(run->want[o]);
}

static void fill(struct run *run, size_t count)
{
	for (size_t i = 0; i < count; i++)
		run->in[i] = input(run->r->rank, i);
	run->late = scalar(run->r->rank);
}

static int is_wanted(struct run *run, const uint64_t *out, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (out[i] != run->want[run->operation][first + i])
			return rank_fail(run->r,
					 "%s (%s) of %zu: element %zu is %" PRIx64 ", not %" PRIx64,
					 coll_kind_name(run->kind), names[run->operation], count, i,
					 out[i], run->want[run->operation][first + i]);
	return 1;
}

static int done(struct run *run, coll_result_t code)
{
	return rank_did(run->r, code, coll_kind_name(run->kind)) &&
	       rank_did(run->r, coll_sync(run->r->comm), "sync");
}

static int whole(struct run *run, size_t count, int root, int in_place)
{
	struct rank *r = run->r;
	uint64_t *out = in_place ? run->in : run->out;
	coll_op_t op = run->op[run->operation];

	fill(run, count);
	if (run->kind == COLL_KIND_ALLREDUCE)
		return done(run,
			    coll_allreduce(run->in, out, count, COLL_UINT64, op, r->comm, NULL)) &&
		       is_wanted(run, out, 0, count);
	if (!done(run, coll_reduce(run->in, r->rank == root ? out : NULL, count, COLL_UINT64, op,
				   root, r->comm, NULL)))
		return 0;
	return r->rank != root || is_wanted(run, out, 0, count);
}

/* Even parts, or uneven parts of which some are empty. */
static int parts(struct run *run, size_t count, int in_place)
{
	struct rank *r = run->r;
	size_t counts[NRANKS_MAX], first = 0, n = count / (size_t)r->nranks;
	bool even = run->kind == COLL_KIND_REDUCE_SCATTER;
	coll_op_t op = run->op[run->operation];
	uint64_t *out;

	for (int p = 0; p < r->nranks; p++)
		counts[p] = even ? n : p % 3 == 1 ? 0 : n / (size_t)(p + 1) + (size_t)p;
	for (int p = 0; p < r->rank; p++)
		first += counts[p];
	fill(run, count + 100);
	out = in_place ? run->in + first : run->out;
	return done(run, even ? coll_reduce_scatter(run->in, out, n, COLL_UINT64, op, r->comm, NULL)
			      : coll_reduce_scatterv(run->in, out, counts, COLL_UINT64, op, r->comm,
						     NULL)) &&
	       is_wanted(run, out, first, counts[r->rank]);
}

static int calls(struct run *run, size_t count)
{
	bool rooted = run->kind == COLL_KIND_REDUCE;
	bool divided = run->kind != COLL_KIND_ALLREDUCE && !rooted;

	for (int in_place = 0; in_place < 2; in_place++)
		for (int root = 0; root < (rooted ? run->r->nranks : 1); root++)
			if (!(divided ? parts(run, count, in_place)
				      : whole(run, count, root, in_place)))
				return 0;
	return 1;
}

static void work(struct rank *r)
{
	static const size_t counts[] = {0, 1, 5, 300, LENGTH - 100};
	struct run run;
	int good;

	begin(&run, r);
	run.kind = *(const int *)r->user;
	good = make_operations(&run);
	for (run.operation = 0; good && run.operation < OPERATIONS; run.operation++)
		for (size_t c = 0; good && c < sizeof(counts) / sizeof(counts[0]); c++)
			good = calls(&run, counts[c]);
	for (int o = THEN; good && o < OPERATIONS; o++)
		good = rank_did(r, coll_red_op_destroy(run.op[o], r->comm), "red_op_destroy");
	end(&run);
}

/* A request keeps working after its operation is destroyed. */
static void persistent(struct rank *r)
{
	struct run run;
	coll_request_t request;
	int good;

	begin(&run, r);
	run.kind = COLL_KIND_ALLREDUCE;
	run.operation = THEN;
	good = make_operations(&run);
	if (good) {
		coll_args_t args = {.size = sizeof(args),
				    .kind = COLL_KIND_ALLREDUCE,
				    .dtype = COLL_UINT64,
				    .op = run.op[THEN],
				    .sendbuf = run.in,
				    .recvbuf = run.in,
				    .count = LENGTH};

		good = rank_did(r, coll_request_init(r->comm, &args, &request), "request_init") &&
		       rank_did(r, coll_red_op_destroy(run.op[THEN], r->comm), "red_op_destroy");
	}
	for (int i = 0; i < 3 && good; i++) {
		fill(&run, LENGTH);
		good = rank_did(r, coll_request_start(request), "request_start") &&
		       rank_did(r, coll_wait(request), "wait") &&
		       is_wanted(&run, run.in, 0, LENGTH);
	}
	if (good)
		rank_did(r, coll_request_free(request), "request_free");
	end(&run);
}

/* ------------------------------------------------------------------------- tests -- */

static const struct {
	int kind;
	const char *variable;
} kinds[] = {
	{COLL_KIND_ALLREDUCE, "COLL_ALLREDUCE_ALGORITHM"},
	{COLL_KIND_REDUCE, "COLL_REDUCE_ALGORITHM"},
	{COLL_KIND_REDUCE_SCATTER, "COLL_REDUCE_SCATTER_ALGORITHM"},
	{COLL_KIND_REDUCE_SCATTERV, "COLL_REDUCE_SCATTERV_ALGORITHM"},
};

static void test_kind(const char *backend, int processes, int nranks, int k)
{
	struct ranks_job job = {backend, nranks, processes, work,
				(void *)(uintptr_t)&kinds[k].kind};
	coll_algorithm_info_t a = {.size = sizeof(a)};

	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!coll_algorithm(i, &a) && a.kind == kinds[k].kind) {
			setenv(kinds[k].variable, a.name, 1);
			ranks_ok(&job, "%s by %s", coll_kind_name(a.kind), a.name);
		}
	unsetenv(kinds[k].variable);
}

static void test_backend(const char *backend, int processes, int nranks)
{
	struct ranks_job job = {backend, nranks, processes, persistent, NULL};

	for (int k = 0; k < (int)(sizeof(kinds) / sizeof(kinds[0])); k++)
		test_kind(backend, processes, nranks, k);
	ranks_ok(&job, "a request whose operation is destroyed");
}

int main(void)
{
	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_NODE_SIZE", "2", 1);
	ranks_over_backends(test_backend, ranks_small() ? 5 : NRANKS_MAX);
	return done_testing();
}
