/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_types_test.c - the arithmetic of the stand-in for NCCL: every type with every operation, and
 * the bits of sums at the limits of the small floating-point types.
 */
#include <math.h>

#include "nccl_harness.h"

/* 1 and 2 in each type. */
static const uint64_t ones[] = {1, 1, 1, 1, 1, 1, 0x3c00, 0, 0, 0x3f80, 0x38, 0x3c};
static const uint64_t twos[] = {2, 2, 2, 2, 2, 2, 0x4000, 0, 0, 0x4000, 0x40, 0x40};
static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static void type_put(void *at, int dtype, int two)
{
	const float f = two ? 2 : 1;
	const double d = two ? 2 : 1;

	if (dtype == F32)
		memcpy(at, &f, sizeof(f));
	else if (dtype == F64)
		memcpy(at, &d, sizeof(d));
	else
		memcpy(at, two ? &twos[dtype] : &ones[dtype], sizes[dtype]);
}

/* A float format with this many bits of mantissa and this bias of the exponent. */
static double type_small(uint64_t code, int mantissa, int bias)
{
	uint64_t one = 1u << mantissa;

	return ldexp((double)(one + (code & (one - 1))), (int)(code >> mantissa) - bias - mantissa);
}

/* A positive normal number. */
static double type_get(const void *at, int dtype)
{
	uint64_t u = 0;
	double d;
	float f;

	memcpy(&u, at, sizes[dtype]);
	memcpy(&f, at, sizeof(f));
	memcpy(&d, &u, sizeof(d));
	switch (dtype) {
	case F16: return type_small(u, 10, 15);
	case F32: return f;
	case F64: return d;
	case BF16: return type_small(u, 7, 127);
	case E4M3: return type_small(u, 3, 7);
	case E5M2: return type_small(u, 2, 15);
	default: return (double)u;
	}
}

/* Rank 0 has 1, the other ranks have 2. */
static double type_wanted(int n, int op, int dtype)
{
	double sum = 2.0 * n - 1;

	switch (op) {
	case SUM: return sum;
	case PROD: return ldexp(1, n - 1);
	case MAX: return n > 1 ? 2 : 1;
	case MIN: return 1;
	default: return dtype < F16 ? floor(sum / n) : sum / n;
	}
}

/* NCCL does not multiply float8 on one rank: see float8_alone. */
static int type_lacks(const struct me *me, int dtype)
{
	return me->n == 1 && dtype >= E4M3;
}

static int float8_alone(struct me *me)
{
	char *at = device_new(me, 64);

	WANT(ncclAllReduce(at, at, 1, E4M3, AVG, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(done(me, ncclAllReduce(at, at, 1, E4M3, SUM, me->comm, me->stream)) == 0);
	device_free(me, at);
	return 0;
}

static int types(struct me *me)
{
	unsigned char host[8 + sizeof(double)] = {0};
	char *at = device_new(me, 64);
	int dtype, op, scaled, two = me->rank > 0;

	for (dtype = 0; dtype <= E5M2; dtype++) {
		for (op = SUM; op < OPS; op++) {
			if (op == AVG && type_lacks(me, dtype))
				continue;
			type_put(host, dtype, two);
			copy(me, at, host, 8);
			WANT(done(me, ncclAllReduce(at, at, 1, dtype, op, me->comm, me->stream)) ==
			     0);
			copy(me, host, at, 8);
			WANT(type_get(host, dtype) == type_wanted(me->n, op, dtype));
		}
		/* The scalar is 2, once in host memory and once in device memory. */
		for (op = 0; op < 2 && !type_lacks(me, dtype); op++) {
			type_put(host, dtype, 1);
			copy(me, at + 32, host, 8);
			WANT(ncclRedOpCreatePreMulSum(&scaled, op ? (void *)host : at + 32, dtype,
						      op, me->comm) == 0);
			type_put(host, dtype, two);
			copy(me, at, host, 8);
			WANT(done(me, ncclAllReduce(at, at, 1, dtype, scaled, me->comm,
						    me->stream)) == 0);
			WANT(ncclRedOpDestroy(scaled, me->comm) == 0);
			WANT(ncclRedOpDestroy(scaled, me->comm) == NCCL_INVALID_ARGUMENT);
			copy(me, host, at, 8);
			WANT(type_get(host, dtype) == 2 * type_wanted(me->n, SUM, dtype));
		}
	}
	device_free(me, at);
	return 0;
}

/* Sums of two, by their bits. */
struct sum {
	int dtype;
	uint32_t a, b, wanted;
	const char *what;
};

static const struct sum sums[] = {
	{F16, 0x6800, 0x3c00, 0x6800, "f16: 2048 + 1 is a tie, to 2048"},
	{F16, 0x6801, 0x3c00, 0x6802, "f16: 2050 + 1 is a tie, to 2052"},
	{F16, 0x7bff, 0x7bff, 0x7c00, "f16: too large is infinite"},
	{F16, 0x0001, 0x0001, 0x0002, "f16: the smallest twice"},
	{F16, 0x03ff, 0x0001, 0x0400, "f16: from subnormal to normal"},
	{F16, 0x3c00, 0xbc00, 0x0000, "f16: 1 - 1"},
	{BF16, 0x4380, 0x3f80, 0x4380, "bf16: 256 + 1 is a tie, to 256"},
	{BF16, 0x7f7f, 0x7f7f, 0x7f80, "bf16: too large is infinite"},
	{BF16, 0x0001, 0x0001, 0x0002, "bf16: the smallest twice"},
	{E4M3, 0x7e, 0x7e, 0x7e, "e4m3: too large is the largest"},
	{E4M3, 0x58, 0x38, 0x58, "e4m3: 16 + 1 is a tie, to 16"},
	{E4M3, 0x07, 0x01, 0x08, "e4m3: from subnormal to normal"},
	{E4M3, 0x7f, 0x38, 0x7f, "e4m3: what is not a number stays so"},
	{E5M2, 0x7b, 0x7b, 0x7b, "e5m2: too large is the largest"},
	{E5M2, 0x48, 0x3c, 0x48, "e5m2: 8 + 1 is a tie, to 8"},
	{E5M2, 0x03, 0x01, 0x04, "e5m2: from subnormal to normal"},
	{F32, 0x4b800000, 0x3f800000, 0x4b800000, "f32: 2^24 + 1 is a tie, to 2^24"},
	{0, 0x7f, 0x01, 0x80, "i8: goes round"},
};

static int bits(struct me *me)
{
	uint32_t host;
	char *at = device_new(me, 8);
	size_t i;

	for (i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		host = me->rank ? sums[i].b : sums[i].a;
		copy(me, at, &host, 4);
		WANT(done(me, ncclAllReduce(at, at, 1, sums[i].dtype, SUM, me->comm, me->stream)) ==
		     0);
		copy(me, &host, at, 4);
		if (memcmp(&host, &sums[i].wanted, sizes[sums[i].dtype]))
			want_failed(me, (int)host, sums[i].what);
	}
	device_free(me, at);
	return 0;
}

/* The sum is exact in no type, but all ranks have the same bits. */
static int same(struct me *me)
{
	enum { N = 1000 };
	float *all = malloc(sizeof(float) * N * RANKS);
	char *from = device_new(me, sizeof(float) * N), *to = device_new(me, sizeof(float) * N * 4);
	int i, r;

	for (i = 0; i < N; i++)
		all[i] = 1.0f / (float)(i + 7 * me->rank + 1);
	copy(me, from, all, sizeof(float) * N);
	WANT(done(me, ncclAllReduce(from, from, N, F32, AVG, me->comm, me->stream)) == 0);
	WANT(done(me, ncclAllGather(from, to, N, F32, me->comm, me->stream)) == 0);
	copy(me, all, to, sizeof(float) * N * (size_t)me->n);
	for (r = 1; r < me->n; r++)
		WANT(memcmp(all, all + r * N, sizeof(float) * N) == 0);
	device_free(me, from);
	device_free(me, to);
	free(all);
	return 0;
}

static void test_types(void)
{
	is_int(in_threads(1, 0, rank_main, types), 0, "1 rank: every type and operation");
	is_int(in_threads(1, 1, rank_main, float8_alone), 0, "1 rank: no average of float8");
	is_int(in_threads(4, 0, rank_main, types), 0, "4 ranks: every type and operation");
	is_int(in_threads(2, 0, rank_main, bits), 0, "sums have the bits they should have");
	is_int(in_threads(3, 1, rank_main, same), 0, "means have the same bits on all ranks");
}

int main(void)
{
	setenv("STANDIN_CUDA_DEVICES", "8", 1);
	test_types();
	return done_testing();
}
