/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: load */
/* coll_undefined.c - needs a function that no library has. */
#include "uds.h"

int undefined_function(void);

static int32_t undefined_progress(void *ep)
{
	return bad_progress(ep) || undefined_function();
}

#define BAD_NAME     "undefined"
#define BAD_PROGRESS undefined_progress
#include "table.h"
