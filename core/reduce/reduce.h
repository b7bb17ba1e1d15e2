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
/*
 * Returns the kernel for the type and the operation, or NULL: there is none.  The kernel of COLL_AVG divides: rounded
 * to the type, for integers towards zero.
 */
reduce_fn reduce_kernel(int dtype, int op);
/*
 * Runs the kernel with the standard settings of the processor, and restores the thread's own settings afterwards: the
 * application may have changed rounding or subnormals in the thread of one rank and not in another's.
 */
void reduce_run(reduce_fn kernel, void *dst, const void *left, const void *right, size_t bytes,
		int n);

/* Is there a kernel for the type and the operation? */
int reduce_supports(int dtype, int op);

/* Returns the instruction set in use: "avx512", "avx2" or "generic".  COLL_ISA=... chooses a lower set, for tests. */
const char *reduce_isa(void);

#endif
