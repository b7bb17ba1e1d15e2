/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: inside-progress */
/* coll_meddles.c - announces messages inside send. */
#include "uds.h"

static int32_t meddles_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	int32_t code = bad_send(ep, send, err);

	if (send->header.len > 200)
		bad_progress(ep);
	return code;
}

#define BAD_NAME "meddles"
#define BAD_SEND meddles_send
#include "table.h"
