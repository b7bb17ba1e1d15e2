/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables.h - the kinds, data types and operations of coll.h: one row each.  A row is all that the library must
 * know beside the arithmetic (reduce/).
 *
 * A table is a macro that applies the macro ROW to the columns of each row, in the order in which users
 * see them.  A file that needs some columns defines a ROW that picks these columns:
 *
 *     #define NAME(number, name, ...) [number] = #name,
 *     static const char *const names[] = {DTYPES(NAME)};
 *
 * The core (dtype.c, kind.c), the kernels, the plugin nccl, the oracle and `coll perf` do so.
 */
#ifndef CORE_BASE_TABLES_H
#define CORE_BASE_TABLES_H

#include <coll/coll.h>

/* ------------------------------------------------------------------------- kinds -- */

/* Blocks of `count` elements that a buffer holds: none, one, or one per rank. */
enum { KIND_NONE, KIND_ONE, KIND_EACH };

enum kind_traits {
	KIND_REDUCES = 1 << 0,       /* the call has an operation */
	KIND_ROOT_SENDS = 1 << 1,    /* the call has a root, which alone uses its send buffer */
	KIND_ROOT_RECEIVES = 1 << 2, /* the call has a root, which alone uses its receive buffer */
	KIND_SENDCOUNTS = 1 << 3,    /* the call has this array, of the root if there is one */
	KIND_RECVCOUNTS = 1 << 4,    /* likewise */
	KIND_OWN_COUNTS = 1 << 5,    /* each rank knows its own counts only */
	KIND_P2P = 1 << 6,           /* a message between two ranks: no collective */
	KIND_SCAN = 1 << 7           /* each rank reduces the inputs of the ranks before it */
};

/* ROW(number, name, blocks of the send buffer, of the receive buffer, traits, name with lists of buffers) */
#define KINDS(ROW)                                                                                 \
	ROW(COLL_KIND_ALLREDUCE, allreduce, KIND_ONE, KIND_ONE, KIND_REDUCES, NULL)                \
	ROW(COLL_KIND_BROADCAST, broadcast, KIND_ONE, KIND_ONE, KIND_ROOT_SENDS, NULL)             \
	ROW(COLL_KIND_REDUCE, reduce, KIND_ONE, KIND_ONE, KIND_REDUCES | KIND_ROOT_RECEIVES, NULL) \
	ROW(COLL_KIND_ALLGATHER, allgather, KIND_ONE, KIND_EACH, 0, NULL)                          \
	ROW(COLL_KIND_REDUCE_SCATTER, reduce_scatter, KIND_EACH, KIND_ONE, KIND_REDUCES, NULL)     \
	ROW(COLL_KIND_ALLTOALL, alltoall, KIND_EACH, KIND_EACH, 0, NULL)                           \
	ROW(COLL_KIND_GATHER, gather, KIND_ONE, KIND_EACH, KIND_ROOT_RECEIVES, NULL)               \
	ROW(COLL_KIND_SCATTER, scatter, KIND_EACH, KIND_ONE, KIND_ROOT_SENDS, NULL)                \
	ROW(COLL_KIND_ALLGATHERV, allgatherv, KIND_ONE, KIND_EACH, KIND_RECVCOUNTS,                \
	    "allgather_list")                                                                      \
	ROW(COLL_KIND_REDUCE_SCATTERV, reduce_scatterv, KIND_EACH, KIND_ONE,                       \
	    KIND_REDUCES | KIND_RECVCOUNTS, "reduce_scatter_list")                                 \
	ROW(COLL_KIND_ALLTOALLV, alltoallv, KIND_EACH, KIND_EACH,                                  \
	    KIND_SENDCOUNTS | KIND_RECVCOUNTS | KIND_OWN_COUNTS, "alltoall_list")                  \
	ROW(COLL_KIND_GATHERV, gatherv, KIND_ONE, KIND_EACH,                                       \
	    KIND_ROOT_RECEIVES | KIND_RECVCOUNTS | KIND_OWN_COUNTS, "gather_list")                 \
	ROW(COLL_KIND_SCATTERV, scatterv, KIND_EACH, KIND_ONE,                                     \
	    KIND_ROOT_SENDS | KIND_SENDCOUNTS | KIND_OWN_COUNTS, "scatter_list")                   \
	ROW(COLL_KIND_BARRIER, barrier, KIND_NONE, KIND_NONE, 0, NULL)                             \
	ROW(COLL_KIND_SEND, send, KIND_ONE, KIND_NONE, KIND_P2P, NULL)                             \
	ROW(COLL_KIND_RECV, recv, KIND_NONE, KIND_ONE, KIND_P2P, NULL)                             \
	ROW(COLL_KIND_SCAN, scan, KIND_ONE, KIND_ONE, KIND_REDUCES | KIND_SCAN, NULL)              \
	ROW(COLL_KIND_EXSCAN, exscan, KIND_ONE, KIND_ONE, KIND_REDUCES | KIND_SCAN, NULL)

/* -------------------------------------------------------------------- data types -- */

enum dtype_family {
	DTYPE_UNKNOWN,
	DTYPE_INTEGER,
	DTYPE_BOOL,
	DTYPE_FLOAT,
	DTYPE_COMPLEX,
	DTYPE_PAIR,
	DTYPE_OPAQUE /* of coll_dtype_opaque: no row */
};

/*
 * ROW(number, name, bytes, since, family, ...)
 *
 * bytes     the size of an element
 * since     the minor of the backend ABI that added the type
 * family    the family of the type, which decides the columns behind it:
 *
 * DTYPE_INTEGER, DTYPE_BOOL   1: signed
 * DTYPE_FLOAT                 bits of the mantissa; bias of the exponent; the codes of the largest finite number,
 *                             of the result of an overflow, of infinity (of the largest number, if the type has
 *                             no infinity), of NaN.  The oracle computes with them, and the kernels do not
 *                             (reduce/convert.h), so a test sees a fault in either.
 * DTYPE_COMPLEX               name and number of the type of a part
 * DTYPE_PAIR                  the types of the value and of the index, if the index takes the bytes behind it too
 */
#define DTYPES_INTEGER(ROW)                                                                        \
	ROW(COLL_INT8, int8, 1, 0, DTYPE_INTEGER, 1)                                               \
	ROW(COLL_UINT8, uint8, 1, 0, DTYPE_INTEGER, 0)                                             \
	ROW(COLL_INT16, int16, 2, 0, DTYPE_INTEGER, 1)                                             \
	ROW(COLL_UINT16, uint16, 2, 0, DTYPE_INTEGER, 0)                                           \
	ROW(COLL_INT32, int32, 4, 0, DTYPE_INTEGER, 1)                                             \
	ROW(COLL_UINT32, uint32, 4, 0, DTYPE_INTEGER, 0)                                           \
	ROW(COLL_INT64, int64, 8, 0, DTYPE_INTEGER, 1)                                             \
	ROW(COLL_UINT64, uint64, 8, 0, DTYPE_INTEGER, 0)

#define DTYPES_BOOL(ROW) ROW(COLL_BOOL, bool, 1, 4, DTYPE_BOOL, 0)

#define DTYPES_FLOAT(ROW)                                                                          \
	ROW(COLL_FLOAT16, float16, 2, 0, DTYPE_FLOAT, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00)      \
	ROW(COLL_BFLOAT16, bfloat16, 2, 0, DTYPE_FLOAT, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0)    \
	ROW(COLL_FLOAT8E4M3, float8e4m3, 1, 0, DTYPE_FLOAT, 3, 7, 0x7e, 0x7e, 0x7e, 0x7f)          \
	ROW(COLL_FLOAT8E5M2, float8e5m2, 1, 0, DTYPE_FLOAT, 2, 15, 0x7b, 0x7b, 0x7c, 0x7e)         \
	ROW(COLL_FLOAT32, float32, 4, 0, DTYPE_FLOAT, 23, 127, 0x7f7fffff, 0x7f800000, 0x7f800000, \
	    0x7fc00000)                                                                            \
	ROW(COLL_FLOAT64, float64, 8, 0, DTYPE_FLOAT, 52, 1023, 0x7fefffffffffffff,                \
	    0x7ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000)

#define DTYPES_COMPLEX(ROW)                                                                        \
	ROW(COLL_COMPLEX64, complex64, 8, 4, DTYPE_COMPLEX, float32, COLL_FLOAT32)                 \
	ROW(COLL_COMPLEX128, complex128, 16, 4, DTYPE_COMPLEX, float64, COLL_FLOAT64)

#define DTYPES_PAIR(ROW)                                                                           \
	ROW(COLL_FLOAT32_INT32, float32_int32, 8, 4, DTYPE_PAIR, COLL_FLOAT32, COLL_INT32)         \
	ROW(COLL_FLOAT64_INT32, float64_int32, 16, 4, DTYPE_PAIR, COLL_FLOAT64, COLL_INT64)        \
	ROW(COLL_INT32_INT32, int32_int32, 8, 4, DTYPE_PAIR, COLL_INT32, COLL_INT32)               \
	ROW(COLL_INT64_INT32, int64_int32, 16, 4, DTYPE_PAIR, COLL_INT64, COLL_INT64)

/* The types whose elements are one number, and the types whose elements are two numbers. */
#define DTYPES_OF_ONE(ROW) DTYPES_INTEGER(ROW) DTYPES_BOOL(ROW) DTYPES_FLOAT(ROW)
#define DTYPES_OF_TWO(ROW) DTYPES_COMPLEX(ROW) DTYPES_PAIR(ROW)
#define DTYPES(ROW)        DTYPES_OF_ONE(ROW) DTYPES_OF_TWO(ROW)

/* -------------------------------------------------------------------- operations -- */

enum op_family { OP_UNKNOWN, OP_ARITHMETIC, OP_BITWISE, OP_LOGICAL, OP_LOCATION };

/*
 * ROW(number, name, since, family)
 *
 * since   the minor of the backend ABI that added the operation
 */
#define OPS_ARITHMETIC(ROW)                                                                        \
	ROW(COLL_SUM, sum, 0, OP_ARITHMETIC)                                                       \
	ROW(COLL_PROD, prod, 0, OP_ARITHMETIC)                                                     \
	ROW(COLL_MAX, max, 0, OP_ARITHMETIC)                                                       \
	ROW(COLL_MIN, min, 0, OP_ARITHMETIC)                                                       \
	ROW(COLL_AVG, avg, 0, OP_ARITHMETIC)

#define OPS_BITWISE(ROW)                                                                           \
	ROW(COLL_BAND, band, 0, OP_BITWISE)                                                        \
	ROW(COLL_BOR, bor, 0, OP_BITWISE)                                                          \
	ROW(COLL_BXOR, bxor, 0, OP_BITWISE)

#define OPS_LOGICAL(ROW)                                                                           \
	ROW(COLL_LAND, land, 4, OP_LOGICAL)                                                        \
	ROW(COLL_LOR, lor, 4, OP_LOGICAL)                                                          \
	ROW(COLL_LXOR, lxor, 4, OP_LOGICAL)

#define OPS_LOCATION(ROW)                                                                          \
	ROW(COLL_MINLOC, minloc, 4, OP_LOCATION)                                                   \
	ROW(COLL_MAXLOC, maxloc, 4, OP_LOCATION)

#define OPS(ROW) OPS_ARITHMETIC(ROW) OPS_BITWISE(ROW) OPS_LOGICAL(ROW) OPS_LOCATION(ROW)

#endif
