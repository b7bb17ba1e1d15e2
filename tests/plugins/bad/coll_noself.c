/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-self */
/* coll_noself.c - loses messages to the own rank. */
#include "uds.h"

static int32_t noself_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	if (send->peer != ((struct bad *)ep)->host.rank)
		return bad_send(ep, send, err);
	send->status = COLL_SUCCESS;
	return COLL_SUCCESS;
}

#define BAD_NAME "noself"
#define BAD_SEND noself_send
#include "table.h"
