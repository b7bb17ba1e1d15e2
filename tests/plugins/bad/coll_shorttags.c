/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: header */
/* coll_shorttags.c - carries only 32 bits of a tag. */
#include "uds.h"

static int32_t shorttags_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
				coll_sink_t *sink)
{
	const coll_host_t *real = bad_of(host)->real;
	coll_header_t cut = *header;

	cut.tag &= UINT32_MAX;
	return real->arrive(real, peer, &cut, sink);
}

#define BAD_NAME   "shorttags"
#define BAD_ARRIVE shorttags_arrive
#include "table.h"
