/* SPDX-License-Identifier: BSD-3-Clause */
/* dtype.c - data types and operations: sizes, names, and the plugins that know them. */
#include "base/dtype.h"

#include <pthread.h>
#include <stdio.h>

struct dtype_entry {
	uint16_t size; /* 0: no data type has this number */
	uint8_t since, family;
	const char *name;
};

#define DTYPE_ENTRY(number, name, bytes, since, family, ...)                                       \
	[number] = {bytes, since, family, #name},
static const struct dtype_entry dtype_table[] = {DTYPES(DTYPE_ENTRY)};

enum { DTYPE_NUMBERS = sizeof(dtype_table) / sizeof(dtype_table[0]) };

static const struct dtype_entry *dtype_find(coll_dtype_t dtype)
{
	return dtype >= 0 && (size_t)dtype < DTYPE_NUMBERS && dtype_table[dtype].size
		       ? &dtype_table[dtype]
		       : NULL;
}

enum dtype_family dtype_family(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	if (entry)
		return entry->family;
	return dtype_is_opaque(dtype) ? DTYPE_OPAQUE : DTYPE_UNKNOWN;
}

uint32_t dtype_since(coll_dtype_t dtype)
{
	const struct dtype_entry *entry = dtype_find(dtype);

	return entry ? entry->since : 0;
}

size_t coll_dtype_size(coll_dtype_t dtype)
{
	if (dtype >= 0 && (size_t)dtype < DTYPE_NUMBERS)
		return dtype_table[dtype].size;
	return dtype_is_opaque(dtype) ? (size_t)(dtype - COLL_OPAQUE) : 0;
}

coll_dtype_t coll_dtype_opaque(size_t size)
{
	return size && size <= COLL_OPAQUE_SIZE_MAX ? COLL_OPAQUE + (coll_dtype_t)size
						    : COLL_DTYPE_NONE;
}

/* The names of the opaque types.  They are written once, so that coll_dtype_name returns a string that stays. */
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

/* -------------------------------------------------------------------- operations -- */

struct op_entry {
	uint8_t since, family;
	const char *name; /* NULL: no operation has this number */
};

#define OP_ENTRY(number, name, since, family) [number] = {since, family, #name},
static const struct op_entry op_table[] = {OPS(OP_ENTRY)};

static const struct op_entry *op_find(coll_op_t op)
{
	const size_t n = sizeof(op_table) / sizeof(op_table[0]);

	return op >= 0 && (size_t)op < n && op_table[op].name ? &op_table[op] : NULL;
}

const char *coll_op_name(coll_op_t op)
{
	const struct op_entry *entry = op_find(op);

	return entry ? entry->name : "?";
}

enum op_family op_family(coll_op_t op)
{
	const struct op_entry *entry = op_find(op);

	return entry ? entry->family : OP_UNKNOWN;
}

uint32_t op_since(coll_op_t op)
{
	const struct op_entry *entry = op_find(op);

	return entry ? entry->since : 0;
}
