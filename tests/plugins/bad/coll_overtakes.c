/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: order */
/* coll_overtakes.c - a message may overtake the message before it. */
#include "uds.h"

static int32_t overtakes_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct bad *b = ep;
	int32_t code;

	if (!b->held) {
		b->held = send;
		return COLL_SUCCESS;
	}
	code = bad_send(ep, send, err);
	bad_send(ep, b->held, err);
	b->held = NULL;
	return code;
}

static int32_t overtakes_progress(void *ep)
{
	struct bad *b = ep;
	coll_error_t err;

	if (b->held)
		bad_send(ep, b->held, &err);
	b->held = NULL;
	return bad_progress(ep);
}

#define BAD_NAME     "overtakes"
#define BAD_SEND     overtakes_send
#define BAD_PROGRESS overtakes_progress
#include "table.h"
