/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-unchanged */
/* coll_scribbles.c - send writes to a member that belongs to the core. */
#include "uds.h"

static int32_t scribbles_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	send->reserved = 1;
	return bad_send(ep, send, err);
}

#define BAD_NAME "scribbles"
#define BAD_SEND scribbles_send
#include "table.h"
