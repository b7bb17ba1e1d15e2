/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_tree.c - binomial trees: rank r (counted from the root) has as parent r with its lowest set
 * bit cleared, as children r + 1, r + 2, r + 4 ... below that bit.  Segments follow one another
 * through the tree.
 */
#include "algo.h"

/* The lowest set bit of the distance from the root; for the root a power of two >= nranks. */
static int tree_reach(const struct sched *s, int distance)
{
	int reach = 1;

	while (reach < s->nranks && !(distance & reach))
		reach *= 2;
	return reach;
}

static int tree_rank(const struct sched *s, int root, int distance)
{
	return (root + distance) % s->nranks;
}

static void tree_broadcast_segment(struct sched *s, struct slice src, struct slice dst, size_t len,
				   int root)
{
	int distance = (s->rank - root + s->nranks) % s->nranks;
	int reach = tree_reach(s, distance);
	int got = -1;

	if (distance)
		got = sched_recv(s, tree_rank(s, root, distance - reach), dst, len, -1);
	for (int child = reach / 2; child; child /= 2)
		if (distance + child < s->nranks)
			sched_send(s, tree_rank(s, root, distance + child), distance ? dst : src,
				   len, got);
}

void tree_broadcast(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;

	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g);

		tree_broadcast_segment(s, sched_slice(SCHED_SEND, off),
				       sched_slice(SCHED_RECV, off), sched_segment_len(s, len, g),
				       w->root);
	}
	if (s->rank == w->root)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SEND, 0), len, -1);
}

void tree_broadcast_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	*c = (struct cost){(uint64_t)nranks - 1, ((uint64_t)nranks - 1) * w->count * elem};
}

/* sum: where this rank gathers its subtree; unused by a leaf. */
static void tree_reduce_segment(struct sched *s, struct slice own, struct slice sum, size_t len,
				int root)
{
	int distance = (s->rank - root + s->nranks) % s->nranks;
	int reach = tree_reach(s, distance);
	int made = -1;

	for (int child = 1; child < reach && distance + child < s->nranks; child *= 2) {
		made = sched_recv_reduce(s, tree_rank(s, root, distance + child), sum, own, 0, len,
					 made);
		own = sum;
	}
	if (distance)
		sched_send(s, tree_rank(s, root, distance - reach), own, len, made);
	else
		sched_finish(s, sum, len, made);
}

void tree_reduce(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	struct slice sum = sched_slice(SCHED_RECV, 0);

	if (s->rank != w->root)
		sum = sched_slice(SCHED_SCRATCH, sched_scratch(s, len));
	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g);

		tree_reduce_segment(s, sched_slice(SCHED_SEND, off),
				    sched_slice(sum.buf, sum.off + off),
				    sched_segment_len(s, len, g), w->root);
	}
}

void tree_reduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_broadcast_cost(w, nranks, elem, c);
}
