/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-unaligned */
/* coll_curtails.c - sends words of 8 bytes, and spoils the end of a buffer that is off alignment. */
#include "uds.h"

static int32_t curtails_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	uint8_t *buf = (uint8_t *)(uintptr_t)send->buf;

	if ((uintptr_t)buf % 8)
		memset(buf + send->header.len / 8 * 8, 0, send->header.len % 8);
	return bad_send(ep, send, err);
}

#define BAD_NAME "curtails"
#define BAD_SEND curtails_send
#include "table.h"
