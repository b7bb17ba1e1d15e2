/* SPDX-License-Identifier: BSD-3-Clause */
/* same_call.h - whether two messages belong to the same call, by the signatures in their headers (comm/signature.h). */
#ifndef CORE_TRANSPORT_SAME_CALL_H
#define CORE_TRANSPORT_SAME_CALL_H

#include <stdint.h>

/*
 * The bits of meta[0] that have the type of a call, in all kinds that do not reduce.  A rank without elements may call with
 * a type of its own: the bits are then MATCH_NO_TYPE, and fit every type.
 */
#define MATCH_TYPE_BITS ((uint64_t)0xffffff << 8)
#define MATCH_NO_TYPE   ((uint64_t)0xfe << 8)

/* Do two signatures belong to the same call? */
static inline int match_same_call(const uint64_t *a, const uint64_t *b)
{
	const uint64_t differ = a[0] ^ b[0];
	const int any = (a[0] & MATCH_TYPE_BITS) == MATCH_NO_TYPE ||
			(b[0] & MATCH_TYPE_BITS) == MATCH_NO_TYPE;

	return a[1] == b[1] && !(any ? differ & ~MATCH_TYPE_BITS : differ);
}

#endif
