/* SPDX-License-Identifier: BSD-3-Clause */
/* message_words.c - what a message outside the order of the operations waits for, in words and as a position. */
#include "watch/message_words.h"
#include "watch/report.h"

#include <stdio.h>

int message_is_posted(const struct message *m)
{
	return m->args.kind == COLL_KIND_RECV && m->u.in.recv.state == RECV_POSTED;
}

void message_describe(const struct lane *lane, const struct message_args *a, char *text,
		      size_t size)
{
	struct rank_name name;
	const char *peer = comm_rank_name(lane, a->peer, &name);
	char tag[32] = "any tag";

	if (a->tag != COLL_ANY_TAG)
		snprintf(tag, sizeof(tag), "tag %u", (uint32_t)a->tag);
	if (a->kind == COLL_KIND_NONE)
		snprintf(text, size, "coll_probe of a message from %s with %s", peer, tag);
	else
		snprintf(text, size, "%s of %zu %s %s %s with %s",
			 a->kind == COLL_KIND_SEND ? "coll_isend" : "coll_irecv", a->count,
			 coll_dtype_name(a->dtype), a->kind == COLL_KIND_SEND ? "to" : "from", peer,
			 tag);
}

void message_position(const struct lane *lane, struct position *position)
{
	const struct message *m =
		lane->messages.probing ? lane->messages.probing : lane->messages.recvs.first;

	if (!m)
		return;
	position->kind = lane->messages.probing ? POSITION_PROBE : POSITION_IRECV;
	position->meta[0] = m->u.in.recv.meta[0];
	position->meta[1] = m->args.count;
	position->peer = m->args.peer;
	position->seq_or_tag = (uint32_t)m->args.tag;
}
