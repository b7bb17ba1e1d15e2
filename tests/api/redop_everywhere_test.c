/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redop_everywhere_test.c - operations of the application that are valid on every communicator: made once, used on
 * communicators of several backends, on splits and without ranks, and destroyed.
 */
#include "../lib/calls.h"

enum { COUNT = 5003 };

/* The first operand: combined in rank order, the result is rank 0's. */
static void first(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	(void)user;
	memcpy(inout, left, count * coll_dtype_size(dtype));
}

static void add(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const double *x = left;
	double *y = inout;

	(void)user;
	for (size_t i = 0; i < count * coll_dtype_size(dtype) / sizeof(*y); i++)
		y[i] += x[i];
}

static coll_op_t op_first, op_add;

/* nranks is 0 if the sum is not of all ranks. */
static int combine(struct rank *r, coll_comm_t comm, int nranks, int lowest)
{
	double *x = calls_memory(2 * COUNT * sizeof(*x)), *y = calls_memory(2 * COUNT * sizeof(*y));
	int good;

	for (int i = 0; i < 2 * COUNT; i++)
		x[i] = i + r->rank;
	good = rank_did(r, coll_allreduce(x, y, COUNT, COLL_COMPLEX128, op_first, comm, NULL),
			"first") &&
	       rank_did(r, coll_allreduce(x, x, COUNT, COLL_COMPLEX128, op_add, comm, NULL),
			"add") &&
	       rank_did(r, coll_sync(comm), "sync");
	for (int i = 0; good && i < 2 * COUNT; i++)
		if (y[i] != i + lowest ||
		    (nranks && x[i] != nranks * i + nranks * (nranks - 1) / 2))
			good = rank_fail(r, "element %d: first %g, sum %g", i, y[i], x[i]);
	free(x);
	free(y);
	return good;
}

static void everywhere(struct rank *r)
{
	coll_comm_t half = NULL;

	if (!combine(r, r->comm, r->nranks, 0) ||
	    !rank_did(r, coll_comm_split(r->comm, r->rank % 2, r->rank, &half, NULL), "split"))
		return;
	combine(r, half, 0, r->rank % 2);
	rank_did(r, coll_comm_destroy(half), "destroy");
}

/* Ranks make them in different orders, and each process its own. */
static void own(struct rank *r)
{
	coll_op_t op[2] = {0, 0};
	int64_t x = 1, sum = 0;

	for (int i = 0; i < 2; i++)
		if (!rank_did(r,
			      coll_red_op_create_user(&op[(i + r->rank) % 2], first, NULL, 0, NULL),
			      "red_op_create"))
			return;
	x += r->rank;
	if (rank_did(r, coll_allreduce(&x, &sum, 1, COLL_INT64, op[0], r->comm, NULL), "first") &&
	    rank_did(r, coll_sync(r->comm), "sync") && sum != 1)
		rank_fail(r, "the first is %lld", (long long)sum);
	for (int i = 0; i < 2; i++)
		rank_did(r, coll_red_op_destroy(op[i], NULL), "red_op_destroy");
}

/* One rank reduces with an operation that does not commute, the other with one that does. */
static void differs(struct rank *r)
{
	double x[2] = {1, 2};
	int code = coll_allreduce(x, x, 1, COLL_COMPLEX128, r->rank ? op_add : op_first, r->comm,
				  NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (code != COLL_ERR_MISMATCH)
		rank_fail(r, "%d: %s", code, coll_get_last_error(NULL));
}

/* In all more operations than there may be at a time. */
static void test_reuse(void)
{
	enum { TIMES = 100, OPS = 1000 };
	static coll_op_t op[OPS];
	int failed = 0;

	for (int i = 0; i < TIMES && !failed; i++) {
		for (int k = 0; k < OPS; k++)
			failed += coll_red_op_create_user(&op[k], add, NULL, 1, NULL) != 0;
		for (int k = 0; k < OPS && !failed; k++)
			failed += coll_red_op_destroy(op[k], NULL) != 0;
	}
	is_int(failed, 0, "operations that are destroyed in the order of creation leave room");
}

static void test_backend(const char *backend, int processes, int nranks)
{
	ranks_ok(&(struct ranks_job){backend, nranks, processes, everywhere, NULL},
		 "on a communicator and on a split of it");
	ranks_ok(&(struct ranks_job){backend, nranks, processes, own, NULL},
		 "each rank makes its own");
	ranks_ok(&(struct ranks_job){backend, 2, processes, differs, NULL},
		 "a commutative one on one rank only");
}

int main(void)
{
	double x[2] = {1, 2}, y[2] = {3, 4};

	is_int(coll_red_op_create_user(&op_first, first, NULL, 0, NULL), 0, "made");
	is_int(coll_red_op_create_user(&op_add, add, NULL, 1, NULL), 0, "another");
	ok(op_first != op_add, "they have different numbers");
	test_backend("simulated", 0, 4);
	test_backend("tcp", 0, 3);
	test_backend("tcp", 1, 4);
	if (ranks_can("ucx"))
		test_backend("ucx", 1, 4);
	is_int(coll_reduce_local(x, y, 1, COLL_COMPLEX128, op_add, NULL), 0, "without ranks");
	ok(y[0] == 4 && y[1] == 6, "the result");
	is_int(coll_red_op_destroy(op_add, NULL), 0, "destroyed");
	is_int(coll_red_op_destroy(op_add, NULL), COLL_ERR_INVALID_ARGUMENT, "once only");
	is_int(coll_reduce_local(x, y, 1, COLL_COMPLEX128, op_add, NULL), COLL_ERR_INVALID_ARGUMENT,
	       "and is of no use then");
	has_str(coll_get_last_error(NULL), "is not an operation, or is destroyed", "and why");
	is_int(coll_red_op_create_user(&op_add, add, NULL, 1, NULL), 0, "a new one");
	is_int(coll_red_op_destroy(op_add, NULL), 0, "destroyed");
	is_int(coll_red_op_destroy(op_first, NULL), 0, "the other one too");
	test_reuse();
	return done_testing();
}
