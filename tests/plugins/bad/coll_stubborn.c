/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: cancel */
/* coll_stubborn.c - cancel has no effect: the plugin goes on sending. */
#include "tcp.h"

static void stubborn_cancel(void *ep, coll_send_t *send)
{
	(void)ep;
	(void)send;
}

#define BAD_NAME   "stubborn"
#define BAD_CANCEL stubborn_cancel
#include "table.h"
