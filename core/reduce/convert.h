/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * convert.h - f16, bf16 and fp8 to f32 and back, a vector at a time; the vector types themselves.
 *
 * The file that includes this header defines VEC_BYTES, the size of a vector.  Vectors are the
 * extension that gcc and clang share, so one source serves every instruction set.  Casts between
 * vectors reinterpret bits; comparisons give lanes of all ones or all zeros.
 *
 * Widening is exact.  Narrowing rounds to nearest, ties to even, and keeps subnormals:
 *   f16, bf16    a value that is too large becomes infinity
 *   fp8          a finite value that is too large becomes the largest finite value of its sign: +-448
 *                (e4m3), +-57344 (e5m2), as with CUDA's __NV_SATFINITE, on which the constructors of
 *                __nv_fp8_e4m3 and __nv_fp8_e5m2 rely (CUDA Math API), and so NCCL
 *   infinity     infinity; e4m3, which has none: +-448
 *   any NaN      the type's one positive quiet NaN
 * Only an infinite operand makes an infinite e5m2 result.  CUDA's __NV_SATFINITE turns e5m2 infinities
 * into +-57344 too, which would hide that an input had overflowed.
 * The formats: IEEE 754-2019; OCP 8-bit Floating Point Specification (OFP8) 1.0, in which e5m2 has
 * infinities and e4m3 has none.
 */
#ifndef CORE_REDUCE_CONVERT_H
#define CORE_REDUCE_CONVERT_H

#include <stdint.h>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#define VEC_INLINE static inline __attribute__((always_inline))

typedef int8_t vec_i8 __attribute__((vector_size(VEC_BYTES)));
typedef uint8_t vec_u8 __attribute__((vector_size(VEC_BYTES)));
typedef int16_t vec_i16 __attribute__((vector_size(VEC_BYTES)));
typedef uint16_t vec_u16 __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vec_i32 __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vec_u32 __attribute__((vector_size(VEC_BYTES)));
typedef int64_t vec_i64 __attribute__((vector_size(VEC_BYTES)));
typedef uint64_t vec_u64 __attribute__((vector_size(VEC_BYTES)));
typedef float vec_f32 __attribute__((vector_size(VEC_BYTES)));
typedef double vec_f64 __attribute__((vector_size(VEC_BYTES)));

/* Vectors with as many lanes as a whole vector has lanes of twice or four times their width. */
typedef uint8_t quarter_u8 __attribute__((vector_size(VEC_BYTES / 4)));
typedef uint16_t half_u16 __attribute__((vector_size(VEC_BYTES / 2)));
typedef int32_t half_i32 __attribute__((vector_size(VEC_BYTES / 2)));
typedef uint32_t half_u32 __attribute__((vector_size(VEC_BYTES / 2)));

enum {
	CONVERT_F32_INF = 0x7f800000,
	CONVERT_F32_NAN = 0x7fc00000,
	CONVERT_F32_ONE = 0x00800000 /* one step of the exponent, as a number */
};

/* A small binary float: its width, and the position and bias of its exponent. */
struct convert_format {
	int32_t width, mantissa, bias;
	int32_t max; /* magnitude that replaces every larger finite magnitude */
	int32_t inf; /* magnitude that replaces infinity */
	int32_t nan; /* the positive quiet NaN */
};

static const struct convert_format convert_float16 = {16, 10, 15, 0x7c00, 0x7c00, 0x7e00};
static const struct convert_format convert_float8e4m3 = {8, 3, 7, 0x7e, 0x7e, 0x7f};
static const struct convert_format convert_float8e5m2 = {8, 2, 15, 0x7b, 0x7c, 0x7e};

/* Returns the lanes of `yes` where mask is set, of `no` elsewhere. */
VEC_INLINE vec_i32 convert_select(vec_i32 mask, vec_i32 yes, vec_i32 no)
{
	return no ^ ((yes ^ no) & mask);
}

VEC_INLINE vec_i32 convert_fill(int32_t value)
{
	return value - (vec_i32){0};
}

/*
 * Widen and narrow integers whose values fit.  __builtin_convertvector does the same, but gcc 12 compiles some of these
 * conversions lane by lane.
 */
VEC_INLINE vec_i32 convert_from_u16(half_u16 x)
{
#if VEC_BYTES == 64
	return (vec_i32)_mm512_cvtepu16_epi32((__m256i)x);
#elif VEC_BYTES == 32
	return (vec_i32)_mm256_cvtepu16_epi32((__m128i)x);
#else
	return __builtin_convertvector(x, vec_i32);
#endif
}

VEC_INLINE half_u16 convert_to_u16(vec_i32 x)
{
#if VEC_BYTES == 64
	return (half_u16)_mm512_cvtepi32_epi16((__m512i)x);
#elif VEC_BYTES == 32
	__m256i y = (__m256i)x;

	return (half_u16)_mm_packus_epi32(_mm256_castsi256_si128(y),
					  _mm256_extracti128_si256(y, 1));
#else
	return __builtin_convertvector(x, half_u16);
#endif
}

VEC_INLINE vec_i32 convert_from_u8(quarter_u8 x)
{
#if VEC_BYTES == 64
	return (vec_i32)_mm512_cvtepu8_epi32((__m128i)x);
#elif VEC_BYTES == 32
	return (vec_i32)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)x));
#else
	return convert_from_u16(__builtin_convertvector(x, half_u16));
#endif
}

VEC_INLINE quarter_u8 convert_to_u8(vec_i32 x)
{
#if VEC_BYTES == 64
	return (quarter_u8)_mm512_cvtepi32_epi8((__m512i)x);
#elif VEC_BYTES == 32
	__m128i y = (__m128i)convert_to_u16(x);

	return (quarter_u8)_mm_cvtsi128_si64(_mm_packus_epi16(y, y));
#else
	return __builtin_convertvector(convert_to_u16(x), quarter_u8);
#endif
}

/* Widens magnitudes whose mantissa is at the bits of f32's already.  Infinities and NaNs come out as large numbers. */
VEC_INLINE vec_i32 convert_widen_magnitude(vec_i32 magnitude, struct convert_format f)
{
	const int32_t rebias = (127 - f.bias) * CONVERT_F32_ONE;
	/* Read as normal, a subnormal is too large by exactly the smallest normal number. */
	vec_i32 smallest = convert_fill(rebias + CONVERT_F32_ONE);
	vec_f32 tiny = (vec_f32)(magnitude + smallest) - (vec_f32)smallest;

	return convert_select(magnitude < CONVERT_F32_ONE, (vec_i32)tiny, magnitude + rebias);
}

/* Widens one small float in the low bits of each lane, whose largest exponent means infinity or NaN. */
VEC_INLINE vec_f32 convert_widen_ieee(vec_i32 x, struct convert_format f)
{
	vec_i32 magnitude = (x & ((1 << (f.width - 1)) - 1)) << (23 - f.mantissa);
	vec_i32 sign = (vec_i32)((vec_u32)x >> (f.width - 1) << 31);
	vec_i32 special = magnitude >= ((1 << (f.width - 1 - f.mantissa)) - 1) * CONVERT_F32_ONE;
	vec_i32 wide = convert_widen_magnitude(magnitude, f);

	return (vec_f32)(wide | sign | (special & CONVERT_F32_INF));
}

/*
 * Rounds x to the precision of f by integer arithmetic on its bits: adds half a step, less one bit where the result would
 * be even.  The processor rounds subnormals: added to a number whose last bit is worth as much as theirs, they leave their
 * bits at the end of the sum.
 */
VEC_INLINE vec_i32 convert_narrow(vec_f32 x, struct convert_format f)
{
	const int32_t shift = 23 - f.mantissa;
	vec_i32 bits = (vec_i32)x;
	vec_i32 magnitude = bits & INT32_MAX;
	vec_u32 even = ((vec_u32)magnitude >> shift) & 1;
	vec_u32 sum = (vec_u32)magnitude + ((1u << (shift - 1)) - 1) + even;
	vec_i32 normal = (vec_i32)(sum >> shift) - ((127 - f.bias) << f.mantissa);
	vec_i32 magic = convert_fill((127 + 24 - f.bias - f.mantissa) * CONVERT_F32_ONE);
	vec_i32 tiny = (vec_i32)((vec_f32)magnitude + (vec_f32)magic) - magic;
	vec_i32 max = convert_fill(f.max);
	vec_i32 y;

	y = convert_select(magnitude < (128 - f.bias) * CONVERT_F32_ONE, tiny, normal);
	y = convert_select(y > max, max, y);
	if (f.inf != f.max)
		y = convert_select(magnitude == CONVERT_F32_INF, convert_fill(f.inf), y);
	y |= (vec_i32)((vec_u32)bits >> 31 << (f.width - 1));
	return convert_select(magnitude > CONVERT_F32_INF, convert_fill(f.nan), y);
}

/* Rounds x to a value of f, as convert_narrow and a widening would, but stays in f32.  f has max < inf, or no infinity. */
VEC_INLINE vec_f32 convert_round(vec_f32 x, struct convert_format f)
{
	const int32_t shift = 23 - f.mantissa;
	vec_i32 magnitude = (vec_i32)x & INT32_MAX;
	vec_u32 even = ((vec_u32)magnitude >> shift) & 1;
	vec_u32 sum = (vec_u32)magnitude + ((1u << (shift - 1)) - 1) + even;
	vec_i32 normal = (vec_i32)(sum >> shift << shift);
	vec_f32 magic = (vec_f32)convert_fill((127 + 24 - f.bias - f.mantissa) * CONVERT_F32_ONE);
	vec_i32 tiny = (vec_i32)((vec_f32)magnitude + magic - magic);
	vec_i32 max = convert_fill((f.max << shift) + (127 - f.bias) * CONVERT_F32_ONE);
	vec_i32 special = magnitude >= CONVERT_F32_INF + (f.inf == f.max);
	vec_i32 y = convert_select(magnitude < (128 - f.bias) * CONVERT_F32_ONE, tiny, normal);

	y = convert_select(y > max, max, y);
	y = convert_select(special, magnitude, y);
	return (vec_f32)(y | ((vec_i32)x & INT32_MIN));
}

/*
 * A bf16 is the upper half of an f32.  Each 32-bit lane holds two bf16: a shift widens the low bf16 and a mask
 * the high bf16, so that no element moves from lane to lane.
 */
VEC_INLINE vec_f32 convert_low_bfloat16(vec_u32 x)
{
	return (vec_f32)(x << 16);
}

VEC_INLINE vec_f32 convert_high_bfloat16(vec_u32 x)
{
	return (vec_f32)(x & 0xffff0000);
}

/* NaNs are rare: one comparison of two vectors and a branch cost less than replacing them in each. */
VEC_INLINE int convert_any_nan(vec_f32 x, vec_f32 y)
{
#if VEC_BYTES == 64
	return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_UNORD_Q) != 0;
#elif VEC_BYTES == 32
	return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)y, _CMP_UNORD_Q)) != 0;
#else
	(void)x;
	(void)y;
	return 1;
#endif
}

VEC_INLINE vec_f32 convert_clean(vec_f32 x)
{
	return (vec_f32)convert_select(x != x, convert_fill(CONVERT_F32_NAN), (vec_i32)x);
}

/*
 * Rounds to bf16, in the upper half of each lane; the lower half of the result is arbitrary.  The positive quiet NaN is the
 * only NaN that stays a NaN.
 */
VEC_INLINE vec_u32 convert_upper_bfloat16(vec_f32 x)
{
	vec_u32 bits = (vec_u32)x;

	return bits + 0x7fff + ((bits >> 16) & 1);
}

VEC_INLINE vec_u32 convert_pair_bfloat16(vec_f32 low, vec_f32 high)
{
	if (__builtin_expect(convert_any_nan(low, high), 0)) {
		low = convert_clean(low);
		high = convert_clean(high);
	}
	return convert_upper_bfloat16(low) >> 16 | (convert_upper_bfloat16(high) & 0xffff0000);
}

/*
 * convert_round_NAME(x) narrows to the type NAME and widens again, except for the bits of a NaN.  x is a
 * quotient of a value of the type, so a NaN has no bits beyond the type's and survives the rounding.
 */
VEC_INLINE vec_f32 convert_round_bfloat16(vec_f32 x)
{
	vec_u32 bits = (vec_u32)x;

	return (vec_f32)((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
}

VEC_INLINE vec_f32 convert_from_float16(half_u16 x)
{
#if VEC_BYTES == 64
	return (vec_f32)_mm512_cvtph_ps((__m256i)x);
#elif VEC_BYTES == 32
	return (vec_f32)_mm256_cvtph_ps((__m128i)x);
#else
	return convert_widen_ieee(convert_from_u16(x), convert_float16);
#endif
}

VEC_INLINE half_u16 convert_to_float16(vec_f32 x)
{
	if (__builtin_expect(convert_any_nan(x, x), 0))
		x = convert_clean(x);
#if VEC_BYTES == 64
	return (half_u16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif VEC_BYTES == 32
	return (half_u16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
	return convert_to_u16(convert_narrow(x, convert_float16));
#endif
}

VEC_INLINE vec_f32 convert_round_float16(vec_f32 x)
{
#if VEC_BYTES == 64
	return (vec_f32)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif VEC_BYTES == 32
	return (vec_f32)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
	return convert_widen_ieee(convert_narrow(x, convert_float16), convert_float16);
#endif
}

VEC_INLINE vec_f32 convert_from_float8e4m3(quarter_u8 x)
{
	vec_i32 bits = convert_from_u8(x);
	vec_i32 magnitude = bits & 0x7f;
	vec_i32 wide = convert_widen_magnitude(magnitude << (23 - 3), convert_float8e4m3);

	wide = convert_select(magnitude == 0x7f, convert_fill(CONVERT_F32_NAN), wide);
	return (vec_f32)((vec_u32)wide | (vec_u32)bits >> 7 << 31);
}

VEC_INLINE quarter_u8 convert_to_float8e4m3(vec_f32 x)
{
	return convert_to_u8(convert_narrow(x, convert_float8e4m3));
}

VEC_INLINE vec_f32 convert_round_float8e4m3(vec_f32 x)
{
	return convert_round(x, convert_float8e4m3);
}

VEC_INLINE vec_f32 convert_round_float8e5m2(vec_f32 x)
{
	return convert_round(x, convert_float8e5m2);
}

VEC_INLINE vec_f32 convert_from_float8e5m2(quarter_u8 x)
{
	return convert_widen_ieee(convert_from_u8(x), convert_float8e5m2);
}

VEC_INLINE quarter_u8 convert_to_float8e5m2(vec_f32 x)
{
	return convert_to_u8(convert_narrow(x, convert_float8e5m2));
}

#endif
