/* SPDX-License-Identifier: BSD-3-Clause */
/* format.c - formats of numbers, and the reduction of one element. */
#include <math.h>
#include <string.h>
#include "base/tables.h"
#include "oracle/oracle.h"

#define INTEGER(number, name, bytes, since, family, is_signed)                                     \
	{number, bytes, is_signed, 0, 0, 0, 0, 0, 0},
#define FLOAT(number, name, bytes, since, family, ...) {number, bytes, 1, __VA_ARGS__},
#define NUMBER(number, ...)                            number,

const struct oracle_format oracle_formats[] = {DTYPES_INTEGER(INTEGER) DTYPES_BOOL(INTEGER)
						       DTYPES_FLOAT(FLOAT)};
const int oracle_format_count = sizeof(oracle_formats) / sizeof(oracle_formats[0]);

const int32_t oracle_dtypes[] = {DTYPES(NUMBER)};
const int oracle_dtype_count = sizeof(oracle_dtypes) / sizeof(oracle_dtypes[0]);

const int32_t oracle_ops[] = {OPS(NUMBER)};
const int oracle_op_count = sizeof(oracle_ops) / sizeof(oracle_ops[0]);

#define COMPLEX(number, name, bytes, since, family, part_name, part) {number, {part, part}},
#define PAIR(number, name, bytes, since, family, value, index)       {number, {value, index}},

/* The bytes behind an index of 32 bits in 64 are zero in the inputs, so the index is a number of 64 bits. */
static const struct {
	int32_t dtype, part[2];
} format_pairs[] = {DTYPES_COMPLEX(COMPLEX) DTYPES_PAIR(PAIR)};

static enum dtype_family format_family(int32_t dtype)
{
#define FAMILY(number, name, bytes, since, family, ...) [number] = family,
	static const uint8_t families[] = {DTYPES(FAMILY)};

	if (dtype > COLL_OPAQUE)
		return DTYPE_OPAQUE;
	return dtype >= 0 && dtype < (int)sizeof(families) ? families[dtype] : DTYPE_UNKNOWN;
}

static enum op_family format_op_family(int32_t op)
{
#define OP_FAMILY(number, name, since, family) [number] = family,
	static const uint8_t families[] = {OPS(OP_FAMILY)};

	return op >= 0 && op < (int)sizeof(families) ? families[op] : OP_UNKNOWN;
}

int oracle_is_complex(int32_t dtype)
{
	return format_family(dtype) == DTYPE_COMPLEX;
}

int oracle_is_pair(int32_t dtype)
{
	return format_family(dtype) == DTYPE_PAIR;
}

int oracle_parts(int32_t dtype)
{
	switch (format_family(dtype)) {
	case DTYPE_OPAQUE: return dtype - COLL_OPAQUE; /* each byte is a number */
	case DTYPE_COMPLEX:
	case DTYPE_PAIR: return 2;
	default: return 1;
	}
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

	if (format_family(dtype) == DTYPE_OPAQUE)
		dtype = COLL_UINT8;
	if (oracle_parts(dtype) > 1)
		return oracle_part(dtype, 0);
	while (i < oracle_format_count - 1 && oracle_formats[i].dtype != dtype)
		i++;
	return &oracle_formats[i];
}

int oracle_op_is_logical(int32_t op)
{
	return format_op_family(op) == OP_LOGICAL;
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
	const enum op_family ops = format_op_family(op);

	if (op == ORACLE_MOVE)
		return 1;
	switch (format_family(dtype)) {
	case DTYPE_OPAQUE: return 0;
	case DTYPE_PAIR: return ops == OP_LOCATION;
	case DTYPE_COMPLEX: return op == COLL_SUM || op == COLL_PROD || op == COLL_AVG;
	case DTYPE_BOOL: return oracle_op_is_logical(oracle_op_of(op, dtype));
	case DTYPE_INTEGER: return ops != OP_LOCATION;
	default: return ops == OP_ARITHMETIC || op == ORACLE_SCALED;
	}
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

/* Does MIN or MAX take x?  -0 counts as less than 0. */
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
