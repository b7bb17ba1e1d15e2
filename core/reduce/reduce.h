/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.h - the only code that adds, multiplies or compares user data. */
#ifndef CORE_REDUCE_REDUCE_H
#define CORE_REDUCE_REDUCE_H

#include <coll/coll.h>

/*
 * Computes dst[i] = left[i] op right[i].  dst may equal left or right, but not overlap them otherwise.  Any alignment, any
 * count.  COLL_AVG counts as COLL_SUM here: the caller divides.  dtype and op must have passed reduce_supports.
 */
void reduce(void *dst, const void *left, const void *right, size_t count, int dtype, int op);

/*
 * A kernel computes dst = left op right over `bytes` bytes, which are whole elements.  Any alignment; dst may equal left or
 * right.  A division ignores right and divides by n > 0.  A scaled sum divides left by n, rounds to the type and adds
 * right; a scaled pair divides and rounds both.  Other kernels ignore n.
 */
typedef void (*reduce_fn)(void *dst, const void *left, const void *right, size_t bytes, int n);
/* reduce() in two parts, for callers that keep the kernel: find the kernel, and run it on so many bytes. */
reduce_fn reduce_kernel(int dtype, int op);
void reduce_run(reduce_fn kernel, void *dst, const void *left, const void *right, size_t bytes);

/* Computes dst[i] = src[i] / n, rounded to the type, for integers towards zero.  n > 0.  dst may equal src. */
void reduce_divide(void *dst, const void *src, size_t count, int dtype, int n);
/*
 * Computes dst[i] = left[i] / n + right[i] of a floating type, with the quotient rounded to the type as by reduce_divide.
 * dst may equal left or right.
 */
void reduce_scaled_sum(void *dst, const void *left, const void *right, size_t count, int dtype,
		       int n);
/* Computes dst[i] = left[i] / n + right[i] / n, likewise. */
void reduce_scaled_pair(void *dst, const void *left, const void *right, size_t count, int dtype,
			int n);

/* Is there a kernel for the type and the operation? */
int reduce_supports(int dtype, int op);
int reduce_is_floating(int dtype);

/* Returns the instruction set in use: "avx512", "avx2" or "generic".  COLL_ISA=... chooses a lower set, for tests. */
const char *reduce_isa(void);

#endif
