/* SPDX-License-Identifier: BSD-3-Clause */
/* message_words.c - what a message outside the order of the operations waits for, in words and as a position. */
#include "watch/message_words.h"
#include "watch/report.h"

#include <stdio.h>

int message_is_posted(const struct message *m)
{
	return m->args.kind == COLL_KIND_RECV && m->u.in.recv.state == RECV_POSTED;
}

struct record message_record(const struct message_args *a)
{
	return (struct record){.meta = {COLL_KIND_SEND | signature_dtype_bits(a->dtype)},
			       .count = a->count,
			       .seq_or_tag = (uint32_t)a->tag,
			       .peer = a->peer,
			       .kind = a->kind};
}

void message_describe(const struct lane *lane, const struct message_args *a, char *text,
		      size_t size)
{
	const struct rank_words ranks = signature_ranks(lane);
	const struct record record = message_record(a);

	words_message(&ranks, &record, text, size);
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
