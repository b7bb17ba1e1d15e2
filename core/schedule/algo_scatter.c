/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_scatter.c - the root's blocks to the ranks: each block by itself, or handed down a binomial tree. */
#include "schedule/algo.h"
#include "schedule/segment.h"

static void scatter_own(struct sched *s, const struct blocks *b)
{
	sched_copy(s, sched_slice(SCHED_RECV, 0),
		   sched_slice(SCHED_SEND, blocks_off(s, b, s->rank)), blocks_len(s, b, s->rank),
		   -1);
}

/* This builder also serves scatterv. */
void linear_scatter(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->sendcounts, w->senddispls);

	if (s->rank != w->root) {
		segment_recv(s, w->kind, w->root, sched_slice(SCHED_RECV, 0), w->count * s->elem,
			     -1);
		return;
	}
	for (int d = 1; d < s->nranks; d++) {
		int to = ring_rank(s, d);

		segment_send(s, w->kind, to, sched_slice(SCHED_SEND, blocks_off(s, &b, to)),
			     blocks_len(s, &b, to), -1);
	}
	scatter_own(s, &b);
}

void linear_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	c->messages = (uint64_t)nranks - 1;
	c->bytes = blocks_others(w->sendcounts, w->count, nranks, w->root) * elem;
}

/* Packs blocks that go on at rank 0 after the last rank's block.  `first` bytes come before rank 0's block. */
static int scatter_pack(struct sched *s, struct slice dst, struct slice src, size_t first,
			size_t len)
{
	struct slice rest = sched_slice(dst.buf, dst.off + first);
	int packed = sched_copy(s, dst, src, first, -1);

	return sched_copy(s, rest, sched_slice(src.buf, 0), len - first, packed);
}

static void scatter_root(struct sched *s, int root, size_t len)
{
	for (int child = tree_reach(s, 0) / 2; child; child /= 2) {
		int to = tree_rank(s, root, child), size = tree_size(s, child);
		int high = size < s->nranks - to ? size : s->nranks - to, packed = -1;
		struct slice src = sched_slice(SCHED_SEND, (size_t)to * len);
		size_t all = (size_t)size * len;

		if (high < size) {
			struct slice whole = sched_slice(SCHED_SCRATCH, sched_scratch(s, all));

			packed = scatter_pack(s, whole, src, (size_t)high * len, all);
			src = whole;
		}
		sched_send(s, to, src, all, packed);
	}
}

/* The part of an inner rank.  The message for its subtree begins with its own block. */
static void scatter_inner(struct sched *s, int root, int distance, size_t len)
{
	int size = tree_size(s, distance), reach = tree_reach(s, distance);
	size_t at = sched_scratch(s, (size_t)size * len);
	struct slice begin = sched_slice(SCHED_SCRATCH, at);
	int got =
		sched_recv(s, tree_rank(s, root, distance - reach), begin, (size_t)size * len, -1);

	for (int child = reach / 2; child; child /= 2)
		if (child < size)
			sched_send(s, tree_rank(s, root, distance + child),
				   sched_slice(SCHED_SCRATCH, at + (size_t)child * len),
				   (size_t)tree_size(s, distance + child) * len, got);
	sched_copy(s, sched_slice(SCHED_RECV, 0), begin, len, got);
}

void tree_scatter(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, NULL, NULL);
	int distance = tree_distance(s, w->root);
	size_t len = w->count * s->elem;

	if (!distance) {
		scatter_root(s, w->root, len);
		scatter_own(s, &b);
	} else if (tree_size(s, distance) > 1) {
		scatter_inner(s, w->root, distance, len);
	} else {
		sched_recv(s, tree_rank(s, w->root, distance - tree_reach(s, distance)),
			   sched_slice(SCHED_RECV, 0), len, -1);
	}
}

/* The messages of a gather, in the other direction. */
void tree_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_gather_cost(w, nranks, elem, c);
}
