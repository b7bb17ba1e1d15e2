/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - inputs whose reduction is known exactly, and the comparison with it.
 *
 * Every input is a whole number, chosen so small that all partial results in whatever order are
 * exact in the type (integers may wrap around: that is exact too).  So results are compared bit by
 * bit; only floating-point AVG over a number of ranks that is not a power of two is compared within
 * a bound (see data_tolerance).
 */
#include <math.h>
#include <string.h>
#include "perf/perf.h"

struct data_format {
	coll_dtype_t dtype;
	int is_signed;
	int exponent, mantissa; /* bits of a floating-point type; 0: integer */
	int64_t limit;          /* whole numbers up to it are exact, or as large as we want */
};

static const struct data_format data_formats[] = {
	{COLL_INT8, 1, 0, 0, 127},          {COLL_UINT8, 0, 0, 0, 255},
	{COLL_INT16, 1, 0, 0, 32767},       {COLL_UINT16, 0, 0, 0, 65535},
	{COLL_INT32, 1, 0, 0, 1 << 20},     {COLL_UINT32, 0, 0, 0, 1 << 20},
	{COLL_INT64, 1, 0, 0, 1 << 20},     {COLL_UINT64, 0, 0, 0, 1 << 20},
	{COLL_FLOAT16, 1, 5, 10, 1 << 11},  {COLL_BFLOAT16, 1, 8, 7, 1 << 8},
	{COLL_FLOAT32, 1, 8, 23, 1 << 20},  {COLL_FLOAT64, 1, 11, 52, 1 << 20},
	{COLL_FLOAT8E4M3, 1, 4, 3, 1 << 4}, {COLL_FLOAT8E5M2, 1, 5, 2, 1 << 3},
};

enum { DATA_FORMATS = sizeof(data_formats) / sizeof(data_formats[0]), DATA_TWOS = 4 };

static const struct data_format *data_format(coll_dtype_t dtype)
{
	for (size_t i = 0; i < DATA_FORMATS; i++)
		if (data_formats[i].dtype == dtype)
			return &data_formats[i];
	return &data_formats[0];
}

int perf_is_float(coll_dtype_t dtype)
{
	return data_format(dtype)->mantissa > 0;
}

int perf_op_fits(coll_op_t op, coll_dtype_t dtype)
{
	return !perf_is_float(dtype) || (op != COLL_BAND && op != COLL_BOR && op != COLL_BXOR);
}

/* ------------------------------------------------------------ coding -- */

/* IEEE-like formats of up to 16 bits, rounded to nearest even. */
static uint64_t data_encode_small(const struct data_format *f, double x)
{
	int bias = (1 << (f->exponent - 1)) - 1, e;
	uint64_t sign = (uint64_t)(signbit(x) != 0) << (f->exponent + f->mantissa), q;
	double one = ldexp(1, f->mantissa);

	if (x == 0)
		return sign;
	frexp(fabs(x), &e);
	e = e - 1 < 1 - bias ? 1 - bias : e - 1;
	q = (uint64_t)nearbyint(ldexp(fabs(x), f->mantissa - e));
	if ((double)q < one)
		return sign | q;
	/* The leading one adds 1 to the exponent field, a carry 1 more. */
	return sign | (((uint64_t)(e + bias - 1) << f->mantissa) + q);
}

static double data_decode_small(const struct data_format *f, uint64_t bits)
{
	int bias = (1 << (f->exponent - 1)) - 1, all = (1 << f->exponent) - 1;
	int e = (int)(bits >> f->mantissa) & all;
	uint64_t m = bits & ((1u << f->mantissa) - 1);
	double x;

	/* e4m3 has numbers where others have infinities and NaNs; none is ever a right result. */
	if (e == all)
		return NAN;
	x = e == 0 ? ldexp((double)m, 1 - bias - f->mantissa)
		   : ldexp((double)(m + (1u << f->mantissa)), e - bias - f->mantissa);
	return (bits >> (f->exponent + f->mantissa)) & 1 ? -x : x;
}

static void data_store(const struct data_format *f, double x, int64_t whole, void *out)
{
	uint64_t bits = (uint64_t)whole;
	float single = (float)x;
	uint8_t byte;
	uint16_t half;
	uint32_t word;

	if (f->dtype == COLL_FLOAT64) {
		memcpy(&bits, &x, sizeof(bits));
	} else if (f->dtype == COLL_FLOAT32) {
		memcpy(&word, &single, sizeof(word));
		bits = word;
	} else if (f->mantissa) {
		bits = data_encode_small(f, x);
	}
	byte = (uint8_t)bits;
	half = (uint16_t)bits;
	word = (uint32_t)bits;
	switch (coll_dtype_size(f->dtype)) {
	case 1: memcpy(out, &byte, 1); break;
	case 2: memcpy(out, &half, 2); break;
	case 4: memcpy(out, &word, 4); break;
	default: memcpy(out, &bits, 8);
	}
}

static double data_load_float(const struct data_format *f, const void *in)
{
	uint8_t byte;
	uint16_t half;
	float single;
	double x;

	switch (coll_dtype_size(f->dtype)) {
	case 1: memcpy(&byte, in, 1); return data_decode_small(f, byte);
	case 2: memcpy(&half, in, 2); return data_decode_small(f, half);
	case 4: memcpy(&single, in, 4); return single;
	default: memcpy(&x, in, 8); return x;
	}
}

/* ------------------------------------------------------------ inputs -- */

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t data_hash(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15 + b * 0xd1b54a32d192ed03 + 1;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Cut to the width of the type, and read back as a number. */
static int64_t data_wrap(const struct data_format *f, uint64_t bits)
{
	int unused = 64 - 8 * (int)coll_dtype_size(f->dtype);

	if (f->is_signed)
		return (int64_t)(bits << unused) >> unused;
	return (int64_t)((bits << unused) >> unused);
}

/* -bound to bound, or 0 to bound. */
static int64_t data_within(const struct data_format *f, uint64_t hash, int64_t bound)
{
	if (f->is_signed)
		return (int64_t)(hash % (uint64_t)(2 * bound + 1)) - bound;
	return (int64_t)(hash % (uint64_t)(bound + 1));
}

/* The sum over all ranks stays within the limit; with very many ranks some bring 0. */
static int64_t data_addend(const struct data_format *f, const struct perf_case *c, int rank, int i,
			   uint64_t hash)
{
	int64_t bound = f->limit / c->nranks;

	if (bound == 0 && (rank + i) % c->nranks >= f->limit)
		return 0;
	return data_within(f, hash, bound ? bound : 1);
}

/* Powers of two, of which few differ from one. */
static int64_t data_factor(const struct perf_case *c, int rank, int i, uint64_t hash)
{
	int64_t power = (rank + i) % c->nranks < DATA_TWOS ? 2 : 1;

	return hash & 1 ? -power : power;
}

static int64_t data_input(const struct data_format *f, const struct perf_case *c, int rank, int i)
{
	uint64_t hash = data_hash((uint64_t)rank, (uint64_t)i);

	if (c->op == COLL_AVG || (f->mantissa && c->op == COLL_SUM))
		return data_addend(f, c, rank, i, hash);
	if (f->mantissa && c->op == COLL_PROD)
		return data_factor(c, rank, i, hash);
	if (f->mantissa)
		return data_within(f, hash, f->limit);
	/* Odd factors never lose bits. */
	return data_wrap(f, c->op == COLL_PROD ? hash | 1 : hash);
}

void perf_input(const struct perf_case *c, int rank, void *table)
{
	const struct data_format *f = data_format(c->dtype);
	size_t width = coll_dtype_size(c->dtype);
	uint64_t bits;

	for (int i = 0; i < PERF_PERIOD; i++) {
		char *out = (char *)table + (size_t)i * width;
		int64_t whole;

		if (c->kind->reduces) {
			whole = data_input(f, c, rank, i);
			data_store(f, (double)whole, whole, out);
		} else {
			/* What is only moved may be any bits. */
			bits = data_hash((uint64_t)rank, (uint64_t)i);
			memcpy(out, &bits, width);
		}
	}
}

/* ----------------------------------------------------------- results -- */

static int64_t data_fold(const struct data_format *f, coll_op_t op, int64_t a, int64_t b)
{
	int less = f->is_signed ? a < b : (uint64_t)a < (uint64_t)b;

	switch (op) {
	case COLL_PROD: return data_wrap(f, (uint64_t)a * (uint64_t)b);
	case COLL_MIN: return less ? a : b;
	case COLL_MAX: return less ? b : a;
	case COLL_BAND: return a & b;
	case COLL_BOR: return a | b;
	case COLL_BXOR: return a ^ b;
	default: return data_wrap(f, (uint64_t)a + (uint64_t)b);
	}
}

void perf_reduced(const struct perf_case *c, void *table)
{
	const struct data_format *f = data_format(c->dtype),
				 *whole_numbers = data_format(COLL_INT64);
	size_t width = coll_dtype_size(c->dtype);

	for (int i = 0; i < PERF_PERIOD; i++) {
		int64_t whole = data_input(f, c, 0, i);
		double x;

		/* A floating-point type's inputs are folded as 64-bit integers: exactly. */
		for (int r = 1; r < c->nranks; r++)
			whole = data_fold(f->mantissa ? whole_numbers : f, c->op, whole,
					  data_input(f, c, r, i));
		x = (double)whole;
		if (c->op == COLL_AVG) {
			x /= c->nranks;
			whole /= c->nranks;
		}
		data_store(f, x, whole, (char *)table + (size_t)i * width);
	}
}

/* ------------------------------------------------- filling, comparing -- */

void perf_fill(void *buffer, const void *table, size_t first, size_t count, size_t width)
{
	char *out = buffer;
	size_t at = first % PERF_PERIOD;

	while (count > 0) {
		size_t n = PERF_PERIOD - at < count ? PERF_PERIOD - at : count;

		memcpy(out, (const char *)table + at * width, n * width);
		out += n * width;
		count -= n;
		at = 0;
	}
}

/*
 * How far a floating-point AVG may lie from the exact quotient: the library rounds once, other
 * engines scale every input before they add.  Types of 8 bits: one unit in the last place, wider
 * ones: one for each rank, of the largest input.
 */
static double data_tolerance(const struct data_format *f, const struct perf_case *c, double exact)
{
	double unit = ldexp(1, -f->mantissa), bound = (double)(f->limit / c->nranks);

	if (f->mantissa == 0 || c->op != COLL_AVG || !c->kind->reduces)
		return 0;
	if (coll_dtype_size(c->dtype) == 1)
		return unit * fmax(fabs(exact), ldexp(1, 2 - (1 << (f->exponent - 1))));
	if ((c->nranks & (c->nranks - 1)) == 0)
		return 0;
	return c->nranks * unit * fmax(fabs(exact), fmax(bound, 1));
}

static int data_equal(const struct data_format *f, const struct perf_case *c, const char *got,
		      const char *wanted)
{
	double x, exact;

	if (memcmp(got, wanted, coll_dtype_size(c->dtype)) == 0)
		return 1;
	exact = f->mantissa ? data_load_float(f, wanted) : 0;
	if (data_tolerance(f, c, exact) == 0)
		return 0;
	x = data_load_float(f, got);
	return fabs(x - exact) <= data_tolerance(f, c, exact);
}

int64_t perf_compare(const struct perf_case *c, const void *buffer, const void *table, size_t first,
		     size_t count)
{
	const struct data_format *f = data_format(c->dtype);
	const char *got = buffer, *wanted;
	size_t at = first % PERF_PERIOD, width = coll_dtype_size(c->dtype);
	int64_t wrong = 0;

	while (count > 0) {
		size_t n = PERF_PERIOD - at < count ? PERF_PERIOD - at : count;

		wanted = (const char *)table + at * width;
		if (memcmp(got, wanted, n * width) != 0)
			for (size_t i = 0; i < n; i++)
				wrong += !data_equal(f, c, got + i * width, wanted + i * width);
		got += n * width;
		count -= n;
		at = 0;
	}
	return wrong;
}
