/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - inputs whose reduction is exact in whatever order it is done, and the result,
 * worked out in whole numbers without the library.
 */
#include "check/api/api.h"
#include <string.h>

enum { DATA_ACTIVE = 4 };

struct data_type {
	int32_t dtype;
	int size, is_signed;
	int exponent, mantissa; /* bits; 0: an integer */
	int64_t exact;          /* floats: whole numbers up to it are exact */
};

static const struct data_type data_types[API_DTYPES] = {
	{COLL_INT8, 1, 1, 0, 0, 0},
	{COLL_UINT8, 1, 0, 0, 0, 0},
	{COLL_INT16, 2, 1, 0, 0, 0},
	{COLL_UINT16, 2, 0, 0, 0, 0},
	{COLL_INT32, 4, 1, 0, 0, 0},
	{COLL_UINT32, 4, 0, 0, 0, 0},
	{COLL_INT64, 8, 1, 0, 0, 0},
	{COLL_UINT64, 8, 0, 0, 0, 0},
	{COLL_FLOAT16, 2, 1, 5, 10, 1 << 11},
	{COLL_BFLOAT16, 2, 1, 8, 7, 1 << 8},
	{COLL_FLOAT32, 4, 1, 8, 23, 1 << 24},
	{COLL_FLOAT64, 8, 1, 11, 52, 1 << 30},
	{COLL_FLOAT8E4M3, 1, 1, 4, 3, 1 << 4},
	{COLL_FLOAT8E5M2, 1, 1, 5, 2, 1 << 3},
};

const int32_t api_dtypes[API_DTYPES] = {
	COLL_INT8,    COLL_UINT8,   COLL_INT16,      COLL_UINT16,     COLL_INT32,
	COLL_UINT32,  COLL_INT64,   COLL_UINT64,     COLL_FLOAT16,    COLL_BFLOAT16,
	COLL_FLOAT32, COLL_FLOAT64, COLL_FLOAT8E4M3, COLL_FLOAT8E5M2,
};

const int32_t api_ops[API_OPS] = {COLL_SUM, COLL_PROD, COLL_MAX, COLL_MIN,
				  COLL_AVG, COLL_BAND, COLL_BOR, COLL_BXOR};

static const struct data_type *data_type(int32_t dtype)
{
	int i = 0;

	while (i < API_DTYPES - 1 && data_types[i].dtype != dtype)
		i++;
	return &data_types[i];
}

int api_mantissa(int32_t dtype)
{
	return data_type(dtype)->mantissa;
}

int api_op_fits(int32_t op, int32_t dtype)
{
	return op < COLL_BAND || !api_mantissa(dtype);
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t api_mix(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15 + b * 0xd1b54a32d192ed03 + 1;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* ------------------------------------------------------------------ numbers -- */

/* Cut to the width of an integer type. */
static int64_t data_wrap(const struct data_type *t, uint64_t bits)
{
	int unused = 64 - 8 * t->size;

	if (t->is_signed)
		return (int64_t)(bits << unused) >> unused;
	return (int64_t)(bits << unused >> unused);
}

/* The code of a whole number that the format holds exactly. */
static uint64_t data_float(const struct data_type *t, int64_t whole)
{
	uint64_t bias = ((uint64_t)1 << (t->exponent - 1)) - 1, e = 0;
	uint64_t sign = (uint64_t)(whole < 0) << (t->exponent + t->mantissa);
	uint64_t x = (uint64_t)(whole < 0 ? -whole : whole);

	if (!x)
		return 0;
	while (x >> (e + 1))
		e++;
	x = e > (uint64_t)t->mantissa ? x >> (e - (uint64_t)t->mantissa)
				      : x << ((uint64_t)t->mantissa - e);
	/* The leading one adds 1 to the field of the exponent. */
	return sign | (((e + bias - 1) << t->mantissa) + x);
}

void api_store(int32_t dtype, int64_t whole, void *out)
{
	const struct data_type *t = data_type(dtype);
	uint64_t bits = t->mantissa ? data_float(t, whole) : (uint64_t)whole;
	uint8_t byte = (uint8_t)bits;
	uint16_t half = (uint16_t)bits;
	uint32_t word = (uint32_t)bits;

	switch (t->size) {
	case 1: memcpy(out, &byte, 1); break;
	case 2: memcpy(out, &half, 2); break;
	case 4: memcpy(out, &word, 4); break;
	default: memcpy(out, &bits, 8);
	}
}

/* All bits but the sign. */
void api_store_nan(int32_t dtype, void *out)
{
	size_t size = coll_dtype_size(dtype);

	memset(out, 0xff, size);
	((unsigned char *)out)[size - 1] = 0x7f;
}

int api_is_nan(int32_t dtype, const void *in)
{
	const struct data_type *t = data_type(dtype);
	uint64_t bits = 0, infinity = ((uint64_t)1 << t->exponent) - 1;

	memcpy(&bits, in, (size_t)t->size);
	bits &= ((uint64_t)1 << (t->exponent + t->mantissa)) - 1;
	/* e4m3 has no infinity: of its largest exponent only the last code is no number. */
	infinity = t->dtype == COLL_FLOAT8E4M3 ? 0x7e : infinity << t->mantissa;
	return bits > infinity;
}

static int64_t data_within(const struct data_type *t, uint64_t hash, int64_t bound)
{
	if (t->is_signed)
		return (int64_t)(hash % (uint64_t)(2 * bound + 1)) - bound;
	return (int64_t)(hash % (uint64_t)(bound + 1));
}

/* ------------------------------------------------------------- inputs, results -- */

/* Is it one of the few ranks whose element i is not neutral?  So that 8 bits hold every result. */
static int data_active(int32_t nranks, int32_t rank, size_t i, int32_t most)
{
	return (int32_t)(((size_t)rank + i) % (size_t)nranks) < most;
}

/* A sum that does not leave the type; the quotient of integers is cut, that of floats exact. */
static int64_t data_average(const struct data_type *t, int32_t nranks, int32_t rank, size_t i,
			    uint64_t hash)
{
	if (!t->mantissa)
		return data_within(t, hash, (t->is_signed ? 127 : 255) / nranks);
	/* Not every type holds every multiple of nranks. */
	if (!data_active(nranks, rank, i, 2) || nranks >= (int64_t)4 << t->mantissa ||
	    (nranks >= (int64_t)2 << t->mantissa && nranks % 2))
		return 0;
	return nranks * ((int64_t)(hash % 3) - 1);
}

static int64_t data_input(const struct data_type *t, int32_t op, int32_t nranks, int32_t rank,
			  size_t i)
{
	uint64_t hash = api_mix((uint64_t)rank << 8 | (uint64_t)(t->dtype & 0xff), i);
	int active = data_active(nranks, rank, i, DATA_ACTIVE);

	if (op == COLL_AVG)
		return data_average(t, nranks, rank, i, hash);
	if (!t->mantissa)
		/* Odd factors never lose bits. */
		return data_wrap(t, op == COLL_PROD ? hash | 1 : hash);
	if (op == COLL_PROD)
		return (hash & 1 ? -1 : 1) * (hash & 2 && active ? 2 : 1);
	if (op == COLL_SUM)
		return active ? data_within(t, hash, t->exact / DATA_ACTIVE) : 0;
	return data_within(t, hash, t->exact);
}

static int64_t data_fold(const struct data_type *t, int32_t op, int64_t a, int64_t b)
{
	int less = t->is_signed ? a < b : (uint64_t)a < (uint64_t)b;
	uint64_t x;

	switch (op) {
	case COLL_MAX: return less ? b : a;
	case COLL_MIN: return less ? a : b;
	case COLL_BAND: return a & b;
	case COLL_BOR: return a | b;
	case COLL_BXOR: return a ^ b;
	case COLL_PROD: x = (uint64_t)a * (uint64_t)b; break;
	default: x = (uint64_t)a + (uint64_t)b;
	}
	return t->mantissa ? (int64_t)x : data_wrap(t, x);
}

static void data_element(struct api_table *table, const struct data_type *t, int32_t op,
			 int32_t nranks, size_t i)
{
	size_t at = i * (size_t)t->size;
	int64_t x, all = 0;

	for (int32_t r = 0; r < nranks; r++) {
		x = data_input(t, op, nranks, r, i);
		api_store(t->dtype, x, table->in[r] + at);
		all = r ? data_fold(t, op, all, x) : x;
	}
	api_store(t->dtype, op == COLL_AVG ? all / nranks : all, table->out + at);
}

void api_table_make(struct api_table *table, int32_t dtype, int32_t op, int32_t nranks, size_t n)
{
	const struct data_type *t = data_type(dtype);
	uint64_t bits;

	n = n < API_PERIOD ? n : API_PERIOD;
	for (size_t i = 0; i < n && op != API_MOVE; i++)
		data_element(table, t, op, nranks, i);
	/* What is only moved may be any bits. */
	for (int32_t r = 0; r < nranks && op == API_MOVE; r++)
		for (size_t i = 0; i < n; i++) {
			bits = api_mix((uint64_t)r << 8 | (uint64_t)(dtype & 0xff), i);
			memcpy(table->in[r] + i * (size_t)t->size, &bits, (size_t)t->size);
		}
}

void api_tile(void *dst, const unsigned char *row, size_t elem, size_t first, size_t count)
{
	unsigned char *out = dst;
	size_t at = first % API_PERIOD, n;

	for (; count; count -= n, out += n * elem, at = 0) {
		n = API_PERIOD - at < count ? API_PERIOD - at : count;
		memcpy(out, row + at * elem, n * elem);
	}
}
