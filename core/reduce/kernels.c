/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.c - every data type times every operation, for one instruction set.
 *
 * The build compiles this file once for each set: with -DREDUCE_AVX512 or -DREDUCE_AVX2 and the
 * compiler's flags for the set, or with neither.  Element i of a result depends on element i of the
 * inputs only, never on its lane in a vector, the alignment or the instruction set.  The end of a
 * buffer takes the same path as the rest.  Every NaN that an operation gives is the one positive
 * quiet NaN of its type; hardware would pass on the NaN of either operand, as the compiler happens
 * to order them.
 */
#include <string.h>
#include "reduce/kernels.h"

#if defined(REDUCE_AVX512)
#define REDUCE_TABLE reduce_avx512
#define REDUCE_ISA   "avx512"
#define VEC_BYTES    64
#elif defined(REDUCE_AVX2)
#define REDUCE_TABLE reduce_avx2
#define REDUCE_ISA   "avx2"
#define VEC_BYTES    32
#else
#define REDUCE_TABLE reduce_generic
#define REDUCE_ISA   "generic"
#define VEC_BYTES    16
#endif

#include "reduce/convert.h"

#if defined(__FAST_MATH__)
#error "NaNs and exact rounding are part of the contract: build without -ffast-math"
#endif

enum { KERNEL_ALIGN_FROM = 4096 }; /* bytes from which on aligned stores save time */

/* One vector of a kernel. */
typedef void (*kernel_step)(void *dst, const void *left, const void *right, int n);

/*
 * Reduces one or two 32-bit words, the most frequent small arrays, in a register.  A vector that is read from memory where
 * a word has just been written makes the processor wait for the write.
 */
VEC_INLINE void kernel_words(void *dst, const void *left, const void *right, size_t bytes, int n,
			     kernel_step step)
{
	vec_u64 a = {0}, b = {0};
	uint64_t words[2] = {0};

	if (bytes == sizeof(words[0])) {
		memcpy(&words[0], left, sizeof(words[0]));
		memcpy(&words[1], right, sizeof(words[1]));
	} else {
		memcpy(&words[0], left, sizeof(uint32_t));
		memcpy(&words[1], right, sizeof(uint32_t));
	}
	a[0] = words[0];
	b[0] = words[1];
	step(&a, &a, &b, n);
	words[0] = a[0];
	if (bytes == sizeof(words[0]))
		memcpy(dst, &words[0], sizeof(words[0]));
	else
		memcpy(dst, &words[0], sizeof(uint32_t));
}

/* Reduces less than a vector. */
VEC_INLINE void kernel_part(unsigned char *dst, const unsigned char *left,
			    const unsigned char *right, size_t bytes, int n, kernel_step step)
{
	unsigned char a[VEC_BYTES] = {0}, b[VEC_BYTES] = {0};

	memcpy(a, left, bytes);
	memcpy(b, right, bytes);
	step(a, a, b, n);
	memcpy(dst, a, bytes);
}

VEC_INLINE void kernel_loop(void *dst, const void *left, const void *right, size_t bytes, int n,
			    size_t size, size_t element, kernel_step step)
{
	const unsigned char *l = left, *r = right;
	unsigned char *d = dst;
	size_t head = -(uintptr_t)d % size;

	if (bytes == 4 || (bytes == 8 && size >= 8)) {
		kernel_words(dst, left, right, bytes, n, step);
		return;
	}
	/* Stores that cross cache lines are slow; in place the loads are slow too. */
	if (head && head % element == 0 && bytes >= KERNEL_ALIGN_FROM) {
		kernel_part(d, l, r, head, n, step);
		bytes -= head;
		d += head;
		l += head;
		r += head;
	}
	for (; bytes >= size; bytes -= size, d += size, l += size, r += size)
		step(d, l, r, n);
	if (bytes)
		kernel_part(d, l, r, bytes, n, step);
}

/* Defines the function `name`, which computes expr from the vectors a and b (and the number n). */
#define KERNEL(name, vec, expr)                                                                    \
	VEC_INLINE void name##_step(void *dst, const void *left, const void *right, int n)         \
	{                                                                                          \
		vec a, b, result;                                                                  \
                                                                                                   \
		(void)n;                                                                           \
		memcpy(&a, left, sizeof(a));                                                       \
		memcpy(&b, right, sizeof(b));                                                      \
		result = (expr);                                                                   \
		memcpy(dst, &result, sizeof(result));                                              \
	}                                                                                          \
	static void name(void *dst, const void *left, const void *right, size_t bytes, int n)      \
	{                                                                                          \
		kernel_loop(dst, left, right, bytes, n, sizeof(vec), sizeof((vec){0}[0]),          \
			    name##_step);                                                          \
	}

/* Lanes of `yes` where mask is set; all three are of one integer type. */
#define SELECT(mask, yes, no) ((no) ^ (((yes) ^ (no)) & (mask)))

/* Zero is false, every other value true; a comparison gives lanes of all ones or all zeros. */
#define LOGICAL(name, vec)                                                                         \
	KERNEL(name##_land, vec, (vec)((a != 0) & (b != 0)) & 1)                                   \
	KERNEL(name##_lor, vec, (vec)((a | b) != 0) & 1)                                           \
	KERNEL(name##_lxor, vec, (vec)((a != 0) ^ (b != 0)) & 1)

#define CONVERT(x, type) __builtin_convertvector(x, type)

/* Integers: arithmetic on unsigned lanes wraps; `typed` lanes compare with their sign. */
#define INTEGER(name, vec, typed)                                                                  \
	KERNEL(name##_sum, vec, a + b)                                                             \
	KERNEL(name##_prod, vec, (a * b))                                                          \
	KERNEL(name##_max, vec, SELECT((vec)((typed)a > (typed)b), a, b))                          \
	KERNEL(name##_min, vec, SELECT((vec)((typed)a < (typed)b), a, b))                          \
	KERNEL(name##_band, vec, (a & b))                                                          \
	KERNEL(name##_bor, vec, a | b)                                                             \
	KERNEL(name##_bxor, vec, a ^ b)                                                            \
	LOGICAL(name, vec)

/*
 * Floats of any width compare by their bits: with the magnitude of negative floats inverted they
 * order as integers do, -0 before +0.  So the result is one of the inputs unchanged and does not
 * depend on their order.  A magnitude above `inf` is a NaN.
 */
#define FLOAT_ORDER(name, vec, typed, inf, nan)                                                    \
	VEC_INLINE typed name##_key(vec x)                                                         \
	{                                                                                          \
		return (typed)(x ^ ((vec)((typed)x >> (8 * sizeof(x[0]) - 1)) >> 1));              \
	}                                                                                          \
	VEC_INLINE typed name##_is_nan(vec x)                                                      \
	{                                                                                          \
		return (typed)(x << 1 >> 1) > inf;                                                 \
	}                                                                                          \
	VEC_INLINE vec name##_clean(vec x, typed bad)                                              \
	{                                                                                          \
		return SELECT((vec)bad, (vec){0} + nan, x);                                        \
	}                                                                                          \
	KERNEL(name##_max, vec,                                                                    \
	       name##_clean(SELECT((vec)(name##_key(a) > name##_key(b)), a, b),                    \
			    name##_is_nan(a) | name##_is_nan(b)))                                  \
	KERNEL(name##_min, vec,                                                                    \
	       name##_clean(SELECT((vec)(name##_key(a) < name##_key(b)), a, b),                    \
			    name##_is_nan(a) | name##_is_nan(b)))

/* A float that the processor computes with; bits and typed: its lanes as integers, unsigned and signed. */
#define WIDE(name, vec, bits, typed, scalar, inf, nan)                                             \
	FLOAT_ORDER(name, bits, typed, inf, nan)                                                   \
	VEC_INLINE vec name##_tidy(vec x)                                                          \
	{                                                                                          \
		return (vec)SELECT((bits)(x != x), (bits){0} + nan, (bits)x);                      \
	}                                                                                          \
	KERNEL(name##_sum, vec, name##_tidy(a + b))                                                \
	KERNEL(name##_prod, vec, name##_tidy((a * b)))                                             \
	KERNEL(name##_divide, vec, name##_tidy(a / (scalar)n))                                     \
	KERNEL(name##_scaled_sum, vec, name##_tidy(a / (scalar)n + b))                             \
	KERNEL(name##_scaled_pair, vec, name##_tidy(a / (scalar)n + b / (scalar)n))

/* Computes in f32.  The narrowing also replaces NaNs by the positive quiet NaN. */
#define NARROW(name, vec)                                                                          \
	KERNEL(name##_sum, vec,                                                                    \
	       convert_to_##name(convert_from_##name(a) + convert_from_##name(b)))                 \
	KERNEL(name##_prod, vec,                                                                   \
	       convert_to_##name(convert_from_##name(a) * convert_from_##name(b)))                 \
	KERNEL(name##_divide, vec, convert_to_##name(convert_from_##name(a) / (float)n))           \
	KERNEL(name##_scaled_sum, vec,                                                             \
	       convert_to_##name(convert_round_##name(convert_from_##name(a) / (float)n) +         \
				 convert_from_##name(b)))                                          \
	KERNEL(name##_scaled_pair, vec,                                                            \
	       convert_to_##name(convert_round_##name(convert_from_##name(a) / (float)n) +         \
				 convert_round_##name(convert_from_##name(b) / (float)n)))

/* Computes in f32 on the two bf16 of each 32-bit lane. */
#define PAIR(expr)                                                                                 \
	convert_pair_bfloat16(expr(convert_low_bfloat16(a), convert_low_bfloat16(b), (float)n),    \
			      expr(convert_high_bfloat16(a), convert_high_bfloat16(b), (float)n))
#define PAIR_SUM(x, y, n)    ((x) + (y))
#define PAIR_PROD(x, y, n)   ((x) * (y))
#define PAIR_DIVIDE(x, y, n) ((x) / (n))
#define PAIR_SCALED(x, y, n) (convert_round_bfloat16((x) / (n)) + (y))
#define PAIR_BOTH(x, y, n)   (convert_round_bfloat16((x) / (n)) + convert_round_bfloat16((y) / (n)))

KERNEL(bfloat16_sum, vec_u32, PAIR(PAIR_SUM))
KERNEL(bfloat16_prod, vec_u32, PAIR(PAIR_PROD))
KERNEL(bfloat16_divide, vec_u32, PAIR(PAIR_DIVIDE))
KERNEL(bfloat16_scaled_sum, vec_u32, PAIR(PAIR_SCALED))
KERNEL(bfloat16_scaled_pair, vec_u32, PAIR(PAIR_BOTH))

/* Whole quotients are exact: the type of the division has bits enough to tell k from k - 1/n. */
VEC_INLINE vec_i32 kernel_divide(vec_i32 x, int n)
{
	return CONVERT(CONVERT(x, vec_f32) / (float)n, vec_i32);
}

INTEGER(int8, vec_u8, vec_i8)
INTEGER(uint8, vec_u8, vec_u8)
INTEGER(int16, vec_u16, vec_i16)
INTEGER(uint16, vec_u16, vec_u16)
INTEGER(int32, vec_u32, vec_i32)
INTEGER(uint32, vec_u32, vec_u32)
INTEGER(int64, vec_u64, vec_i64)
INTEGER(uint64, vec_u64, vec_u64)
LOGICAL(bool, vec_u8)

/* Extends the sign of a narrower integer, which has `shift` bits less, to the left. */
VEC_INLINE vec_i32 kernel_sign(vec_i32 x, int shift)
{
	return (vec_i32)((vec_u32)x << shift) >> shift;
}

KERNEL(int8_divide, quarter_u8,
       convert_to_u8(kernel_divide(kernel_sign(convert_from_u8(a), 24), n) & 0xff))
KERNEL(uint8_divide, quarter_u8, convert_to_u8(kernel_divide(convert_from_u8(a), n)))
KERNEL(int16_divide, half_u16,
       convert_to_u16(kernel_divide(kernel_sign(convert_from_u16(a), 16), n) & 0xffff))
KERNEL(uint16_divide, half_u16, convert_to_u16(kernel_divide(convert_from_u16(a), n)))
KERNEL(int32_divide, half_i32, CONVERT(CONVERT(a, vec_f64) / (double)n, half_i32))
KERNEL(uint32_divide, half_u32, CONVERT(CONVERT(a, vec_f64) / (double)n, half_u32))
KERNEL(int64_divide, vec_i64, a / (int64_t)n)
KERNEL(uint64_divide, vec_u64, a / (uint64_t)n)

FLOAT_ORDER(float16, vec_u16, vec_i16, 0x7c00, 0x7e00)
FLOAT_ORDER(bfloat16, vec_u16, vec_i16, 0x7f80, 0x7fc0)
FLOAT_ORDER(float8e4m3, vec_u8, vec_i8, 0x7e, 0x7f)
FLOAT_ORDER(float8e5m2, vec_u8, vec_i8, 0x7c, 0x7e)

NARROW(float16, half_u16)
NARROW(float8e4m3, quarter_u8)
NARROW(float8e5m2, quarter_u8)
WIDE(float32, vec_f32, vec_u32, vec_i32, float, 0x7f800000, 0x7fc00000)
WIDE(float64, vec_f64, vec_u64, vec_i64, double, 0x7ff0000000000000, 0x7ff8000000000000)

/* ------------------------------------------------------- elements of two numbers -- */

/* Defines the function `name`, which computes element by element: x = fn(x, y). */
#define ELEMENTS(name, type, fn)                                                                   \
	VEC_INLINE void name##_step(void *dst, const void *left, const void *right, int n)         \
	{                                                                                          \
		type x[VEC_BYTES / sizeof(type)], y[VEC_BYTES / sizeof(type)];                     \
                                                                                                   \
		(void)n;                                                                           \
		memcpy(x, left, sizeof(x));                                                        \
		memcpy(y, right, sizeof(y));                                                       \
		for (size_t i = 0; i < VEC_BYTES / sizeof(type); i++)                              \
			x[i] = fn(x[i], y[i]);                                                     \
		memcpy(dst, x, sizeof(x));                                                         \
	}                                                                                          \
	static void name(void *dst, const void *left, const void *right, size_t bytes, int n)      \
	{                                                                                          \
		kernel_loop(dst, left, right, bytes, n, VEC_BYTES, sizeof(type), name##_step);     \
	}

/*
 * The product of complex numbers; every other operation works on the parts.  The real part is a sum, no difference:
 * from a difference beside a sum gcc 12 makes a fused instruction in spite of -ffp-contract=off.
 */
#define COMPLEX(name, real, nan)                                                                   \
	struct name {                                                                              \
		real re, im;                                                                       \
	};                                                                                         \
	VEC_INLINE struct name name##_times(struct name x, struct name y)                          \
	{                                                                                          \
		struct name z = {(x.re * y.re) + (-x.im * y.im), (x.re * y.im) + (x.im * y.re)};   \
                                                                                                   \
		z.re = z.re == z.re ? z.re : (real)nan;                                            \
		z.im = z.im == z.im ? z.im : (real)nan;                                            \
		return z;                                                                          \
	}                                                                                          \
	ELEMENTS(name##_prod, struct name, name##_times)

COMPLEX(complex64, float, __builtin_nanf(""))
COMPLEX(complex128, double, __builtin_nan(""))

/*
 * Pairs of a value and an index.  The keys of values compare as signed integers.  The key of a NaN is
 * below (for MINLOC) or above (for MAXLOC) all other keys.
 */
#define PAIR_OF(name, bits, other)                                                                 \
	struct name {                                                                              \
		bits value;                                                                        \
		int32_t index;                                                                     \
		other                                                                              \
	};                                                                                         \
	VEC_INLINE struct name name##_least(struct name x, struct name y)                          \
	{                                                                                          \
		bits a = name##_key(&x.value, 0), b = name##_key(&y.value, 0);                     \
                                                                                                   \
		return a < b || (a == b && x.index <= y.index) ? x : y;                            \
	}                                                                                          \
	VEC_INLINE struct name name##_greatest(struct name x, struct name y)                       \
	{                                                                                          \
		bits a = name##_key(&x.value, 1), b = name##_key(&y.value, 1);                     \
                                                                                                   \
		return a > b || (a == b && x.index <= y.index) ? x : y;                            \
	}                                                                                          \
	ELEMENTS(name##_minloc, struct name, name##_least)                                         \
	ELEMENTS(name##_maxloc, struct name, name##_greatest)

/* Returns the key of a float's bits, and replaces a NaN by the positive quiet one. */
#define FLOAT_KEY(name, bits, sign, inf, nan)                                                      \
	VEC_INLINE bits name##_key(bits *value, int greatest)                                      \
	{                                                                                          \
		bits magnitude = *value & ~(sign);                                                 \
                                                                                                   \
		if (magnitude > (inf)) {                                                           \
			*value = (nan);                                                            \
			return greatest ? ~(sign) : (sign);                                        \
		}                                                                                  \
		return *value < 0 ? ~magnitude : magnitude;                                        \
	}

#define INTEGER_KEY(name, bits)                                                                    \
	VEC_INLINE bits name##_key(const bits *value, int greatest)                                \
	{                                                                                          \
		(void)greatest;                                                                    \
		return *value;                                                                     \
	}

FLOAT_KEY(float32_int32, int32_t, INT32_MIN, 0x7f800000, 0x7fc00000)
FLOAT_KEY(float64_int32, int64_t, INT64_MIN, 0x7ff0000000000000, 0x7ff8000000000000)
INTEGER_KEY(int32_int32, int32_t)
INTEGER_KEY(int64_int32, int64_t)
PAIR_OF(float32_int32, int32_t, )
PAIR_OF(float64_int32, int64_t, int32_t rest;)
PAIR_OF(int32_int32, int32_t, )
PAIR_OF(int64_int32, int64_t, int32_t rest;)

/* ----------------------------------------------------------------------- the table -- */

/* One row for each type of base/tables.h, by the family of the type. */
#define COMPLEX_ROW(number, name, bytes, since, family, part, ...)                                 \
	[REDUCE_##number] = {                                                                      \
		[REDUCE_COLL_SUM] = part##_sum,                                                    \
		[REDUCE_COLL_PROD] = name##_prod,                                                  \
		[REDUCE_DIVIDE] = part##_divide,                                                   \
		[REDUCE_SCALED_SUM] = part##_scaled_sum,                                           \
		[REDUCE_SCALED_PAIR] = part##_scaled_pair,                                         \
	},

#define PAIR_ROW(number, name, ...)                                                                \
	[REDUCE_##number] = {                                                                      \
		[REDUCE_COLL_MINLOC] = name##_minloc,                                              \
		[REDUCE_COLL_MAXLOC] = name##_maxloc,                                              \
	},

#define ARITHMETIC_COLUMNS(name)                                                                   \
	[REDUCE_COLL_SUM] = name##_sum, [REDUCE_COLL_PROD] = name##_prod,                          \
	[REDUCE_COLL_MAX] = name##_max, [REDUCE_COLL_MIN] = name##_min,                            \
	[REDUCE_DIVIDE] = name##_divide

#define BITWISE_COLUMNS(name)                                                                      \
	[REDUCE_COLL_BAND] = name##_band, [REDUCE_COLL_BOR] = name##_bor,                          \
	[REDUCE_COLL_BXOR] = name##_bxor

#define LOGICAL_COLUMNS(name)                                                                      \
	[REDUCE_COLL_LAND] = name##_land, [REDUCE_COLL_LOR] = name##_lor,                          \
	[REDUCE_COLL_LXOR] = name##_lxor

#define FLOAT_ROW(number, name, ...)                                                               \
	[REDUCE_##number] = {                                                                      \
		ARITHMETIC_COLUMNS(name),                                                          \
		[REDUCE_SCALED_SUM] = name##_scaled_sum,                                           \
		[REDUCE_SCALED_PAIR] = name##_scaled_pair,                                         \
	},

/* The sum or the maximum of bools is true if one is true, the product or the minimum if all are. */
#define BOOL_ROW(number, name, ...)                                                                \
	[REDUCE_##number] = {                                                                      \
		[REDUCE_COLL_SUM] = name##_lor, [REDUCE_COLL_PROD] = name##_land,                  \
		[REDUCE_COLL_MAX] = name##_lor, [REDUCE_COLL_MIN] = name##_land,                   \
		LOGICAL_COLUMNS(name),                                                             \
	},

#define INTEGER_ROW(number, name, ...)                                                             \
	[REDUCE_##number] = {                                                                      \
		ARITHMETIC_COLUMNS(name),                                                          \
		BITWISE_COLUMNS(name),                                                             \
		LOGICAL_COLUMNS(name),                                                             \
	},

const struct reduce_kernels REDUCE_TABLE = {
	REDUCE_ISA,
	{DTYPES_INTEGER(INTEGER_ROW) DTYPES_BOOL(BOOL_ROW) DTYPES_FLOAT(FLOAT_ROW)
		 DTYPES_COMPLEX(COMPLEX_ROW) DTYPES_PAIR(PAIR_ROW)},
};
