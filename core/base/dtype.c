/* SPDX-License-Identifier: BSD-3-Clause */
/* dtype.c - data types and operations: sizes, names, and the plugins that know them. */
#include "base/dtype.h"

#include <pthread.h>
#include <stdio.h>

struct dtype_entry {
	uint16_t size; /* 0: no data type has this number */
	uint16_t since;
	const char *name;
};

static const struct dtype_entry dtype_table[] = {
	[COLL_INT8] = {1, 0, "int8"},
	[COLL_UINT8] = {1, 0, "uint8"},
	[COLL_INT16] = {2, 0, "int16"},
	[COLL_UINT16] = {2, 0, "uint16"},
	[COLL_INT32] = {4, 0, "int32"},
	[COLL_UINT32] = {4, 0, "uint32"},
	[COLL_INT64] = {8, 0, "int64"},
	[COLL_UINT64] = {8, 0, "uint64"},
	[COLL_BOOL] = {1, 4, "bool"},
	[COLL_COMPLEX64] = {8, 4, "complex64"},
	[COLL_COMPLEX128] = {16, 4, "complex128"},
	[COLL_FLOAT32_INT32] = {8, 4, "float32_int32"},
	[COLL_FLOAT64_INT32] = {16, 4, "float64_int32"},
	[COLL_INT32_INT32] = {8, 4, "int32_int32"},
	[COLL_INT64_INT32] = {16, 4, "int64_int32"},
	[COLL_FLOAT16] = {2, 0, "float16"},
	[COLL_BFLOAT16] = {2, 0, "bfloat16"},
	[COLL_FLOAT32] = {4, 0, "float32"},
	[COLL_FLOAT64] = {8, 0, "float64"},
	[COLL_FLOAT8E4M3] = {1, 0, "float8e4m3"},
	[COLL_FLOAT8E5M2] = {1, 0, "float8e5m2"},
};

static const struct dtype_entry *dtype_find(coll_dtype_t dtype)
{
	const size_t n = sizeof(dtype_table) / sizeof(dtype_table[0]);

	return dtype >= 0 && (size_t)dtype < n && dtype_table[dtype].size ? &dtype_table[dtype]
									  : NULL;
}

size_t coll_dtype_size(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	if (entry)
		return entry->size;
	return dtype_is_opaque(dtype) ? (size_t)(dtype - COLL_OPAQUE) : 0;
}

coll_dtype_t coll_dtype_opaque(size_t size)
{
	return size && size <= COLL_OPAQUE_SIZE_MAX ? COLL_OPAQUE + (coll_dtype_t)size
						    : COLL_DTYPE_NONE;
}

/* The names of the opaque types, written once, so that each is a string that stays. */
static char dtype_opaque_names[COLL_OPAQUE_SIZE_MAX + 1][sizeof("opaque4096")];
static pthread_once_t dtype_opaque_once = PTHREAD_ONCE_INIT;

static void dtype_name_opaque(void)
{
	for (unsigned n = 1; n <= COLL_OPAQUE_SIZE_MAX; n++)
		snprintf(dtype_opaque_names[n], sizeof(dtype_opaque_names[n]), "opaque%hu",
			 (unsigned short)n);
}

const char *coll_dtype_name(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	if (entry)
		return entry->name;
	if (!dtype_is_opaque(dtype))
		return "?";
	pthread_once(&dtype_opaque_once, dtype_name_opaque);
	return dtype_opaque_names[dtype - COLL_OPAQUE];
}

const char *coll_op_name(coll_op_t op)
{
	switch (op) {
	case COLL_SUM: return "sum";
	case COLL_PROD: return "prod";
	case COLL_MAX: return "max";
	case COLL_MIN: return "min";
	case COLL_AVG: return "avg";
	case COLL_BAND: return "band";
	case COLL_BOR: return "bor";
	case COLL_BXOR: return "bxor";
	case COLL_LAND: return "land";
	case COLL_LOR: return "lor";
	case COLL_LXOR: return "lxor";
	case COLL_MINLOC: return "minloc";
	case COLL_MAXLOC: return "maxloc";
	default: return "?";
	}
}

uint32_t dtype_since(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	return entry ? entry->since : 0;
}

uint32_t op_since(coll_op_t op)
{
	return op >= COLL_LAND && op <= COLL_MAXLOC ? 4 : 0;
}
