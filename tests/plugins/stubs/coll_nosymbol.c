/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_nosymbol.c - a shared object that is no plugin. */
#include <coll/backend.h>

COLL_BACKEND_EXPORT int nosymbol_answer(void);
COLL_BACKEND_EXPORT int nosymbol_answer(void)
{
	return 42;
}
