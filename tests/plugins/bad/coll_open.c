/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: exports */
/* coll_open.c - exports a function besides its table. */
#include "uds.h"

__attribute__((visibility("default"))) int open_function(void);

int open_function(void)
{
	return 0;
}

#define BAD_NAME "open"
#include "table.h"
