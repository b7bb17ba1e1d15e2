/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_local_test.c - coll_reduce_local: folded over the inputs of all ranks it gives the bits of
 * coll_allreduce, for built-in operations and for one of the application that does not commute; and
 * its refusals.
 */
#include "../lib/ranks.h"

#include "../fakes/cuda.h"

enum { LENGTH = 3000, SEED = 12345 };

/* Maps x -> ax + b in the two halves of an element; the left operand's map is applied first. */
static void compose(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const uint64_t *x = left;
	uint64_t *y = inout;

	*(int *)user += dtype != COLL_UINT64;
	for (size_t i = 0; i < count; i++) {
		uint32_t a = (uint32_t)(x[i] >> 32), b = (uint32_t)x[i];
		uint32_t c = (uint32_t)(y[i] >> 32), d = (uint32_t)y[i];

		y[i] = (uint64_t)(a * c) << 32 | (uint32_t)(c * b + d);
	}
}

static void fill(uint64_t *x, int rank)
{
	for (size_t i = 0; i < LENGTH; i++)
		x[i] = ((uint64_t)rank + SEED) * 0x9e3779b97f4a7c15 + i * 0xbf58476d1ce4e5b9;
}

/* Folds the inputs of all ranks from the last to the first and compares with the collective. */
static int fold(struct rank *r, coll_op_t op, coll_comm_t comm, const char *name)
{
	static _Thread_local uint64_t in[LENGTH], out[LENGTH], sum[LENGTH];

	fill(in, r->rank);
	if (!rank_did(r, coll_allreduce(in, out, LENGTH, COLL_UINT64, op, r->comm, NULL), name) ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return 0;
	fill(sum, r->nranks - 1);
	for (int from = r->nranks - 2; from >= 0; from--) {
		fill(in, from);
		if (!rank_did(r, coll_reduce_local(in, sum, LENGTH, COLL_UINT64, op, comm), name))
			return 0;
	}
	return !memcmp(sum, out, sizeof(sum)) ||
	       rank_fail(r, "%s: the local result differs from the collective's", name);
}

static int refused(struct rank *r, coll_result_t code, coll_result_t want, const char *text)
{
	const char *said = coll_get_last_error(NULL);

	if (code == want && strstr(said, text))
		return 1;
	return rank_fail(r, "'%s' expected: got %d (%s)", text, code, said);
}

/* Operations that are not for a local reduction. */
static int refusals(struct rank *r, coll_op_t made)
{
	uint64_t x = 3, y = 4, factor = 2;
	coll_op_t scaled;

	if (!rank_did(r,
		      coll_red_op_create_pre_mul_sum(&scaled, &factor, COLL_UINT64,
						     COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		      "red_op_create_pre_mul_sum"))
		return 0;
	return refused(r, coll_reduce_local(&x, &y, 1, COLL_UINT64, scaled, r->comm),
		       COLL_ERR_INVALID_ARGUMENT, "scales the input") &&
	       refused(r, coll_reduce_local(&x, &y, 1, COLL_UINT64, COLL_AVG, r->comm),
		       COLL_ERR_INVALID_ARGUMENT, "COLL_AVG divides by the number of ranks") &&
	       refused(r, coll_reduce_local(&x, &y, 1, COLL_UINT64, made, NULL),
		       COLL_ERR_INVALID_ARGUMENT, "was made on a communicator") &&
	       refused(r, coll_reduce_local(&x, &y, 1, COLL_UINT64, made + 9, r->comm),
		       COLL_ERR_INVALID_ARGUMENT, "was not made on this communicator");
}

static void work(struct rank *r)
{
	int wrong_types = 0;
	coll_op_t op;

	if (fold(r, COLL_SUM, NULL, "sum") && fold(r, COLL_MAX, r->comm, "max") &&
	    rank_did(r, coll_red_op_create_user(&op, compose, &wrong_types, 0, r->comm),
		     "red_op_create_user") &&
	    fold(r, op, r->comm, "maps") && refusals(r, op) && wrong_types)
		rank_fail(r, "the function saw another type %d times", wrong_types);
}

static void is_refused(coll_result_t code, coll_result_t want, const char *text)
{
	const char *said = coll_get_last_error(NULL);

	if (!ok(code == want && strstr(said, text), "refused: %s", text))
		diag("got %d (%s)", code, said);
}

static void test_arguments(void)
{
	int32_t x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};
	float f = 1;

	is_int(coll_reduce_local(x, x, 4, COLL_INT32, COLL_SUM, NULL), 0, "an array with itself");
	ok(x[0] == 2 && x[3] == 8, "which doubles it");
	is_int(coll_reduce_local(NULL, NULL, 0, COLL_INT32, COLL_SUM, NULL), 0, "no elements");
	is_refused(coll_reduce_local(NULL, y, 4, COLL_INT32, COLL_SUM, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "inbuf is NULL, count is 4");
	is_refused(coll_reduce_local(x, NULL, 4, COLL_INT32, COLL_SUM, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "inoutbuf is NULL, count is 4");
	is_refused(coll_reduce_local(x, x + 1, 3, COLL_INT32, COLL_SUM, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "inbuf and inoutbuf overlap");
	is_refused(coll_reduce_local(x, y, SIZE_MAX / 4, COLL_INT32, COLL_SUM, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "do not fit into memory");
	is_refused(coll_reduce_local(x, y, 1, 99, COLL_SUM, NULL), COLL_ERR_INVALID_ARGUMENT,
		   "99 is not a data type");
	is_refused(coll_reduce_local(&f, &f, 1, COLL_FLOAT32, COLL_BAND, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "is not an operation on float32");
	is_refused(coll_reduce_local(x, y, 1, COLL_INT32, -1, NULL), COLL_ERR_INVALID_ARGUMENT,
		   "is not an operation on int32");
}

static void test_device(void)
{
	int32_t x = 1;
	void *context;
	CUdeviceptr at;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc_v2(&at, 64))
		bail_out("the stand-in driver has no memory");
	is_refused(
		coll_reduce_local((const void *)(uintptr_t)at, &x, 1, COLL_INT32, COLL_SUM, NULL),
		COLL_ERR_UNSUPPORTED, "inbuf is CUDA memory of device 0");
	is_refused(coll_reduce_local(&x, (void *)(uintptr_t)at, 1, COLL_INT32, COLL_SUM, NULL),
		   COLL_ERR_UNSUPPORTED, "copy it to host memory first");
	cuMemFree_v2(at);
}

static void test_backend(const char *backend, int processes, int nranks)
{
	struct ranks_job job = {backend, nranks, processes, work, NULL};

	ranks_ok(&job, "the same bits as the collective");
}

int main(void)
{
	test_arguments();
	test_backend("simulated", 0, 1);
	test_backend("simulated", 0, 5);
	test_backend("tcp", 1, 3);
	if (ranks_can("ucx"))
		test_backend("ucx", 1, 3);
	test_device();
	return done_testing();
}
