/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_ring.c - rings: in each of nranks - 1 rounds a rank sends one block to the next rank and
 * receives one from the previous.  An allreduce moves 2 (n-1)/n of the data each way, the least
 * possible (Patarasuk and Yuan, 2009).
 *
 * Blocks are cut into segments.  Each segment is a chain of its own, so that receiving, reducing
 * and sending overlap.  Every round appends a send and a receive per segment, hence the number of
 * the step that did something in an earlier round is computed, not stored: ring_step().
 */
#include "algo.h"

struct ring {
	int next, previous;
	int segments; /* per block; the same for all blocks, so the last may be empty in some */
	int first;    /* the first step of round 0 */
};

enum { RING_SEND = 0, RING_RECV = 1 };

static struct ring ring_of(const struct sched *s, size_t longest_block)
{
	struct ring r;

	r.next = (s->rank + 1) % s->nranks;
	r.previous = (s->rank + s->nranks - 1) % s->nranks;
	r.segments = sched_segments(s, longest_block);
	r.first = s->nsteps;
	return r;
}

static int ring_step(const struct ring *r, int round, int segment, int what)
{
	return r->first + 2 * (round * r->segments + segment) + what;
}

/* The rank `back` places before this one. */
static int ring_back(const struct sched *s, int back)
{
	return ((s->rank - back) % s->nranks + s->nranks) % s->nranks;
}

/* Segment g of block b of an allreduce. */
static struct slice ring_part(const struct sched *s, uint32_t buf, size_t count, int b, int g)
{
	size_t len = sched_block_len(s, count, b);

	return sched_slice(buf, sched_block_off(s, count, b) + sched_segment_off(s, len, g));
}

static size_t ring_part_len(const struct sched *s, size_t count, int b, int g)
{
	return sched_segment_len(s, sched_block_len(s, count, b), g);
}

/* First half: each block goes once round the ring, every rank adding its part. */
static void ring_sum(struct sched *s, const struct ring *r, size_t count, int round, int g)
{
	int out = ring_back(s, round);
	int in = ring_back(s, round + 1);
	uint32_t from = round ? SCHED_RECV : SCHED_SEND;

	sched_send(s, r->next, ring_part(s, from, count, out, g), ring_part_len(s, count, out, g),
		   round ? ring_step(r, round - 1, g, RING_RECV) : -1);
	sched_recv_reduce(s, r->previous, ring_part(s, SCHED_RECV, count, in, g),
			  ring_part(s, SCHED_SEND, count, in, g), 0, ring_part_len(s, count, in, g),
			  -1);
}

/* Second half: the sums go round.  A block's place is free once its partial sum has been sent. */
static void ring_spread(struct sched *s, const struct ring *sum, const struct ring *r, size_t count,
			int round, int g, int ready)
{
	int out = ring_back(s, round - 1);
	int in = ring_back(s, round);

	sched_send(s, r->next, ring_part(s, SCHED_RECV, count, out, g),
		   ring_part_len(s, count, out, g), ready);
	sched_recv(s, r->previous, ring_part(s, SCHED_RECV, count, in, g),
		   ring_part_len(s, count, in, g), ring_step(sum, round, g, RING_SEND));
}

void ring_allreduce(struct sched *s, const struct work *w)
{
	size_t count = w->count;
	struct ring sum = ring_of(s, sched_block_len(s, count, 0));
	struct ring spread = sum;
	int last = s->nranks - 2;
	int own = ring_back(s, -1);
	int ready = -1; /* the last step before the second half, for the last segment */

	for (int round = 0; round <= last; round++)
		for (int g = 0; g < sum.segments; g++)
			ring_sum(s, &sum, count, round, g);
	for (int g = 0; g < sum.segments; g++)
		ready = sched_finish(s, ring_part(s, SCHED_RECV, count, own, g),
				     ring_part_len(s, count, own, g),
				     ring_step(&sum, last, g, RING_RECV));
	spread.first = s->nsteps;
	for (int round = 0; round <= last; round++)
		for (int g = 0; g < sum.segments; g++) {
			/* Finish steps, or else the receives they stand for, are evenly spaced. */
			int stride = s->finish ? 1 : 2;
			int made = round ? ring_step(&spread, round - 1, g, RING_RECV)
					 : ready - (sum.segments - 1 - g) * stride;

			ring_spread(s, &sum, &spread, count, round, g, made);
		}
}

void ring_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	*c = (struct cost){2 * n * (n - 1), 2 * (n - 1) * w->count * elem};
}

void ring_allgather(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	struct ring r;

	sched_copy(s, sched_slice(SCHED_RECV, (size_t)s->rank * len), sched_slice(SCHED_SEND, 0),
		   len, -1);
	r = ring_of(s, len);
	for (int round = 0; round < s->nranks - 1; round++)
		for (int g = 0; g < r.segments; g++) {
			size_t off = sched_segment_off(s, len, g);
			size_t part = sched_segment_len(s, len, g);
			size_t out = (size_t)ring_back(s, round) * len;
			size_t in = (size_t)ring_back(s, round + 1) * len;
			struct slice src = round ? sched_slice(SCHED_RECV, out + off)
						 : sched_slice(SCHED_SEND, off);

			sched_send(s, r.next, src, part,
				   round ? ring_step(&r, round - 1, g, RING_RECV) : -1);
			sched_recv(s, r.previous, sched_slice(SCHED_RECV, in + off), part, -1);
		}
}

void ring_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	*c = (struct cost){n * (n - 1), n * (n - 1) * w->count * elem};
}

/*
 * As the first half of an allreduce, placed so that block `rank` ends here.  Partial sums may not
 * be kept in the caller's send buffer: they alternate between two scratch blocks.
 */
void ring_reduce_scatter(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	struct ring r = ring_of(s, len);
	int last = s->nranks - 2;

	size_t scratch = sched_scratch(s, last > 0 ? 2 * len : 0);

	for (int round = 0; round <= last; round++)
		for (int g = 0; g < r.segments; g++) {
			size_t off = sched_segment_off(s, len, g);
			size_t part = sched_segment_len(s, len, g);
			size_t out = (size_t)ring_back(s, round + 1) * len;
			size_t in = (size_t)ring_back(s, round + 2) * len;
			size_t held = scratch + (size_t)((round + 1) % 2) * len; /* before */
			size_t made = scratch + (size_t)(round % 2) * len;

			sched_send(s, r.next,
				   round ? sched_slice(SCHED_SCRATCH, held + off)
					 : sched_slice(SCHED_SEND, out + off),
				   part, round ? ring_step(&r, round - 1, g, RING_RECV) : -1);
			sched_recv_reduce(s, r.previous,
					  round < last ? sched_slice(SCHED_SCRATCH, made + off)
						       : sched_slice(SCHED_RECV, off),
					  sched_slice(SCHED_SEND, in + off), 0, part,
					  round > 1 ? ring_step(&r, round - 1, g, RING_SEND) : -1);
		}
	for (int g = 0; g < r.segments; g++)
		sched_finish(s, sched_slice(SCHED_RECV, sched_segment_off(s, len, g)),
			     sched_segment_len(s, len, g), ring_step(&r, last, g, RING_RECV));
}

void ring_reduce_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	ring_allgather_cost(w, nranks, elem, c);
}
