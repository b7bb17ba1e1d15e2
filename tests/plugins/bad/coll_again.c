/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: message */
/* coll_again.c - hands a short message over whole, and then announces it as well. */
#include "uds.h"

#include <stddef.h>

static int32_t again_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			    coll_sink_t *sink)
{
	const coll_host_t *real = bad_of(host)->real;

	if (header->len == 1 && real->size > offsetof(coll_host_t, message))
		real->message(real, peer, header, "?");
	return real->arrive(real, peer, header, sink);
}

#define BAD_NAME   "again"
#define BAD_ARRIVE again_arrive
#include "table.h"
