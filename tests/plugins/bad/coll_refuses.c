/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-space */
/* coll_refuses.c - send refuses while its queue is full. */
#include "uds.h"

/* Number of sends to this rank that are not complete. */
static int refuses_queued(void *ep, uint32_t peer)
{
	struct uds_way *way = (struct uds_way *)((struct bad *)ep)->ep + peer;
	int n = 0;

	for (uint64_t s = way->first; s; s = ((coll_send_t *)(uintptr_t)s)->plugin[0])
		n++;
	return n;
}

static int32_t refuses_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	if (refuses_queued(ep, send->peer) <= 350)
		return bad_send(ep, send, err);
	snprintf(err->text, sizeof(err->text), "the queue to rank %u is full", send->peer);
	return err->code = COLL_ERR_NO_MEMORY;
}

#define BAD_NAME "refuses"
#define BAD_SEND refuses_send
#include "table.h"
