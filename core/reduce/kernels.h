/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.h - the kernels behind reduce.h: one table for each instruction set, all of them
 * compiled from kernels.c and all giving the same bits.
 */
#ifndef CORE_REDUCE_KERNELS_H
#define CORE_REDUCE_KERNELS_H

#include "reduce/reduce.h"

/* Rows and columns: the public values, with those from 32 on moved down. */
enum {
	REDUCE_INT16 = 12,
	REDUCE_UINT16,
	REDUCE_BOOL,
	REDUCE_COMPLEX64,
	REDUCE_COMPLEX128,
	REDUCE_FLOAT32_INT32,
	REDUCE_FLOAT64_INT32,
	REDUCE_INT32_INT32,
	REDUCE_INT64_INT32,
	REDUCE_DTYPES,
	REDUCE_DIVIDE = COLL_AVG, /* the division of averages */
	REDUCE_BAND,
	REDUCE_BOR,
	REDUCE_BXOR,
	REDUCE_LAND,
	REDUCE_LOR,
	REDUCE_LXOR,
	REDUCE_MINLOC,
	REDUCE_MAXLOC,
	REDUCE_SCALED_SUM, /* floats only */
	REDUCE_SCALED_PAIR,
	REDUCE_OPS
};

/* NULL: the type has no such operation. */
struct reduce_kernels {
	const char *isa;
	reduce_fn fn[REDUCE_DTYPES][REDUCE_OPS];
};

extern const struct reduce_kernels reduce_generic;
extern const struct reduce_kernels reduce_avx2;
extern const struct reduce_kernels reduce_avx512;

/* The tables that this processor can run, best first; NULL from the end of the list on. */
const struct reduce_kernels *reduce_usable(int i);

/* The kernel of a public dtype and op (COLL_AVG: REDUCE_DIVIDE), NULL if there is none. */
reduce_fn reduce_lookup(const struct reduce_kernels *kernels, int dtype, int op);
/* The kernels of averages that divide left, or both operands, and add; NULL: the type is an integer. */
reduce_fn reduce_lookup_scaled_sum(const struct reduce_kernels *kernels, int dtype);
reduce_fn reduce_lookup_scaled_pair(const struct reduce_kernels *kernels, int dtype);

#endif
