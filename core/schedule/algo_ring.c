/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_ring.c - reductions round a ring: in each of nranks - 1 rounds a rank sends one block to the
 * next rank and receives one block from the previous rank.  An allreduce moves 2 (n-1)/n of the
 * data each way, the least possible (Patarasuk and Yuan, 2009).
 *
 * Blocks are cut into segments, all blocks into as many as the longest block.  Each segment is a
 * chain of its own, so that receiving, reducing and sending overlap.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

/* Return where segment g of block i begins, and its length. */
static struct slice ring_part(const struct sched *s, uint32_t buf, const struct blocks *b, int i,
			      int g)
{
	return sched_slice(buf, blocks_off(s, b, i) + sched_segment_off(s, blocks_len(s, b, i), g));
}

static size_t ring_part_len(const struct sched *s, const struct blocks *b, int i, int g)
{
	return sched_segment_len(s, blocks_len(s, b, i), g);
}

/* Appends the first half: each block goes once round the ring, every rank adds its part, and block `rank` ends here. */
static int ring_sum(struct sched *s, const struct blocks *b, int g)
{
	int ready = -1;

	for (int round = 0; round < s->nranks - 1; round++) {
		int out = ring_rank(s, -round - 1), in = ring_rank(s, -round - 2);
		struct slice own = ring_part(s, SCHED_SEND, b, in, g);
		int sent = sched_send(s, ring_rank(s, 1),
				      ring_part(s, round ? SCHED_RECV : SCHED_SEND, b, out, g),
				      ring_part_len(s, b, out, g), ready);

		ready = sched_recv_reduce(s, ring_rank(s, -1), ring_part(s, SCHED_RECV, b, in, g),
					  own, 0, ring_part_len(s, b, in, g), -1);
		if (!round) {
			sched_unscaled(s, sent);
			sched_unscaled(s, ready);
		}
	}
	return sched_finish(s, ring_part(s, SCHED_RECV, b, s->rank, g),
			    ring_part_len(s, b, s->rank, g), ready);
}

/*
 * Appends the second half: the sums go round.  A block's memory is free once its partial sum has been sent.  Each round
 * since step `first` has appended that send and then a receive.
 */
static void ring_spread(struct sched *s, const struct blocks *b, int g, int ready, int first)
{
	for (int round = 0; round < s->nranks - 1; round++) {
		int out = ring_rank(s, -round), in = ring_rank(s, -round - 1);

		sched_send(s, ring_rank(s, 1), ring_part(s, SCHED_RECV, b, out, g),
			   ring_part_len(s, b, out, g), ready);
		ready = sched_recv(s, ring_rank(s, -1), ring_part(s, SCHED_RECV, b, in, g),
				   ring_part_len(s, b, in, g), first + 2 * round);
	}
}

void ring_allreduce(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_cut(s, w->count);
	int segments = sched_segments(s, blocks_longest(s, &b));

	for (int g = 0; g < segments; g++) {
		int first = s->nsteps;

		ring_spread(s, &b, g, ring_sum(s, &b, g), first);
	}
}

void ring_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	*c = (struct cost){2 * n * (n - 1), 2 * (n - 1) * w->count * elem};
}

/* ------------------------------------------------------------- reduce and scatter -- */

/*
 * Segments under way at a time.  A receive that waits for scratch memory waits for sends of this rank.  With at most two
 * sends from scratch memory for each segment, a rank stays within the 64 sends that may be under way.
 */
enum { RING_WINDOW = 32 };

/* The destination of this rank's own block, and scratch memory for two blocks on their way to other ranks. */
struct ring_buffers {
	struct slice own;
	size_t scratch, longest;
};

static struct slice ring_scratch(const struct sched *s, const struct ring_buffers *buffers,
				 int half, int g)
{
	return sched_slice(SCHED_SCRATCH, buffers->scratch + (size_t)half * buffers->longest +
						  sched_segment_off(s, buffers->longest, g));
}

/*
 * Appends a segment of the first half of an allreduce.  Partial sums must not lie in the caller's buffer, so they alternate
 * between two scratch blocks.
 */
static void ring_collect_segment(struct sched *s, const struct blocks *b, int g,
				 const struct ring_buffers *buffers, int after)
{
	struct slice sum = ring_part(s, SCHED_SEND, b, ring_rank(s, -1), g), own = buffers->own;
	int last = s->nranks - 2, ready = after, sent = after;

	own.off += sched_segment_off(s, blocks_len(s, b, s->rank), g);
	for (int round = 0; round <= last; round++) {
		int out = ring_rank(s, -round - 1), in = ring_rank(s, -round - 2);
		int sending =
			sched_send(s, ring_rank(s, 1), sum, ring_part_len(s, b, out, g), ready);

		sum = round < last ? ring_scratch(s, buffers, round % 2, g) : own;
		ready = sched_recv_reduce(s, ring_rank(s, -1), sum,
					  ring_part(s, SCHED_SEND, b, in, g), 0,
					  ring_part_len(s, b, in, g), round > 1 ? sent : after);
		if (!round) {
			sched_unscaled(s, sending);
			sched_unscaled(s, ready);
		}
		sent = sending;
	}
	sched_finish(s, own, ring_part_len(s, b, s->rank, g), ready);
}

static void ring_collect(struct sched *s, const struct blocks *b,
			 const struct ring_buffers *buffers)
{
	int segments = sched_segments(s, buffers->longest), first = s->nsteps, after = -1;

	for (int g = 0; g < segments; g++) {
		if (g && g % RING_WINDOW == 0) {
			after = sched_join(s, first);
			first = s->nsteps;
		}
		ring_collect_segment(s, b, g, buffers, after);
	}
}

/* This builder also serves reduce_scatterv. */
void ring_reduce_scatter(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->recvcounts, w->recvdispls);
	struct ring_buffers buffers = {.own = sched_slice(SCHED_RECV, 0),
				       .longest = blocks_longest(s, &b)};

	buffers.scratch = sched_scratch(s, s->nranks > 2 ? 2 * buffers.longest : 0);
	ring_collect(s, &b, &buffers);
}

/* Each block makes n - 1 hops. */
void ring_reduce_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	ring_allgather_cost(w, nranks, elem, c);
}

/*
 * A reduce-scatter, after which the blocks go to root.  In place the blocks overwrite root's own data,
 * so a rank sends its block only after all its other steps.
 */
void ring_reduce(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_cut(s, w->count);
	struct ring_buffers buffers = {.longest = blocks_longest(s, &b)};
	int first = s->nsteps, done;

	buffers.scratch = sched_scratch(s, 2 * buffers.longest);
	buffers.own = sched_slice(SCHED_RECV, blocks_off(s, &b, s->rank));
	if (s->rank != w->root)
		buffers.own = sched_slice(SCHED_SCRATCH, sched_scratch(s, buffers.longest));
	ring_collect(s, &b, &buffers);
	done = sched_join(s, first);
	if (s->rank != w->root)
		segment_send(s, w->kind, w->root, buffers.own, blocks_len(s, &b, s->rank), done);
	for (int r = 0; s->rank == w->root && r < s->nranks; r++)
		if (r != w->root)
			segment_recv(s, w->kind, r, sched_slice(SCHED_RECV, blocks_off(s, &b, r)),
				     blocks_len(s, &b, r), done);
}

/*
 * Thakur, Rabenseifner and Gropp, 2005, with a ring for the reduce-scatter; root's own block does
 * not travel at the end.
 */
void ring_reduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks, count = w->count;
	uint64_t own = count / n + ((uint64_t)w->root < count % n);

	*c = (struct cost){(n + 1) * (n - 1), (n * count - own) * elem};
}
