/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-zero */
/* coll_nozero.c - does not send messages without payload. */
#include "uds.h"

static int32_t nozero_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	if (send->header.len)
		return bad_send(ep, send, err);
	send->status = COLL_SUCCESS;
	return COLL_SUCCESS;
}

#define BAD_NAME "nozero"
#define BAD_SEND nozero_send
#include "table.h"
