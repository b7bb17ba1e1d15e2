/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_tree.c - binomial trees: the parent of rank r (counted from the root) is r with its lowest
 * set bit cleared; its children are r + 1, r + 2, r + 4 ... below that bit.  Segments follow one
 * another through the tree.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

static void tree_broadcast_segment(struct sched *s, struct slice src, struct slice dst, size_t len,
				   int root)
{
	int distance = tree_distance(s, root);
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

/*
 * sum: memory for the sum of this rank's subtree; a leaf does not use it.  A rank adds its nearest child
 * first, so that with rank 0 as root the operands come in rank order.  Returns the last step.
 */
static int tree_reduce_segment(struct sched *s, struct slice own, struct slice sum, size_t len,
			       int root)
{
	int distance = tree_distance(s, root);
	int reach = tree_reach(s, distance);
	int made = -1;

	for (int child = 1; child < reach && distance + child < s->nranks; child *= 2) {
		made = sched_recv_reduce(s, tree_rank(s, root, distance + child), sum, own, 0, len,
					 made);
		own = sum;
	}
	if (distance)
		return sched_send(s, tree_rank(s, root, distance - reach), own, len, made);
	return sched_finish(s, sum, len, made);
}

/* Reduces up the tree to `top`, which sends the result to root. */
static void tree_reduce_over(struct sched *s, const struct work *w, int top)
{
	size_t len = w->count * s->elem;
	struct slice sum = sched_slice(SCHED_RECV, 0);

	if (s->rank != w->root)
		sum = sched_slice(SCHED_SCRATCH, sched_scratch(s, len));
	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g), part = sched_segment_len(s, len, g);
		struct slice at = sched_slice(sum.buf, sum.off + off);
		int last = tree_reduce_segment(s, sched_slice(SCHED_SEND, off), at, part, top);

		if (top != w->root && s->rank == top)
			sched_send(s, w->root, at, part, last);
		if (top != w->root && s->rank == w->root)
			sched_recv(s, top, at, part, last);
	}
}

void tree_reduce(struct sched *s, const struct work *w)
{
	tree_reduce_over(s, w, w->root);
}

void tree_reduce_ordered(struct sched *s, const struct work *w)
{
	tree_reduce_over(s, w, 0);
}

void tree_reduce_ordered_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_reduce_cost(w, nranks, elem, c);
	c->messages += w->root != 0;
	c->bytes += w->root != 0 ? w->count * elem : 0;
}

void tree_reduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_broadcast_cost(w, nranks, elem, c);
}
