/* SPDX-License-Identifier: BSD-3-Clause */
/* format.c - formats of numbers, and the reduction of one element. */
#include <math.h>
#include <string.h>
#include "oracle/oracle.h"

const struct oracle_format oracle_formats[ORACLE_FORMATS] = {
	{COLL_INT8, 1, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT8, 1, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT16, 2, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT16, 2, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT32, 4, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT32, 4, 0, 0, 0, 0, 0, 0, 0},
	{COLL_INT64, 8, 1, 0, 0, 0, 0, 0, 0},
	{COLL_UINT64, 8, 0, 0, 0, 0, 0, 0, 0},
	{COLL_BOOL, 1, 0, 0, 0, 0, 0, 0, 0},
	{COLL_FLOAT16, 2, 1, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00},
	{COLL_BFLOAT16, 2, 1, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0},
	{COLL_FLOAT8E4M3, 1, 1, 3, 7, 0x7e, 0x7e, 0x7e, 0x7f},
	{COLL_FLOAT8E5M2, 1, 1, 2, 15, 0x7b, 0x7b, 0x7c, 0x7e},
	{COLL_FLOAT32, 4, 1, 23, 127, 0x7f7fffff, 0x7f800000, 0x7f800000, 0x7fc00000},
	{COLL_FLOAT64, 8, 1, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff0000000000000,
	 0x7ff8000000000000},
};

const int32_t oracle_ops[ORACLE_OPS] = {COLL_SUM,  COLL_PROD,   COLL_MAX,   COLL_MIN,  COLL_AVG,
					COLL_BAND, COLL_BOR,    COLL_BXOR,  COLL_LAND, COLL_LOR,
					COLL_LXOR, COLL_MINLOC, COLL_MAXLOC};

const int32_t oracle_dtypes[ORACLE_DTYPES] = {
	COLL_INT8,        COLL_UINT8,      COLL_INT16,         COLL_UINT16,        COLL_INT32,
	COLL_UINT32,      COLL_INT64,      COLL_UINT64,        COLL_BOOL,          COLL_FLOAT16,
	COLL_BFLOAT16,    COLL_FLOAT8E4M3, COLL_FLOAT8E5M2,    COLL_FLOAT32,       COLL_FLOAT64,
	COLL_COMPLEX64,   COLL_COMPLEX128, COLL_FLOAT32_INT32, COLL_FLOAT64_INT32, COLL_INT32_INT32,
	COLL_INT64_INT32,
};

/* The bytes behind an index of 32 bits in 64 are zero in the inputs, so the index is a number of 64 bits. */
static const struct {
	int32_t dtype, part[2];
} format_pairs[] = {
	{COLL_COMPLEX64, {COLL_FLOAT32, COLL_FLOAT32}},
	{COLL_COMPLEX128, {COLL_FLOAT64, COLL_FLOAT64}},
	{COLL_FLOAT32_INT32, {COLL_FLOAT32, COLL_INT32}},
	{COLL_FLOAT64_INT32, {COLL_FLOAT64, COLL_INT64}},
	{COLL_INT32_INT32, {COLL_INT32, COLL_INT32}},
	{COLL_INT64_INT32, {COLL_INT64, COLL_INT64}},
};

int oracle_is_complex(int32_t dtype)
{
	return dtype == COLL_COMPLEX64 || dtype == COLL_COMPLEX128;
}

int oracle_is_pair(int32_t dtype)
{
	return dtype >= COLL_FLOAT32_INT32 && dtype <= COLL_INT64_INT32;
}

/* The bytes of an element of an opaque type are its numbers; 0: it is another type. */
static int format_opaque(int32_t dtype)
{
	return dtype > COLL_OPAQUE ? dtype - COLL_OPAQUE : 0;
}

int oracle_parts(int32_t dtype)
{
	if (format_opaque(dtype))
		return format_opaque(dtype);
	return oracle_is_complex(dtype) || oracle_is_pair(dtype) ? 2 : 1;
}

const struct oracle_format *oracle_part(int32_t dtype, size_t k)
{
	for (size_t i = 0; i < sizeof(format_pairs) / sizeof(format_pairs[0]); i++)
		if (format_pairs[i].dtype == dtype)
			dtype = format_pairs[i].part[k % 2];
	return oracle_format(dtype);
}

size_t oracle_size(int32_t dtype)
{
	return (size_t)oracle_format(dtype)->size * (size_t)oracle_parts(dtype);
}

const struct oracle_format *oracle_format(int32_t dtype)
{
	int i = 0;

	if (format_opaque(dtype))
		dtype = COLL_UINT8;
	if (oracle_parts(dtype) > 1)
		return oracle_part(dtype, 0);
	while (i < ORACLE_FORMATS - 1 && oracle_formats[i].dtype != dtype)
		i++;
	return &oracle_formats[i];
}

int oracle_op_is_logical(int32_t op)
{
	return op == COLL_LAND || op == COLL_LOR || op == COLL_LXOR;
}

int32_t oracle_op_of(int32_t op, int32_t dtype)
{
	if (dtype != COLL_BOOL)
		return op;
	return op == COLL_SUM || op == COLL_MAX    ? COLL_LOR
	       : op == COLL_PROD || op == COLL_MIN ? COLL_LAND
						   : op;
}

int oracle_op_fits(int32_t op, int32_t dtype)
{
	const int places = op == COLL_MINLOC || op == COLL_MAXLOC;

	if (oracle_is_pair(dtype) || places)
		return oracle_is_pair(dtype) && (places || op == ORACLE_MOVE);
	if (oracle_is_complex(dtype))
		return op == COLL_SUM || op == COLL_PROD || op == COLL_AVG || op == ORACLE_MOVE;
	if (format_opaque(dtype))
		return op == ORACLE_MOVE;
	if (dtype == COLL_BOOL)
		return oracle_op_is_logical(oracle_op_of(op, dtype)) || op == ORACLE_MOVE;
	if (oracle_op_is_logical(op) && oracle_format(dtype)->mantissa)
		return 0;
	return !oracle_format(dtype)->mantissa ||
	       (op != COLL_BAND && op != COLL_BOR && op != COLL_BXOR);
}

uint64_t oracle_load(const struct oracle_format *f, const void *array, size_t i)
{
	uint64_t code = 0;

	memcpy(&code, (const char *)array + i * (size_t)f->size, (size_t)f->size);
	return code;
}

void oracle_store(const struct oracle_format *f, void *array, size_t i, uint64_t code)
{
	memcpy((char *)array + i * (size_t)f->size, &code, (size_t)f->size);
}

uint64_t oracle_sign(const struct oracle_format *f)
{
	return (uint64_t)1 << (8 * f->size - 1);
}

uint64_t oracle_mask(const struct oracle_format *f)
{
	return 2 * (oracle_sign(f) - 1) + 1;
}

/* ------------------------------------------------------------------- floats -- */

int oracle_is_nan(const struct oracle_format *f, uint64_t code)
{
	return f->mantissa && (code & (oracle_sign(f) - 1)) > f->inf;
}

static double format_one(const struct oracle_format *f)
{
	return (double)((uint64_t)1 << f->mantissa);
}

double oracle_value(const struct oracle_format *f, uint64_t code)
{
	double sign = code & oracle_sign(f) ? -1 : 1;
	uint64_t magnitude = code & (oracle_sign(f) - 1);
	int exponent = (int)(magnitude >> f->mantissa);
	double fraction = (double)(magnitude & (((uint64_t)1 << f->mantissa) - 1));

	if (magnitude > f->inf)
		return NAN;
	if (magnitude > f->max)
		return sign * INFINITY;
	if (!exponent)
		return sign * ldexp(fraction, 1 - f->bias - f->mantissa);
	return sign * ldexp(format_one(f) + fraction, exponent - f->bias - f->mantissa);
}

uint64_t oracle_code(const struct oracle_format *f, double x)
{
	uint64_t sign = signbit(x) ? oracle_sign(f) : 0, code;
	double steps;
	int exponent;

	if (!f->mantissa)
		return (uint64_t)(int64_t)x & oracle_mask(f);
	if (isnan(x))
		return f->nan;
	if (x == 0)
		return sign;
	if (isinf(x))
		return sign | f->inf;
	exponent = ilogb(x);
	exponent = exponent < 1 - f->bias ? 1 - f->bias : exponent;
	steps = rint(ldexp(fabs(x), f->mantissa - exponent));
	if (steps < format_one(f))
		return sign | (uint64_t)steps;
	/*
	 * rounding may give twice the steps of format_one: then the addition carries into the
	 * exponent
	 */
	code = ((uint64_t)(exponent + f->bias) << f->mantissa) + (uint64_t)(steps - format_one(f));
	return sign | (code > f->max ? f->over : code);
}

/* Do MIN or MAX take x?  -0 counts as less than 0. */
static int format_takes_first(int32_t op, double x, double y)
{
	int first = x < y || (x == y && signbit(x) > signbit(y));

	return first == (op == COLL_MIN);
}

double oracle_fold(int32_t op, double x, double y)
{
	if (op == COLL_PROD)
		return x * y;
	if (op != COLL_MIN && op != COLL_MAX)
		return x + y;
	if (isnan(x) || isnan(y))
		return NAN;
	return format_takes_first(op, x, y) ? x : y;
}

/*
 * In double the product of two floats is exact, and a sum is precise enough for a second rounding.
 */
static uint64_t format_reduce_float(const struct oracle_format *f, int32_t op, uint64_t a,
				    uint64_t b, int n)
{
	double x = oracle_value(f, a), y = oracle_value(f, b), r;

	r = oracle_fold(op, x, y);
	if (op == COLL_AVG)
		r = f->mantissa == 52 ? x / n : (double)((float)x / (float)n);
	if (f->mantissa < 23)
		r = (double)(float)r;
	return oracle_code(f, r);
}

/* ----------------------------------------------------------------- integers -- */

static int64_t format_signed(const struct oracle_format *f, uint64_t code)
{
	/* a subtraction never gives -2^63 */
	if (code < oracle_sign(f))
		return (int64_t)code;
	return -(int64_t)(oracle_mask(f) - code) - 1;
}

static uint64_t format_reduce_integer(const struct oracle_format *f, int32_t op, uint64_t a,
				      uint64_t b, int n)
{
	int less = f->is_signed ? format_signed(f, a) < format_signed(f, b) : a < b;

	switch (op) {
	case COLL_SUM: return a + b;
	case COLL_PROD: return a * b;
	case COLL_MIN: return less ? a : b;
	case COLL_MAX: return less ? b : a;
	case COLL_BAND: return a & b;
	case COLL_BOR: return a | b;
	case COLL_BXOR: return a ^ b;
	case COLL_LAND: return a && b;
	case COLL_LOR: return a || b;
	case COLL_LXOR: return !a != !b;
	default: return f->is_signed ? (uint64_t)(format_signed(f, a) / n) : a / (unsigned)n;
	}
}

uint64_t oracle_reduce(const struct oracle_format *f, int32_t op, uint64_t a, uint64_t b, int n)
{
	op = oracle_op_of(op, f->dtype);
	return f->mantissa ? format_reduce_float(f, op, a, b, n)
			   : format_reduce_integer(f, op, a, b, n) & oracle_mask(f);
}

void oracle_reduce_all(const struct oracle_format *f, int32_t op, void *dst, const void *left,
		       const void *right, size_t count, int n)
{
	for (size_t i = 0; i < count; i++)
		oracle_store(
			f, dst, i,
			oracle_reduce(f, op, oracle_load(f, left, i), oracle_load(f, right, i), n));
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t oracle_mix(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15 + b * 0xd1b54a32d192ed03 + 1;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}
