/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: status */
/* coll_hasty.c - a send has its status before its buffer has been read. */
#include "uds.h"

/* The message goes on as a copy, but its payload stays where it was. */
static int32_t hasty_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	coll_send_t *copy = malloc(sizeof(*copy)); /* lives on; so small a plugin may leak */
	int32_t code;

	if (!copy)
		return bad_send(ep, send, err);
	*copy = *send;
	code = bad_send(ep, copy, err);
	send->status = COLL_SUCCESS;
	return code;
}

#define BAD_NAME "hasty"
#define BAD_SEND hasty_send
#include "table.h"
