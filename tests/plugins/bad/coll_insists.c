/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: refuse */
/*
 * coll_insists.c - goes on to deliver messages of a rank after the host refused a message of that
 * rank.
 */
#include "uds.h"

/* Takes the refused message and drops its bytes. */
static int32_t insists_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			      coll_sink_t *sink)
{
	struct bad *b = bad_of(host);

	if (!b->real->arrive(b->real, peer, header, sink))
		return COLL_SUCCESS;
	free(b->memory);
	b->memory = malloc(header->len + 1);
	*sink = (coll_sink_t){.cookie = (uintptr_t)b, .buf = b->memory, .memory = COLL_MEM_HOST};
	return COLL_SUCCESS;
}

static void insists_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	struct bad *b = bad_of(host);

	if (cookie != (uintptr_t)b)
		b->real->arrived(b->real, cookie, status);
}

#define BAD_NAME    "insists"
#define BAD_ARRIVE  insists_arrive
#define BAD_ARRIVED insists_arrived
#include "table.h"
