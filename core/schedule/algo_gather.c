/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_gather.c - every rank's block to the root: each block by itself, or all blocks collected up a binomial tree. */
#include "schedule/algo.h"
#include "schedule/segment.h"

static void gather_own(struct sched *s, const struct blocks *b)
{
	sched_copy(s, sched_slice(SCHED_RECV, blocks_off(s, b, s->rank)),
		   sched_slice(SCHED_SEND, 0), blocks_len(s, b, s->rank), -1);
}

/* This builder also serves gatherv. */
void linear_gather(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->recvcounts, w->recvdispls);

	if (s->rank != w->root) {
		segment_send(s, w->kind, w->root, sched_slice(SCHED_SEND, 0), w->count * s->elem,
			     -1);
		return;
	}
	for (int d = 1; d < s->nranks; d++) {
		int from = ring_rank(s, d);

		segment_recv(s, w->kind, from, sched_slice(SCHED_RECV, blocks_off(s, &b, from)),
			     blocks_len(s, &b, from), -1);
	}
	gather_own(s, &b);
}

void linear_gather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	c->messages = (uint64_t)nranks - 1;
	c->bytes = blocks_others(w->recvcounts, w->count, nranks, w->root) * elem;
}

/*
 * Receives one message whose blocks go on at rank 0 after the last rank's block, and copies both parts to their places.
 * The first part has `first` bytes.
 */
static void gather_unpack(struct sched *s, int from, struct slice dst, size_t first, size_t len)
{
	struct slice src = sched_slice(SCHED_SCRATCH, sched_scratch(s, len));
	int got = sched_recv(s, from, src, len, -1);

	sched_copy(s, dst, src, first, got);
	src.off += first;
	sched_copy(s, sched_slice(dst.buf, 0), src, len - first, got);
}

static void gather_root(struct sched *s, int root, size_t len)
{
	for (int child = 1; child < s->nranks; child *= 2) {
		int from = tree_rank(s, root, child), size = tree_size(s, child);
		int high = size < s->nranks - from ? size : s->nranks - from;
		struct slice dst = sched_slice(SCHED_RECV, (size_t)from * len);
		size_t all = (size_t)size * len;

		if (high < size)
			gather_unpack(s, from, dst, (size_t)high * len, all);
		else
			sched_recv(s, from, dst, all, -1);
	}
}

/* The part of an inner rank.  It collects the blocks of its subtree in scratch memory, its own block first. */
static void gather_inner(struct sched *s, int root, int distance, size_t len)
{
	int size = tree_size(s, distance), reach = tree_reach(s, distance), first = s->nsteps;
	size_t at = sched_scratch(s, (size_t)size * len);
	struct slice begin = sched_slice(SCHED_SCRATCH, at);

	sched_copy(s, begin, sched_slice(SCHED_SEND, 0), len, -1);
	for (int child = 1; child < size; child *= 2)
		sched_recv(s, tree_rank(s, root, distance + child),
			   sched_slice(SCHED_SCRATCH, at + (size_t)child * len),
			   (size_t)tree_size(s, distance + child) * len, -1);
	sched_send(s, tree_rank(s, root, distance - reach), begin, (size_t)size * len,
		   sched_join(s, first));
}

void tree_gather(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, NULL, NULL);
	int distance = tree_distance(s, w->root);
	size_t len = w->count * s->elem;

	if (!distance) {
		gather_root(s, w->root, len);
		gather_own(s, &b);
	} else if (tree_size(s, distance) > 1) {
		gather_inner(s, w->root, distance, len);
	} else {
		sched_send(s, tree_rank(s, w->root, distance - tree_reach(s, distance)),
			   sched_slice(SCHED_SEND, 0), len, -1);
	}
}

/* A block makes one hop for every set bit of its distance. */
void tree_gather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t handed = 0;

	for (int d = 1; d < nranks; d++)
		handed += hops(d);
	*c = (struct cost){(uint64_t)nranks - 1, handed * w->count * elem};
}
