/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_test.c - compares the reduction kernels of every instruction set with a slow reference:
 * the bits of every result, at any alignment of the buffers.
 */
#include "reduce/reduce.h"
#include "reduce/kernels.h"
#include "reduce_inputs.h"

static const int test_ops[] = {COLL_SUM, COLL_PROD, COLL_MIN,  COLL_MAX, COLL_AVG, COLL_BAND,
			       COLL_BOR, COLL_BXOR, COLL_LAND, COLL_LOR, COLL_LXOR};

enum {
	TEST_OPS = sizeof(test_ops) / sizeof(test_ops[0]),
	TEST_MANY = 65537, /* elements of the largest buffers */
	TEST_EDGE = 16,    /* number of bytes checked before and behind a result */
	TEST_N = 3         /* the divisor of COLL_AVG */
};

/* A kernel's result over whole arrays must equal the reference's; prints the first difference. */
static int test_same(const struct oracle_format *t, const struct reduce_kernels *k, int op,
		     const void *a, const void *b, const void *want, void *got, size_t count)
{
	size_t i, bytes = count * (size_t)t->size;

	reduce_lookup(k, t->dtype, op)(got, a, b, bytes, TEST_N);
	if (memcmp(got, want, bytes) == 0)
		return 1;
	for (i = 0; oracle_load(t, got, i) == oracle_load(t, want, i);)
		i++;
	diag("%s %s(%s) of %#" PRIx64 ", %#" PRIx64 ": got %#" PRIx64 ", expected %#" PRIx64,
	     k->isa, coll_op_name(op), coll_dtype_name(t->dtype), oracle_load(t, a, i),
	     oracle_load(t, b, i), oracle_load(t, got, i), oracle_load(t, want, i));
	return 0;
}

/* Runs every operation of every instruction set on two arrays. */
static void test_values(const struct oracle_format *t, const void *a, const void *b, size_t count,
			const char *what)
{
	void *want = inputs_alloc(count * (size_t)t->size),
	     *got = inputs_alloc(count * (size_t)t->size);
	const struct reduce_kernels *k;
	int i, isa, good = 1;

	for (i = 0; i < TEST_OPS; i++) {
		if (!reduce_supports(t->dtype, test_ops[i]))
			continue;
		oracle_reduce_all(t, test_ops[i], want, a, b, count, TEST_N);
		for (isa = 0; (k = reduce_usable(isa)); isa++)
			good &= test_same(t, k, test_ops[i], a, b, want, got, count);
	}
	ok(good, "%s: %s", coll_dtype_name(t->dtype), what);
	free(want);
	free(got);
}

static void test_all_pairs_of_bytes(const struct oracle_format *t)
{
	uint8_t *a = inputs_alloc(65536), *b = inputs_alloc(65536);
	int i;

	for (i = 0; i < 65536; i++) {
		a[i] = (uint8_t)(i >> 8);
		b[i] = (uint8_t)i;
	}
	test_values(t, a, b, 65536, "all pairs");
	free(a);
	free(b);
}

/* The partners of all values of a 16-bit type: -0, both signs of every error-prone value, then any values. */
static uint16_t test_partner(const struct oracle_format *t, int i)
{
	if (i == 0)
		return 0x8000;
	if (i <= 2 * INPUTS_EDGES)
		return (uint16_t)(inputs_edge(t, (i - 1) / 2) | (i % 2 ? oracle_sign(t) : 0));
	return (uint16_t)inputs_element(t);
}

/*
 * Each value combined with -0 shows the conversions in both directions; combined with others it
 * shows the rounding.
 */
static void test_all_halves(const struct oracle_format *t)
{
	enum { PARTNERS = 1 + 2 * INPUTS_EDGES + 9 };
	uint16_t *a = inputs_alloc(PARTNERS * 65536 * 2), *b = inputs_alloc(PARTNERS * 65536 * 2);
	int i, partner;

	for (partner = 0; partner < PARTNERS; partner++)
		for (i = 0; i < 65536; i++) {
			a[partner * 65536 + i] = (uint16_t)i;
			b[partner * 65536 + i] = test_partner(t, partner);
		}
	test_values(t, a, b, PARTNERS * 65536, "all values with others");
	free(a);
	free(b);
}

static void test_some_pairs(const struct oracle_format *t)
{
	void *a = inputs_alloc(TEST_MANY * (size_t)t->size),
	     *b = inputs_alloc(TEST_MANY * (size_t)t->size);

	inputs_fill(t, a, TEST_MANY);
	inputs_fill(t, b, TEST_MANY);
	test_values(t, a, b, TEST_MANY, "random and awkward pairs");
	free(a);
	free(b);
}

/* --------------------------------------------------------------- places -- */

/* Inputs, the expected result, and space for copies of them at any offset. */
struct place {
	const struct oracle_format *t;
	unsigned char *a, *b, *want, *left, *right, *dst;
};

enum { PLACE_BYTES = TEST_MANY * 8 + 2 * TEST_EDGE + 16 };

/* dst must equal want, and the bytes around dst must be unchanged */
static int place_held(const unsigned char *dst, const unsigned char *want, size_t bytes)
{
	int i, good = memcmp(dst, want, bytes) == 0;

	for (i = 0; i < TEST_EDGE; i++)
		good &= dst[i - TEST_EDGE] == 0xa5 && dst[bytes + (size_t)i] == 0xa5;
	return good;
}

/* in_place: 0 no, 1 dst is the left operand, 2 dst is the right operand */
static int place_try(const struct place *p, reduce_fn fn, size_t count, const int *at, int in_place)
{
	size_t bytes = count * (size_t)p->t->size;
	unsigned char *dst = p->dst + TEST_EDGE + at[0];
	unsigned char *left = in_place == 1 ? dst : p->left + at[1];
	unsigned char *right = in_place == 2 ? dst : p->right + at[2];

	memset(dst - TEST_EDGE, 0xa5, bytes + 2 * TEST_EDGE);
	memcpy(left, p->a, bytes);
	memcpy(right, p->b, bytes);
	fn(dst, left, right, bytes, TEST_N);
	return place_held(dst, p->want, bytes);
}

static int place_counts(const struct place *p, reduce_fn fn)
{
	static const size_t large[] = {1000, TEST_MANY};
	int o, mode, good = 1;
	size_t i;

	for (mode = 0; mode < 3; mode++) {
		for (o = 0; o <= 8; o++) {
			for (i = 0; i <= 67; i++)
				good &= place_try(p, fn, i, (int[]){o, o * 2 % 9, o * 5 % 9}, mode);
			/* Enough bytes for a kernel that aligns its stores. */
			good &= place_try(p, fn, 4100, (int[]){o, o * 2 % 9, o * 5 % 9}, mode);
		}
		for (i = 0; i < 2; i++)
			good &= place_try(p, fn, large[i], (int[]){1, 0, 3}, mode);
	}
	return good;
}

static int place_offsets(const struct place *p, reduce_fn fn)
{
	int x, y, z, good = 1;

	for (x = 0; x <= 8; x++)
		for (y = 0; y <= 8; y++)
			for (z = 0; z <= 8; z++)
				good &= place_try(p, fn, 67, (int[]){x, y, z}, 0);
	return good;
}

static void test_places(const struct oracle_format *t)
{
	struct place p = {t,
			  inputs_alloc(PLACE_BYTES),
			  inputs_alloc(PLACE_BYTES),
			  inputs_alloc(PLACE_BYTES),
			  inputs_alloc(PLACE_BYTES),
			  inputs_alloc(PLACE_BYTES),
			  inputs_alloc(PLACE_BYTES)};
	const struct reduce_kernels *k;
	int i, isa, counts = 1, offsets = 1;

	inputs_fill(t, p.a, TEST_MANY);
	inputs_fill(t, p.b, TEST_MANY);
	for (i = 0; i < TEST_OPS; i++) {
		if (!reduce_supports(t->dtype, test_ops[i]))
			continue;
		oracle_reduce_all(t, test_ops[i], p.want, p.a, p.b, TEST_MANY, TEST_N);
		for (isa = 0; (k = reduce_usable(isa)); isa++) {
			counts &= place_counts(&p, reduce_lookup(k, t->dtype, test_ops[i]));
			if (test_ops[i] == COLL_SUM || t->dtype == COLL_BOOL)
				offsets &=
					place_offsets(&p, reduce_lookup(k, t->dtype, test_ops[i]));
		}
	}
	ok(counts, "%s: any count, in place or not", coll_dtype_name(t->dtype));
	ok(offsets, "%s: any alignment", coll_dtype_name(t->dtype));
	free(p.a);
	free(p.b);
	free(p.want);
	free(p.left);
	free(p.right);
	free(p.dst);
}

int main(void)
{
	int i;

	for (i = 0; i < oracle_format_count; i++) {
		if (oracle_formats[i].size == 1)
			test_all_pairs_of_bytes(&oracle_formats[i]);
		else if (oracle_formats[i].size == 2 && oracle_formats[i].mantissa)
			test_all_halves(&oracle_formats[i]);
		test_some_pairs(&oracle_formats[i]);
		test_places(&oracle_formats[i]);
	}
	return done_testing();
}
