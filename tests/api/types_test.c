/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * types_test.c - bool, complex numbers, and pairs of a value and an index, over every backend with a transport:
 * each collective with each operation, in several pieces, and multiplied by a complex number.
 */
#include "../lib/calls.h"

static int try_new(void *user, const struct oracle_case *c)
{
	return c->dtype < COLL_BOOL || calls_try(user, c);
}

static void sweep(struct rank *r)
{
	static const size_t counts[] = {1, 37, 3001};

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < 3; i++) {
			const struct oracle_case c = {.kind = oracle_kinds[k],
						      .count = counts[i],
						      .inputs = ORACLE_SPECIAL};

			if (!oracle_types(&c, r->nranks, try_new, r))
				return;
		}
}

/* The sum of i times (rank + 2i) is -2n + (0 + 1 + ... + n - 1)i. */
static void scaled(struct rank *r)
{
	const double i[2] = {0, 1}, x[2] = {r->rank, 2};
	const int n = r->nranks;
	double sum[2] = {0, 0};
	coll_op_t op;

	if (!rank_did(r,
		      coll_red_op_create_pre_mul_sum(&op, i, COLL_COMPLEX128,
						     COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		      "red_op_create") ||
	    !rank_did(r, coll_allreduce(x, sum, 1, COLL_COMPLEX128, op, r->comm, NULL), "sum") ||
	    !rank_did(r, coll_sync(r->comm), "sync") ||
	    !rank_did(r, coll_red_op_destroy(op, r->comm), "red_op_destroy"))
		return;
	if (sum[0] != -2 * n || sum[1] != n * (n - 1) / 2)
		rank_fail(r, "the sum is %g + %gi", sum[0], sum[1]);
}

static void test_backend(const char *backend, int processes, int nranks)
{
	ranks_ok(&(struct ranks_job){backend, nranks, processes, sweep, NULL},
		 "every collective of the types of truth and of two numbers");
	ranks_ok(&(struct ranks_job){backend, nranks, processes, scaled, NULL},
		 "complex numbers times a complex number");
}

int main(void)
{
	setenv("COLL_SEGMENT", "4K", 1);
	test_backend("simulated", 0, 1);
	test_backend("simulated", 0, 3);
	test_backend("simulated", 0, ranks_small() ? 4 : 6);
	test_backend("tcp", 0, 2);
	test_backend("tcp", 1, 3);
	if (ranks_can("ucx"))
		test_backend("ucx", 1, 3);
	return done_testing();
}
