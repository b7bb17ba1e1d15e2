/* SPDX-License-Identifier: BSD-3-Clause */
/* dtype.c - sizes and names of data types, names of operations. */
#include <coll/coll.h>

struct dtype_entry {
	uint32_t size; /* 0: no data type has this number */
	const char *name;
};

static const struct dtype_entry dtype_table[] = {
	[COLL_INT8] = {1, "int8"},
	[COLL_UINT8] = {1, "uint8"},
	[COLL_INT16] = {2, "int16"},
	[COLL_UINT16] = {2, "uint16"},
	[COLL_INT32] = {4, "int32"},
	[COLL_UINT32] = {4, "uint32"},
	[COLL_INT64] = {8, "int64"},
	[COLL_UINT64] = {8, "uint64"},
	[COLL_FLOAT16] = {2, "float16"},
	[COLL_BFLOAT16] = {2, "bfloat16"},
	[COLL_FLOAT32] = {4, "float32"},
	[COLL_FLOAT64] = {8, "float64"},
	[COLL_FLOAT8E4M3] = {1, "float8e4m3"},
	[COLL_FLOAT8E5M2] = {1, "float8e5m2"},
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

	return entry ? entry->size : 0;
}

const char *coll_dtype_name(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	return entry ? entry->name : "?";
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
	default: return "?";
	}
}
