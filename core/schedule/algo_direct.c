/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_direct.c - operations of a single message. */
#include "schedule/algo.h"

void direct_send(struct sched *s, const struct work *w)
{
	sched_send(s, w->root, sched_slice(SCHED_SEND, 0), w->count * s->elem, -1);
}

void direct_recv(struct sched *s, const struct work *w)
{
	sched_recv(s, w->root, sched_slice(SCHED_RECV, 0), w->count * s->elem, -1);
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
