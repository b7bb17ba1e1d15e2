/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h - the kernels behind reduce.h: one table for each instruction set.  The build compiles
 * all tables from kernels.c, and all kernels give the same bits.
 */
#ifndef CORE_REDUCE_KERNELS_H
#define CORE_REDUCE_KERNELS_H

#include "base/tables.h"
#include "reduce/reduce.h"

#define REDUCE_INDEX(number, ...) REDUCE_##number,
/* The rows, in the order of the table of types: REDUCE_COLL_INT8, ...  Row 0 and column 0 stay empty. */
enum { REDUCE_NO_DTYPE, DTYPES(REDUCE_INDEX) REDUCE_DTYPES };
/* The columns: REDUCE_COLL_SUM, ..., and two columns of floats only. */
enum { REDUCE_NO_OP, OPS(REDUCE_INDEX) REDUCE_SCALED_SUM, REDUCE_SCALED_PAIR, REDUCE_OPS };
/* The division of averages. */
enum { REDUCE_DIVIDE = REDUCE_COLL_AVG };

/* NULL: the type has no such operation. */
struct reduce_kernels {
	const char *isa;
	reduce_fn fn[REDUCE_DTYPES][REDUCE_OPS];
};

extern const struct reduce_kernels reduce_generic;
extern const struct reduce_kernels reduce_avx2;
extern const struct reduce_kernels reduce_avx512;

/* Returns the i-th best table that this processor can run; NULL from the end of the list on. */
const struct reduce_kernels *reduce_usable(int i);

/* Returns the kernel as reduce_kernel does, from that table. */
reduce_fn reduce_lookup(const struct reduce_kernels *kernels, int dtype, int op);
/*
 * Returns a kernel of averages of floats: of column REDUCE_SCALED_SUM or REDUCE_SCALED_PAIR.  NULL: the type is no float.
 */
reduce_fn reduce_lookup_scaled(const struct reduce_kernels *kernels, int dtype, int column);
/* Runs such a kernel. */
void reduce_scaled(void *dst, const void *left, const void *right, size_t bytes, int dtype,
		   int column, int n);

#endif
