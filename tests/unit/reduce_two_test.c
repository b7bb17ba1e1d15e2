/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_two_test.c - reductions of elements of two numbers: compares the kernels of every instruction set
 * with the oracle, for complex numbers and for pairs of a value and an index.
 */
#include "reduce/kernels.h"
#include "reduce/reduce.h"
#include "reduce_inputs.h"

#include <math.h>

enum { MOST = 4100, EDGE = 16 };

struct two {
	struct oracle_data data;
	unsigned char *left, *right, *wanted, *memory;
	size_t elem;
};

/* in_place: 0 no, 1 the result replaces the left operand, 2 the right one. */
static int two_try(const struct two *t, reduce_fn fn, size_t count, size_t offset, int in_place)
{
	const size_t bytes = count * t->elem, room = MOST * t->elem + 4 * EDGE;
	unsigned char *dst = t->memory + EDGE + offset;
	unsigned char *left = in_place == 1 ? dst : t->memory + room + offset / 2;
	unsigned char *right = in_place == 2 ? dst : t->memory + 2 * room + offset * 5 % 9;
	int good = 1;

	memset(t->memory, 0xa5, room);
	memcpy(left, t->left, bytes);
	memcpy(right, t->right, bytes);
	fn(dst, left, right, bytes, 1);
	for (int i = 0; i < EDGE; i++)
		good &= dst[i - EDGE] == 0xa5 && dst[bytes + (size_t)i] == 0xa5;
	return good && !oracle_wrong(&t->data, dst, t->wanted, MOST, 0, count, NULL);
}

static int two_places(const struct two *t, reduce_fn fn)
{
	int good = 1;

	for (int in_place = 0; in_place < 3; in_place++)
		for (size_t offset = 0; offset <= 16; offset++) {
			for (size_t count = 0; count <= 19; count++)
				good &= two_try(t, fn, count, offset, in_place);
			good &= two_try(t, fn, MOST, offset, in_place);
		}
	return good;
}

static void test_operation(int32_t dtype, int32_t op, enum oracle_inputs inputs)
{
	struct two t = {.data = {.dtype = dtype, .op = op, .nranks = 2, .inputs = inputs},
			.elem = oracle_size(dtype)};
	const struct reduce_kernels *k;

	t.left = inputs_alloc(MOST * t.elem);
	t.right = inputs_alloc(MOST * t.elem);
	t.wanted = inputs_alloc(MOST * t.elem);
	t.memory = inputs_alloc(3 * (MOST * t.elem + 4 * EDGE));
	oracle_input_row(&t.data, 0, MOST, t.left);
	oracle_input_row(&t.data, 1, MOST, t.right);
	oracle_result_row(&t.data, MOST, t.wanted);
	for (int isa = 0; (k = reduce_usable(isa)); isa++)
		ok(two_places(&t, reduce_lookup(k, dtype, op)), "%s %s of %s, %s inputs", k->isa,
		   coll_op_name(op), coll_dtype_name(dtype),
		   inputs == ORACLE_EXACT ? "exact" : "special");
	free(t.left);
	free(t.right);
	free(t.wanted);
	free(t.memory);
}

static void test_operations(int32_t dtype)
{
	is_int((int64_t)coll_dtype_size(dtype), (int64_t)oracle_size(dtype), "%s: its size",
	       coll_dtype_name(dtype));
	for (int o = 0; o < oracle_op_count; o++) {
		is_int(reduce_supports(dtype, oracle_ops[o]), oracle_op_fits(oracle_ops[o], dtype),
		       "%s has %s, or not", coll_dtype_name(dtype), coll_op_name(oracle_ops[o]));
		if (!oracle_op_fits(oracle_ops[o], dtype) || oracle_ops[o] == COLL_AVG)
			continue;
		test_operation(dtype, oracle_ops[o], ORACLE_EXACT);
		test_operation(dtype, oracle_ops[o], ORACLE_SPECIAL);
	}
}

/* ---------------------------------------------------------------- known results -- */

static void test_complex(void)
{
	float x[4] = {1, 2, 3, -4}, y[4] = {5, -6, 7, 8};
	double huge[2] = {1e300, 1e300}, quarter[2] = {1, 1};

	reduce(y, x, y, 2, COLL_COMPLEX64, COLL_PROD);
	ok(y[0] == 17 && y[1] == 4, "(1 + 2i) (5 - 6i) is 17 + 4i");
	ok(y[2] == 53 && y[3] == -4, "(3 - 4i) (7 + 8i) is 53 - 4i");
	reduce_run(reduce_kernel(COLL_COMPLEX64, COLL_AVG), x, x, x, sizeof(x), 4);
	ok(x[0] == 0.25F && x[3] == -1, "both parts are divided");
	reduce_scaled(quarter, quarter, huge, sizeof(huge), COLL_COMPLEX128, REDUCE_SCALED_SUM, 4);
	ok(quarter[0] == 1e300 && quarter[1] == 1e300, "and added");
	reduce(huge, huge, huge, 1, COLL_COMPLEX128, COLL_PROD);
	ok(isnan(huge[0]) && isinf(huge[1]), "a product beyond the range: NaN and infinity");
}

struct value {
	double value;
	int32_t index, rest;
};

static void places(int32_t op, double x, int32_t i, double y, int32_t j, int32_t winner,
		   const char *name)
{
	struct value a = {x, i, 0}, b = {y, j, 0}, forth, back;

	reduce(&forth, &a, &b, 1, COLL_FLOAT64_INT32, op);
	reduce(&back, &b, &a, 1, COLL_FLOAT64_INT32, op);
	is_int(forth.index, winner, "%s", name);
	ok(!memcmp(&forth, &back, sizeof(forth)), "in either order");
}

static void test_pairs(void)
{
	const struct {
		int64_t value;
		int32_t index, rest;
	} least = {INT64_MIN, 7, 0}, most = {INT64_MAX, 3, 0};
	int64_t result[2];

	places(COLL_MINLOC, 1, 9, 2, 4, 9, "the least");
	places(COLL_MAXLOC, 1, 9, 2, 4, 4, "the greatest");
	places(COLL_MINLOC, 2, 9, 2, 4, 4, "of equal ones the lower index");
	places(COLL_MAXLOC, 2, -9, 2, 4, -9, "a negative one too");
	places(COLL_MINLOC, -0.0, 9, 0, 4, 9, "-0 is less than 0");
	places(COLL_MAXLOC, -0.0, 1, 0, 4, 4, "and 0 greater");
	places(COLL_MINLOC, -INFINITY, 1, NAN, 4, 4, "a NaN is less than all numbers");
	places(COLL_MAXLOC, INFINITY, 1, -NAN, 4, 4, "and greater");
	places(COLL_MAXLOC, -NAN, 8, NAN, 4, 4, "of NaNs the lower index");
	reduce(result, &least, &most, 1, COLL_INT64_INT32, COLL_MINLOC);
	ok(result[0] == INT64_MIN && (int32_t)result[1] == 7, "the least integer");
	reduce(result, &least, &most, 1, COLL_INT64_INT32, COLL_MAXLOC);
	ok(result[0] == INT64_MAX && (int32_t)result[1] == 3, "the greatest integer");
}

int main(void)
{
	for (int t = oracle_format_count; t < oracle_dtype_count; t++)
		test_operations(oracle_dtypes[t]);
	test_complex();
	test_pairs();
	return done_testing();
}
