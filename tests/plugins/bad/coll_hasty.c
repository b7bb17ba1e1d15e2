/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: status */
/* coll_hasty.c - sets the status of a send before it has read the buffer. */
#include "uds.h"

/* The plugin sends a copy of the header, but later reads the payload from the caller's buffer. */
static int32_t hasty_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	coll_send_t *copy = malloc(sizeof(*copy)); /* lives on; the plugin may leak so little */
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
