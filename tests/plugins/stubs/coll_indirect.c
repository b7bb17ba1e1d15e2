/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_indirect.c - needs libpart.so and has no entry symbol of its own. */
#include <coll/backend.h>

extern int part_answer(void);

COLL_BACKEND_EXPORT int indirect_answer(void);
COLL_BACKEND_EXPORT int indirect_answer(void)
{
	return part_answer();
}
