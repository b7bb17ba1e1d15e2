/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: drop */
/* coll_keeps.c - drop has no effect: the plugin keeps writing the payload to its buffer. */
#include "tcp.h"

static void keeps_drop(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

#define BAD_NAME "keeps"
#define BAD_DROP keeps_drop
#include "table.h"
