/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.h - the only place where user data is added, multiplied or compared. */
#ifndef CORE_REDUCE_REDUCE_H
#define CORE_REDUCE_REDUCE_H

#include <coll/coll.h>

/*
 * dst[i] = left[i] op right[i].  dst may equal left or right, not overlap them otherwise.  Any
 * alignment, any count.  COLL_AVG counts as COLL_SUM here (see reduce_finish).  dtype and op must
 * have passed reduce_supports.
 */
void reduce(void *dst, const void *left, const void *right, size_t count, int dtype, int op);

/*
 * Applies the last step of an operation over nranks inputs, in place: COLL_AVG divides, other operations
 * have no last step.
 */
void reduce_finish(void *dst, size_t count, int dtype, int op, int nranks);

/* Is there a kernel for the type and the operation?  Bitwise operations exist for integers only. */
int reduce_supports(int dtype, int op);

/* "avx512", "avx2", "generic": the instruction set in use (COLL_ISA=... chooses a lower set, for tests). */
const char *reduce_isa(void);

#endif
