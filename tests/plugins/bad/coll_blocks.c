/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: send-space */
/* coll_blocks.c - send waits while its queue is full. */
#include "uds.h"

/* Number of sends to this rank that are not complete. */
static int blocks_queued(void *ep, uint32_t peer)
{
	struct uds_way *way = (struct uds_way *)((struct bad *)ep)->ep + peer;
	int n = 0;

	for (uint64_t s = way->first; s; s = ((coll_send_t *)(uintptr_t)s)->plugin[0])
		n++;
	return n;
}

static int32_t blocks_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct uds_way *way = (struct uds_way *)((struct bad *)ep)->ep + send->peer;

	while (blocks_queued(ep, send->peer) > 350)
		if (!uds_push(way))
			usleep(1000);
	return bad_send(ep, send, err);
}

#define BAD_NAME "blocks"
#define BAD_SEND blocks_send
#include "table.h"
