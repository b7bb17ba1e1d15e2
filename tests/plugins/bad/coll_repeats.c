/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: lost-once */
/* coll_repeats.c - reports a lost peer twice. */
#include "uds.h"

static void repeats_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	const coll_host_t *real = bad_of(host)->real;

	real->peer_lost(real, peer, text);
	real->peer_lost(real, peer, text);
}

#define BAD_NAME      "repeats"
#define BAD_PEER_LOST repeats_peer_lost
#include "table.h"
