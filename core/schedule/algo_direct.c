/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_direct.c - send and receive between two ranks. */
#include "schedule/algo.h"

/*
 * Sends a message longer than a segment in pieces, so that copies to and from a device overlap with the transfer.  A
 * message without bytes comes first.  Its tag is the caller's, and it tells the receiver which pieces follow.
 */
void direct_send(struct sched *s, const struct work *w)
{
	const size_t len = w->count * s->elem;
	const int pieces = sched_segments(s, len);

	if (pieces > 1)
		sched_send(s, w->root, sched_slice(SCHED_SEND, 0), 0, -1);
	for (int i = 0; i < pieces; i++)
		sched_send(s, w->root, sched_slice(SCHED_SEND, sched_segment_off(s, len, i)),
			   sched_segment_len(s, len, i), -1);
}

void direct_recv(struct sched *s, const struct work *w)
{
	const size_t len = w->count * s->elem;
	const int pieces = sched_segments(s, len);
	int first = -1;

	if (pieces > 1)
		first = sched_recv(s, w->root, sched_slice(SCHED_RECV, 0), 0, -1);
	for (int i = 0; i < pieces; i++)
		sched_recv(s, w->root, sched_slice(SCHED_RECV, sched_segment_off(s, len, i)),
			   sched_segment_len(s, len, i), first);
}

void direct_send_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	(void)nranks;
	*c = (struct cost){1, w->count * elem};
}

/* A receive costs no message: the send counts it. */
void direct_recv_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	(void)w;
	(void)nranks;
	(void)elem;
	*c = (struct cost){0, 0};
}
