/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_reduce.c - arithmetic: reduces element by element for every type and operation, in the order
 * of ranks, rounding after each step.  A double represents sums and products of two f32, f16, bf16
 * or fp8 well enough that rounding it to the type gives the result of the type's own arithmetic.
 */
#include <math.h>
#include <string.h>

#include "nccl_parts.h"

/* ncclDataType_t */
enum { T_I8, T_U8, T_I32, T_U32, T_I64, T_U64, T_F16, T_F32, T_F64, T_BF16, T_E4M3, T_E5M2 };

/* A floating-point format of at most 16 bits. */
struct small {
	int mantissa, bias; /* number of bits, and the bias of the exponent */
	unsigned bytes;
	unsigned sign;    /* its bit */
	unsigned largest; /* code of the largest finite number */
	unsigned over;    /* code of the result of an overflow */
	unsigned nan;
};

union number {
	uint64_t u;
	int64_t i;
	double f;
};

static const unsigned reduce_sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

size_t reduce_size(int dtype)
{
	return reduce_sizes[dtype];
}

static int reduce_is_float(int dtype)
{
	return dtype >= T_F16;
}

static int reduce_is_signed(int dtype)
{
	return dtype == T_I8 || dtype == T_I32 || dtype == T_I64;
}

/* fp8 as in OCP's "8-bit Floating Point Specification"; NCCL lets it saturate. */
static const struct small *reduce_small(int dtype)
{
	static const struct small f16 = {10, 15, 2, 0x8000, 0x7bff, 0x7c00, 0x7e00};
	static const struct small bf16 = {7, 127, 2, 0x8000, 0x7f7f, 0x7f80, 0x7fc0};
	static const struct small e4m3 = {3, 7, 1, 0x80, 0x7e, 0x7e, 0x7f};
	static const struct small e5m2 = {2, 15, 1, 0x80, 0x7b, 0x7b, 0x7f};

	switch (dtype) {
	case T_F16: return &f16;
	case T_BF16: return &bf16;
	case T_E4M3: return &e4m3;
	case T_E5M2: return &e5m2;
	default: return NULL;
	}
}

static double small_decode(unsigned code, const struct small *type)
{
	unsigned bits = code & (type->sign - 1), one = 1u << type->mantissa;
	int exponent = (int)(bits >> type->mantissa);
	double value;

	if (bits > type->largest)
		value = bits == type->largest + 1 && type->nan != bits ? INFINITY : NAN;
	else if (exponent)
		value = ldexp((bits & (one - 1)) | one, exponent - type->bias - type->mantissa);
	else
		value = ldexp(bits, 1 - type->bias - type->mantissa);
	return code & type->sign ? -value : value;
}

/* Rounds to nearest even; a carry out of the mantissa correctly increments the exponent. */
static unsigned small_encode(double value, const struct small *type)
{
	unsigned sign = signbit(value) ? type->sign : 0;
	double size = fabs(value), code;
	int exponent = 1 - type->bias;

	if (isnan(value))
		return type->nan;
	if (isinf(value))
		return sign | type->over;
	if (size > 0 && ilogb(size) > exponent)
		exponent = ilogb(size);
	code = rint(ldexp(size, type->mantissa - exponent)) +
	       ldexp(exponent + type->bias - 1, type->mantissa);
	return sign | (code > type->largest ? type->over : (unsigned)code);
}

static union number reduce_load(const unsigned char *at, int dtype)
{
	const struct small *small = reduce_small(dtype);
	size_t bits = 8 * reduce_size(dtype);
	union number x = {0};
	float f32;

	if (dtype == T_F32) {
		memcpy(&f32, at, sizeof(f32));
		x.f = f32;
	} else {
		memcpy(&x.u, at, reduce_size(dtype));
		if (small)
			x.f = small_decode((unsigned)x.u, small);
		else if (reduce_is_signed(dtype) && bits < 64 && x.u >> (bits - 1))
			x.u |= UINT64_MAX << bits;
	}
	return x;
}

static void reduce_store(unsigned char *at, union number x, int dtype)
{
	const struct small *small = reduce_small(dtype);
	float f32;

	if (dtype == T_F32) {
		f32 = (float)x.f;
		memcpy(at, &f32, sizeof(f32));
		return;
	}
	if (small)
		x.u = small_encode(x.f, small);
	memcpy(at, &x.u, reduce_size(dtype));
}

static union number reduce_round(union number x, int dtype)
{
	unsigned char bytes[8];

	reduce_store(bytes, x, dtype);
	return reduce_load(bytes, dtype);
}

static union number reduce_floats(union number a, union number b, int op)
{
	switch (op) {
	case OP_PROD: a.f *= b.f; break;
	case OP_MAX: a.f = fmax(a.f, b.f); break;
	case OP_MIN: a.f = fmin(a.f, b.f); break;
	default: a.f += b.f; break;
	}
	return a;
}

static union number reduce_ints(union number a, union number b, int dtype, int op)
{
	int less = reduce_is_signed(dtype) ? a.i < b.i : a.u < b.u;

	switch (op) {
	case OP_PROD: a.u *= b.u; break;
	case OP_MAX: a = less ? b : a; break;
	case OP_MIN: a = less ? a : b; break;
	default: a.u += b.u; break;
	}
	return a;
}

static union number reduce_two(union number a, union number b, int dtype, int op)
{
	if (reduce_is_float(dtype))
		return reduce_round(reduce_floats(a, b, op), dtype);
	return reduce_round(reduce_ints(a, b, dtype, op), dtype);
}

/* NCCL's mean: multiplies floats by 1/n first, divides integers at the end. */
static union number reduce_part(int n, int dtype)
{
	union number part;

	part.f = 1.0 / n;
	return reduce_round(part, dtype);
}

static union number reduce_mean(union number sum, int n, int dtype)
{
	if (reduce_is_signed(dtype))
		sum.i /= n;
	else
		sum.u /= (uint64_t)n;
	return sum;
}

void reduce_scale(void *dst, const unsigned char *src, size_t count, int dtype,
		  const struct redop *op)
{
	union number scalar = reduce_load(op->bits, dtype), x;
	size_t i, size = reduce_size(dtype);

	for (i = 0; i < count; i++) {
		x = reduce_two(reduce_load(src + i * size, dtype), scalar, dtype, OP_PROD);
		reduce_store((unsigned char *)dst + i * size, x, dtype);
	}
}

/* A fast path for the most frequent cases, without function calls for each element. */
static void reduce_sum_f32(unsigned char *dst, unsigned char *const src[], int n, size_t count)
{
	size_t i;
	float x, sum;
	int r;

	for (i = 0; i < count; i++) {
		memcpy(&sum, src[0] + i * sizeof(x), sizeof(x));
		for (r = 1; r < n; r++) {
			memcpy(&x, src[r] + i * sizeof(x), sizeof(x));
			sum += x;
		}
		memcpy(dst + i * sizeof(x), &sum, sizeof(x));
	}
}

void reduce_block(void *dst, unsigned char *const src[], int n, size_t count, int dtype,
		  const struct redop *op)
{
	int mean = op->op == OP_AVG && !reduce_is_float(dtype);
	int scaled = op->op == OP_AVG && !mean, r;
	size_t i, size = reduce_size(dtype);
	union number part = {0}, x, sum;

	if (dtype == T_F32 && op->op == OP_SUM) {
		reduce_sum_f32(dst, src, n, count);
		return;
	}
	if (scaled)
		part = reduce_part(n, dtype);
	for (i = 0; i < count; i++) {
		sum.u = 0;
		for (r = 0; r < n; r++) {
			x = reduce_load(src[r] + i * size, dtype);
			if (scaled)
				x = reduce_two(x, part, dtype, OP_PROD);
			sum = r ? reduce_two(sum, x, dtype, op->op) : x;
		}
		if (mean)
			sum = reduce_mean(sum, n, dtype);
		reduce_store((unsigned char *)dst + i * size, sum, dtype);
	}
}
