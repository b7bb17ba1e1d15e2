/* SPDX-License-Identifier: BSD-3-Clause */
/* dtype.h - data types and operations: their families, opaque types, and which plugins know them. */
#ifndef CORE_BASE_DTYPE_H
#define CORE_BASE_DTYPE_H

#include "base/tables.h"

/*
 * Return the family.  A number that coll.h does not define has DTYPE_UNKNOWN or OP_UNKNOWN; an operation of the application
 * has OP_UNKNOWN.
 */
enum dtype_family dtype_family(coll_dtype_t dtype);
enum op_family op_family(coll_op_t op);

/*
 * Return the minor of the backend ABI that added the type or the operation.  The core hands neither to a plugin of an older
 * minor.
 */
uint32_t dtype_since(coll_dtype_t dtype);
uint32_t op_since(coll_op_t op);

/* Is the type one of coll_dtype_opaque()?  No plugin ever gets such a type. */
static inline int dtype_is_opaque(coll_dtype_t dtype)
{
	return dtype > COLL_OPAQUE && dtype <= COLL_OPAQUE + COLL_OPAQUE_SIZE_MAX;
}

#endif
