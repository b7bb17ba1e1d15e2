/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: describe */
/* coll_chatters.c - describes its connections in two lines. */
#include "uds.h"

static void chatters_describe(void *ep, char *buf, uint64_t size)
{
	(void)ep;
	snprintf(buf, size, "a socket\nfor each rank");
}

#define BAD_NAME     "chatters"
#define BAD_DESCRIBE chatters_describe
#include "table.h"
