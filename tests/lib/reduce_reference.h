/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_reference.h - what the reductions have to give, one element at a time and by other means
 * than the kernels: values in double, rounding by division and rint, no arithmetic on bits.
 */
#ifndef TESTS_REDUCE_REFERENCE_H
#define TESTS_REDUCE_REFERENCE_H

#include <coll/coll.h>
#include <math.h>
#include "tap.h"

struct ref_type {
	int dtype, size, is_signed;
	/* floats: bits of the mantissa (0: an integer), bias, and codes without sign */
	int mantissa, bias;
	uint64_t max, over, inf,
		nan; /* largest finite, what is above it, last not NaN, quiet NaN */
};

static const struct ref_type ref_types[] = {
	{COLL_INT8, 1, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT8, 1, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT16, 2, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT16, 2, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT32, 4, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT32, 4, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT64, 8, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT64, 8, 0, 0, 0, 0, 0, 0, 0},
	{COLL_FLOAT16, 2, 1, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00},
	{COLL_BFLOAT16, 2, 1, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0},
	{COLL_FLOAT8E4M3, 1, 1, 3, 7, 0x7e, 0x7e, 0x7e, 0x7f},
	{COLL_FLOAT8E5M2, 1, 1, 2, 15, 0x7b, 0x7b, 0x7c, 0x7e},
	{COLL_FLOAT32, 4, 1, 23, 127, 0x7f7fffff, 0x7f800000, 0x7f800000, 0x7fc00000},
	{COLL_FLOAT64, 8, 1, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000000,
	 0x7ff8000000000000},
};

enum { REF_TYPES = sizeof(ref_types) / sizeof(ref_types[0]) };

static inline uint64_t ref_sign(const struct ref_type *t)
{
	return (uint64_t)1 << (8 * t->size - 1);
}

/* Element i of an array as a code, zero-extended; tests run on little-endian machines only. */
static inline uint64_t ref_load(const struct ref_type *t, const void *array, size_t i)
{
	uint64_t code = 0;

	memcpy(&code, (const char *)array + i * (size_t)t->size, (size_t)t->size);
	return code;
}

static inline void ref_store(const struct ref_type *t, void *array, size_t i, uint64_t code)
{
	memcpy((char *)array + i * (size_t)t->size, &code, (size_t)t->size);
}

static inline double ref_value(const struct ref_type *t, uint64_t code)
{
	double sign = code & ref_sign(t) ? -1 : 1;
	uint64_t magnitude = code & (ref_sign(t) - 1);
	int exponent = (int)(magnitude >> t->mantissa);
	double one = ldexp(1, t->mantissa);
	double fraction = (double)(magnitude % ((uint64_t)1 << t->mantissa));

	if (magnitude > t->inf)
		return NAN;
	if (magnitude > t->max)
		return sign * INFINITY;
	if (!exponent)
		return sign * ldexp(fraction, 1 - t->bias - t->mantissa);
	return sign * ldexp(one + fraction, exponent - t->bias - t->mantissa);
}

/* The nearest code, ties to even. */
static inline uint64_t ref_code(const struct ref_type *t, double x)
{
	uint64_t sign = signbit(x) ? ref_sign(t) : 0;
	double steps, one = ldexp(1, t->mantissa);
	int exponent;

	if (isnan(x))
		return t->nan;
	if (x == 0)
		return sign;
	if (isinf(x))
		return sign | t->over;
	exponent = ilogb(x);
	exponent = exponent < 1 - t->bias ? 1 - t->bias : exponent;
	steps = rint(ldexp(fabs(x), t->mantissa - exponent));
	if (steps < one)
		return sign | (uint64_t)steps;
	if (ldexp(steps, exponent - t->mantissa) > ref_value(t, t->max))
		return sign | t->over;
	/* steps may be 2 * one: then the exponent carries */
	return sign | (((uint64_t)(exponent + t->bias) << t->mantissa) + (uint64_t)(steps - one));
}

static inline uint64_t ref_float(const struct ref_type *t, int op, uint64_t a, uint64_t b, int n)
{
	double x = ref_value(t, a), y = ref_value(t, b), r;
	int first;

	if (op == COLL_MIN || op == COLL_MAX) {
		if (isnan(x) || isnan(y))
			return t->nan;
		first = x < y || (x == y && signbit(x) > signbit(y));
		return first == (op == COLL_MIN) ? a : b;
	}
	/* In double even a float's product is exact and its sum good for a second rounding. */
	r = op == COLL_SUM ? x + y : x * y;
	if (op == COLL_AVG)
		r = t->mantissa == 52 ? x / n : (double)((float)x / (float)n);
	if (t->mantissa < 23)
		r = (double)(float)r;
	return ref_code(t, r);
}

static inline int64_t ref_signed(const struct ref_type *t, uint64_t code)
{
	/* -2^63 is not made by subtraction */
	if (code < ref_sign(t))
		return (int64_t)code;
	return -(int64_t)(2 * (ref_sign(t) - 1) + 1 - code) - 1;
}

static inline uint64_t ref_integer(const struct ref_type *t, int op, uint64_t a, uint64_t b, int n)
{
	int less = t->is_signed ? ref_signed(t, a) < ref_signed(t, b) : a < b;

	switch (op) {
	case COLL_SUM: return a + b;
	case COLL_PROD: return a * b;
	case COLL_MIN: return less ? a : b;
	case COLL_MAX: return less ? b : a;
	case COLL_BAND: return a & b;
	case COLL_BOR: return a | b;
	case COLL_BXOR: return a ^ b;
	default: return t->is_signed ? (uint64_t)(ref_signed(t, a) / n) : a / (unsigned)n;
	}
}

/* dst[i] = left[i] op right[i]; COLL_AVG: left[i] / n. */
static inline void ref_reduce(const struct ref_type *t, int op, void *dst, const void *left,
			      const void *right, size_t count, int n)
{
	uint64_t a, b;
	size_t i;

	for (i = 0; i < count; i++) {
		a = ref_load(t, left, i);
		b = ref_load(t, right, i);
		ref_store(t, dst, i,
			  t->mantissa ? ref_float(t, op, a, b, n) : ref_integer(t, op, a, b, n));
	}
}

/* --------------------------------------------------------------- inputs -- */

static inline void *ref_alloc(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		bail_out("no memory for %zu bytes", bytes);
	return p;
}

static inline uint64_t ref_random(void)
{
	static uint64_t state = 1;
	uint64_t x = state += 0x9e3779b97f4a7c15;

	/* splitmix64, https://prng.di.unimi.it/splitmix64.c */
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Any bits, but half of the time from where things go wrong. */
static inline uint64_t ref_element(const struct ref_type *t)
{
	uint64_t r = ref_random(), all = 2 * (ref_sign(t) - 1) + 1;
	uint64_t bits = ref_random() & all;
	uint64_t one = (uint64_t)1 << t->mantissa;
	const uint64_t edges[] = {0,
				  1,
				  one - 1,
				  one,
				  one + 1,
				  t->max,
				  t->inf,
				  t->inf + 1,
				  t->nan,
				  (uint64_t)t->bias * one,
				  ref_sign(t) - 1};

	if (r & 1)
		return bits;
	if (!t->mantissa)
		return (r & 2 ? 0 : ref_sign(t)) + (r >> 2) % 5 - 2;
	if (r & 2)
		return (edges[(r >> 3) % 11] | (r & 4 ? ref_sign(t) : 0)) & all;
	/* near one: results that round, cancel and tie */
	return (bits % (one * 2)) + (uint64_t)(t->bias - 1) * one;
}

static inline void ref_fill(const struct ref_type *t, void *array, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		ref_store(t, array, i, ref_element(t));
}

#endif
