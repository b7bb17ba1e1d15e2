/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c - reductions with the application's own functions and with pre-multiplied sums, in every
 * collective that reduces, and opaque elements, which need such functions.
 */
#include "check/api/api.h"
#include <string.h>

enum { OP_COUNT = 3001 };

static const int32_t op_kinds[] = {COLL_KIND_ALLREDUCE, COLL_KIND_REDUCE, COLL_KIND_REDUCE_SCATTER,
				   COLL_KIND_REDUCE_SCATTERV};
enum { OP_KINDS = sizeof(op_kinds) / sizeof(op_kinds[0]) };

/*
 * Composes maps: each element is a map x -> a * x + b modulo 2^32, with a in the upper half, and the operation applies the
 * right map after the left.  It is associative, not commutative.
 */
static uint64_t op_compose(uint64_t left, uint64_t right)
{
	uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left;

	return (uint64_t)(a * (uint32_t)(right >> 32)) << 32 | (uint32_t)(a * (uint32_t)right + b);
}

/* Folds whole arrays, whose elements may be unaligned. */
static void op_fold(uint64_t (*fold)(uint64_t x, uint64_t y), atomic_llong *calls, const char *left,
		    char *inout, size_t count, coll_dtype_t dtype)
{
	uint64_t x, y;

	atomic_fetch_add(calls, dtype == COLL_UINT64 ? 1 : -1000000);
	for (size_t i = 0; i < count; i++) {
		memcpy(&x, left + 8 * i, 8);
		memcpy(&y, inout + 8 * i, 8);
		x = fold(x, y);
		memcpy(inout + 8 * i, &x, 8);
	}
}

static void op_maps(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	op_fold(op_compose, user, left, inout, count, dtype);
}

/* A commutative operation: the maximum of the lower halves and the minimum of the upper halves. */
static uint64_t op_extremes(uint64_t x, uint64_t y)
{
	uint64_t least = x >> 32 < y >> 32 ? x >> 32 : y >> 32;

	return least << 32 | ((uint32_t)x > (uint32_t)y ? (uint32_t)x : (uint32_t)y);
}

static void op_both_ends(void *user, const void *left, void *inout, size_t count,
			 coll_dtype_t dtype)
{
	op_fold(op_extremes, user, left, inout, count, dtype);
}

/* ----------------------------------------------------------- all reducing collectives -- */

/* Returns the expected result for element i of all ranks' inputs. */
typedef uint64_t (*op_reference_fn)(int32_t nranks, size_t i);

static uint64_t op_input(int32_t rank, size_t i)
{
	return oracle_mix((uint64_t)rank + 11, i);
}

static uint64_t op_all_maps(int32_t nranks, size_t i)
{
	uint64_t x = op_input(0, i);

	for (int32_t r = 1; r < nranks; r++)
		x = op_compose(x, op_input(r, i));
	return x;
}

static uint64_t op_all_extremes(int32_t nranks, size_t i)
{
	uint64_t x = op_input(0, i);

	for (int32_t r = 1; r < nranks; r++)
		x = op_extremes(x, op_input(r, i));
	return x;
}

static int op_call(struct api_rank *r, coll_args_t *args, size_t length, uint64_t *x,
		   op_reference_fn wanted)
{
	size_t first = args->kind == COLL_KIND_REDUCE_SCATTERV ? 0 : args->count * (size_t)r->rank;
	size_t n = args->count;
	uint64_t *out = x + length;

	for (size_t i = 0; i < length; i++)
		x[i] = op_input(r->rank, i);
	memset(out, 0, length * sizeof(*out));
	if (args->kind == COLL_KIND_REDUCE_SCATTERV) {
		n = args->recvcounts[r->rank];
		for (int32_t k = 0; k < r->rank; k++)
			first += args->recvcounts[k];
	}
	if (args->kind == COLL_KIND_ALLREDUCE || args->kind == COLL_KIND_REDUCE)
		first = 0;
	args->sendbuf = x;
	args->recvbuf = out;
	if (!api_did(r, oracle_issue(args, r->comm, NULL), coll_kind_name(args->kind)) ||
	    !api_did(r, coll_sync(r->comm), "coll_sync"))
		return 0;
	for (size_t i = 0; i < n && (args->kind != COLL_KIND_REDUCE || r->rank == args->root); i++)
		if (out[i] != wanted(r->nranks, first + i))
			return api_fail(r, "%s of %zu: element %zu is %#llx, not %#llx",
					coll_kind_name(args->kind), n, i,
					(unsigned long long)out[i],
					(unsigned long long)wanted(r->nranks, first + i));
	return 1;
}

/* Runs every reducing collective with every root. */
static int op_calls(struct api_rank *r, coll_op_t op, size_t count, op_reference_fn wanted)
{
	size_t counts[CHECK_RANKS], length = 0;
	uint64_t *x;
	int good = 1;

	for (int32_t i = 0; i < r->nranks; i++)
		length += counts[i] = count + (size_t)i;
	length += (size_t)r->nranks * count + 1;
	x = api_buffer(r, 2 * length * sizeof(*x));
	for (int k = 0; k < OP_KINDS && good; k++)
		for (int32_t root = 0; root < r->nranks && good; root++) {
			coll_args_t args = {.size = sizeof(args),
					    .kind = op_kinds[k],
					    .dtype = COLL_UINT64,
					    .op = op,
					    .root = root,
					    .count = count,
					    .recvcounts = counts};

			if (root && !oracle_rooted(args.kind))
				break;
			good = op_call(r, &args, length, x, wanted);
		}
	return good;
}

static void op_user(struct api_rank *r, coll_user_op_fn fn, int32_t commutative,
		    op_reference_fn wanted)
{
	static const size_t counts[] = {0, 1, 7, OP_COUNT};
	atomic_llong *calls = &r->c->shared->number[r->slot];
	uint64_t *x = api_buffer(r, sizeof(*x));
	coll_op_t op;
	int good = 1;

	if (!api_did(r, coll_red_op_create_user(&op, fn, calls, commutative, r->comm),
		     "coll_red_op_create_user"))
		return;
	for (int i = 0; i < 4 && good; i++)
		good = op_calls(r, op, counts[i], wanted);
	if (good && atomic_load(calls) < 0)
		api_fail(r, "the operation was called with another data type");
	if (!api_did(r, coll_red_op_destroy(op, r->comm), "coll_red_op_destroy"))
		return;
	api_answered(r, coll_allreduce(x, x, 1, COLL_UINT64, op, r->comm, NULL),
		     COLL_ERR_INVALID_ARGUMENT, NULL, "an operation that was destroyed");
}

static void op_commutative(struct api_rank *r)
{
	op_user(r, op_both_ends, 1, op_all_extremes);
}

static void op_in_order(struct api_rank *r)
{
	op_user(r, op_maps, 0, op_all_maps);
}

/* -------------------------------------------------------------- opaque elements -- */

/* Adds the bytes of opaque elements, as the oracle does. */
static void op_add_bytes(void *user, const void *left, void *inout, size_t count,
			 coll_dtype_t dtype)
{
	const unsigned char *x = left;
	unsigned char *y = inout;

	(void)user;
	for (size_t i = 0; i < count * coll_dtype_size(dtype); i++)
		y[i] = (unsigned char)(x[i] + y[i]);
}

static int op_opaque_size(struct api_rank *r, size_t size, coll_op_t op)
{
	static const size_t counts[] = {1, 7, 301};
	const int lengths = size > 100 || r->c->quick ? 2 : 3;

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < lengths; i++) {
			const struct oracle_case c = {.kind = oracle_kinds[k],
						      .dtype = coll_dtype_opaque(size),
						      .op = COLL_SUM,
						      .own_op = op,
						      .root = k % r->nranks,
						      .place = i,
						      .gaps = i % 2,
						      .count = counts[i]};

			if (!api_call_run(r, &c))
				return 0;
		}
	return 1;
}

/* A backend may split messages within elements without a change of the result. */
static void op_opaque(struct api_rank *r)
{
	static const size_t sizes[] = {3, 24, 1000};
	coll_op_t op;
	int good = 1;

	if (!api_did(r, coll_red_op_create_user(&op, op_add_bytes, NULL, 1, r->comm),
		     "coll_red_op_create_user"))
		return;
	for (int i = 0; i < 3 && good; i++)
		good = op_opaque_size(r, sizes[i], op);
	api_did(r, coll_red_op_destroy(op, r->comm), "coll_red_op_destroy");
}

/* ------------------------------------------------------------------ scaled sums -- */

/*
 * The scalar is 3; ranks 0 and 1 put in ones and the other ranks zeros, so that every type holds
 * the sum.
 */
static int op_scaled_sum(struct api_rank *r, int32_t dtype, coll_op_t op)
{
	enum { N = 20 };
	const struct oracle_format *f = oracle_format(dtype);
	unsigned char *x = api_buffer(r, (size_t)N * ORACLE_ELEM_MAX);
	coll_result_t code;

	for (size_t i = 0; i < N; i++)
		oracle_store(f, x, i, oracle_code(f, r->rank < 2));
	code = coll_allreduce(x, x, N, dtype, op, r->comm, NULL);
	code = code ? code : coll_sync(r->comm);
	if (api_pass_over(r, code))
		return 1;
	if (!api_did(r, code, "coll_allreduce"))
		return 0;
	for (size_t i = 0; i < N; i++)
		if (oracle_load(f, x, i) != oracle_code(f, r->nranks > 1 ? 6 : 3))
			return api_fail(r, "the scaled sum of %s is wrong at %zu",
					coll_dtype_name(dtype), i);
	atomic_fetch_add(&r->c->shared->calls, r->rank == 0);
	return 1;
}

/* With COLL_SCALAR_DEVICE the library reads the scalar only when the operation runs. */
static int op_scaled_type(struct api_rank *r, int32_t dtype, int32_t residence)
{
	const struct oracle_format *f = oracle_format(dtype);
	unsigned char *scalar = api_buffer(r, ORACLE_ELEM_MAX);
	coll_result_t code;
	coll_op_t op;
	int good;

	oracle_store(f, scalar, 0, oracle_code(f, residence == COLL_SCALAR_DEVICE ? 0 : 3));
	code = coll_red_op_create_pre_mul_sum(&op, scalar, dtype, residence, r->comm);
	if (api_pass_over(r, code))
		return 1;
	if (!api_did(r, code, "coll_red_op_create_pre_mul_sum"))
		return 0;
	oracle_store(f, scalar, 0, oracle_code(f, residence == COLL_SCALAR_DEVICE ? 3 : 0));
	good = op_scaled_sum(r, dtype, op);
	return api_did(r, coll_red_op_destroy(op, r->comm), "coll_red_op_destroy") && good;
}

static void op_scaled(struct api_rank *r)
{
	for (int t = 0; t < oracle_format_count; t++)
		if (oracle_op_fits(COLL_SUM, oracle_formats[t].dtype) &&
		    oracle_formats[t].dtype != COLL_BOOL &&
		    (!op_scaled_type(r, oracle_formats[t].dtype, COLL_SCALAR_HOST_IMMEDIATE) ||
		     !op_scaled_type(r, oracle_formats[t].dtype, COLL_SCALAR_DEVICE)))
			return;
}

/* A created operation is valid for its own communicator and data type only. */
static void op_scaled_misuse(struct api_rank *r)
{
	float three = 3, *x = api_buffer(r, sizeof(*x));
	int32_t *i = api_buffer(r, sizeof(*i));
	coll_op_t op;

	if (!api_did(r,
		     coll_red_op_create_pre_mul_sum(&op, &three, COLL_FLOAT32,
						    COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		     "coll_red_op_create_pre_mul_sum"))
		return;
	api_answered(r, coll_allreduce(i, i, 1, COLL_INT32, op, r->comm, NULL),
		     COLL_ERR_INVALID_ARGUMENT, NULL, "a scaled sum of another data type");
	if (!api_did(r, coll_red_op_destroy(op, r->comm), "coll_red_op_destroy"))
		return;
	api_answered(r, coll_allreduce(x, x, 1, COLL_FLOAT32, op, r->comm, NULL),
		     COLL_ERR_INVALID_ARGUMENT, NULL, "an operation that was destroyed");
	api_works(r);
}

/* ------------------------------------------------------------------ the table -- */

static const char *const op_short_pieces[] = {"segment=4K", NULL};

static const struct api_plan op_commutative_plan = {.rank = op_commutative,
						    .options = op_short_pieces};
static const struct api_plan op_in_order_plan = {.rank = op_in_order, .options = op_short_pieces};
static const struct api_plan op_opaque_plan = {.rank = op_opaque, .options = op_short_pieces};
static const struct api_plan op_scaled_plan = {.rank = op_scaled};
static const struct api_plan op_scaled_misuse_plan = {.rank = op_scaled_misuse};

const struct check check_api_op[] = {
	{"op-user-commutative", "an operation of the application works in every reduction",
	 "coll.h, coll_red_op_create_user", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &op_commutative_plan},
	{"op-user-in-order", "an operation that does not commute gets its operands in rank order",
	 "coll.h, coll_red_op_create_user", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &op_in_order_plan},
	{"op-opaque", "elements of any number of bytes work in every collective",
	 "coll.h, coll_dtype_opaque", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &op_opaque_plan},
	{"op-scaled", "the sum of scaled values, for every type",
	 "coll.h, coll_red_op_create_pre_mul_sum", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &op_scaled_plan},
	{"op-scaled-misuse", "a scaled sum is refused for another type and once destroyed",
	 "coll.h, coll_red_op_create_pre_mul_sum", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &op_scaled_misuse_plan},
	{.name = NULL},
};
