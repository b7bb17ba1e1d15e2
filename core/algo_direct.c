/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_direct.c - operations of a single message, or of none. */
#include "algo.h"

void direct_send(struct sched *s, size_t count, int peer)
{
	sched_send(s, peer, sched_slice(SCHED_SEND, 0), count * s->elem, -1);
}

void direct_recv(struct sched *s, size_t count, int peer)
{
	sched_recv(s, peer, sched_slice(SCHED_RECV, 0), count * s->elem, -1);
}

void direct_self(struct sched *s, size_t count, int reduces)
{
	struct slice dst = sched_slice(SCHED_RECV, 0);
	int copied = sched_copy(s, dst, sched_slice(SCHED_SEND, 0), count * s->elem, -1);

	if (reduces)
		sched_finish(s, dst, count * s->elem, copied);
}
