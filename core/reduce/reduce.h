/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.h - the only place where user data is added, multiplied or compared. */
#ifndef CORE_REDUCE_REDUCE_H
#define CORE_REDUCE_REDUCE_H

#include <coll/coll.h>

/*
 * dst[i] = left[i] op right[i].  dst may equal left or right, not overlap them otherwise.  Any
 * alignment, any count.  COLL_AVG counts as COLL_SUM here: the caller divides.  dtype and op must have
 * passed reduce_supports.
 */
void reduce(void *dst, const void *left, const void *right, size_t count, int dtype, int op);

/*
 * A kernel: dst = left op right over `bytes` bytes, whole elements.  Any alignment; dst may equal left or
 * right.  Division ignores right and divides by n > 0; the scaled sum divides left by n, rounds to the
 * type and adds right; the scaled pair does so with both; the others ignore n.
 */
typedef void (*reduce_fn)(void *dst, const void *left, const void *right, size_t bytes, int n);
/* reduce() in two parts, for callers that keep the kernel: its search, and the call for that many bytes. */
reduce_fn reduce_kernel(int dtype, int op);
void reduce_run(reduce_fn kernel, void *dst, const void *left, const void *right, size_t bytes);

/* dst[i] = src[i] / n, rounded to the type; integers towards zero.  n > 0.  dst may equal src. */
void reduce_divide(void *dst, const void *src, size_t count, int dtype, int n);
/*
 * dst[i] = left[i] / n + right[i] of a floating type, the quotient rounded to the type as by reduce_divide.
 * dst may equal left or right.
 */
void reduce_scaled_sum(void *dst, const void *left, const void *right, size_t count, int dtype,
		       int n);
/* dst[i] = left[i] / n + right[i] / n, likewise. */
void reduce_scaled_pair(void *dst, const void *left, const void *right, size_t count, int dtype,
			int n);

/* Is there a kernel for the type and the operation? */
int reduce_supports(int dtype, int op);
int reduce_is_floating(int dtype);

/* "avx512", "avx2", "generic": the instruction set in use (COLL_ISA=... chooses a lower set, for tests). */
const char *reduce_isa(void);

#endif
