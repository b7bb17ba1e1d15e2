/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_broadcast.c - broadcasts straight from root, and broadcasts of long messages, in which every rank sends about as
 * much.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

static void broadcast_root_copy(struct sched *s, const struct work *w, size_t len)
{
	if (s->rank == w->root)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SEND, 0), len, -1);
}

void linear_broadcast(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;

	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g), part = sched_segment_len(s, len, g);

		if (s->rank != w->root)
			sched_recv(s, w->root, sched_slice(SCHED_RECV, off), part, -1);
		for (int d = 1; s->rank == w->root && d < s->nranks; d++)
			sched_send(s, ring_rank(s, d), sched_slice(SCHED_SEND, off), part, -1);
	}
	broadcast_root_copy(s, w, len);
}

void linear_broadcast_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_broadcast_cost(w, nranks, elem, c);
}

/* Segments follow one another down a chain that begins at root. */
void chain_broadcast(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	int distance = tree_distance(s, w->root);

	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g), part = sched_segment_len(s, len, g);
		struct slice src = sched_slice(distance ? SCHED_RECV : SCHED_SEND, off);
		int got = -1;

		if (distance)
			got = sched_recv(s, ring_rank(s, -1), src, part, -1);
		if (distance < s->nranks - 1)
			sched_send(s, ring_rank(s, 1), src, part, got);
	}
	broadcast_root_copy(s, w, len);
}

/* Every rank but the root receives all data once. */
void chain_broadcast_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_broadcast_cost(w, nranks, elem, c);
}

/* Returns the bytes of the blocks of the subtree at `distance`. */
static size_t broadcast_subtree(const struct sched *s, const struct blocks *b, int distance)
{
	int last = distance + tree_size(s, distance) - 1;

	return blocks_off(s, b, last) + blocks_len(s, b, last) - blocks_off(s, b, distance);
}

/* Scatters down a binomial tree: each rank gets the blocks of its subtree, its own block first. */
static void broadcast_scatter(struct sched *s, const struct blocks *b, int root)
{
	int distance = tree_distance(s, root), reach = tree_reach(s, distance), got = -1;

	if (distance)
		got = sched_recv(s, tree_rank(s, root, distance - reach),
				 sched_slice(SCHED_RECV, blocks_off(s, b, distance)),
				 broadcast_subtree(s, b, distance), -1);
	for (int child = reach / 2; child; child /= 2) {
		int at = distance + child;
		uint32_t buf = distance ? SCHED_RECV : SCHED_SEND;

		if (at < s->nranks)
			sched_send(s, tree_rank(s, root, at),
				   sched_slice(buf, blocks_off(s, b, at)),
				   broadcast_subtree(s, b, at), got);
	}
}

/*
 * Van de Geijn's broadcast: scatter, then allgather round a ring (Thakur, Rabenseifner and Gropp,
 * 2005).  Blocks are numbered from the root.  The ring brings a rank the blocks of its subtree a
 * second time, so it begins when the rank has sent these blocks on.
 */
void scatter_allgather_broadcast(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_cut(s, w->count);
	int first = s->nsteps, mine = tree_distance(s, w->root);
	uint32_t buf = mine ? SCHED_RECV : SCHED_SEND;

	broadcast_scatter(s, &b, w->root);
	ring_pass(s, &b, mine, sched_slice(buf, blocks_off(s, &b, mine)), sched_join(s, first));
	if (!mine)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SEND, 0),
			   blocks_len(s, &b, 0), -1);
}

/* The tree carries a block once for every set bit of its distance. */
void scatter_allgather_broadcast_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks, each = w->count / n, longer = w->count % n;

	c->messages = (n - 1) + n * (n - 1);
	c->bytes = (n - 1) * w->count;
	for (int d = 1; d < nranks; d++)
		c->bytes += hops(d) * (each + ((uint64_t)d < longer));
	c->bytes *= elem;
}
