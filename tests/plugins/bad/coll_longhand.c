/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: bounds */
/* coll_longhand.c - writes one byte beyond the buffer of a message. */
#include "uds.h"

static int32_t longhand_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			       coll_sink_t *sink)
{
	const coll_host_t *real = bad_of(host)->real;
	int32_t code = real->arrive(real, peer, header, sink);

	if (!code && sink->buf)
		((char *)sink->buf)[header->len] = 0;
	return code;
}

#define BAD_NAME   "longhand"
#define BAD_ARRIVE longhand_arrive
#include "table.h"
