/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_canonical.c - reductions in the one order and grouping of reproducible mode:
 *
 *   T(lo, hi), over ranks lo .. hi - 1, is rank lo's data if hi is lo + 1, else T(lo, lo + p) op
 *   T(lo + p, hi) with p the greatest power of two below hi - lo.
 *
 * A rank collects the data of all ranks, of all elements or of one block, and reduces them by
 * itself.  The price is scratch memory for nranks such blocks.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

/*
 * The collected data.  The data of rank r lies in slot (r - first) mod nranks, and is complete after step
 * got + r * each.
 */
struct canonical {
	size_t scratch, stride; /* bytes of a slot */
	size_t off, len;        /* offset, within each slot, of the data to reduce now */
	int first;
	int got, each;
};

static struct slice canonical_slot(const struct sched *s, const struct canonical *c, int rank)
{
	int slot = (rank - c->first + s->nranks) % s->nranks;

	return sched_slice(SCHED_SCRATCH, c->scratch + (size_t)slot * c->stride + c->off);
}

/* Reduces T(lo, hi) into dst; returns the last step. */
static int canonical_reduce(struct sched *s, const struct canonical *c, int lo, int hi,
			    struct slice dst)
{
	int p = 1, left, right, done;

	if (hi - lo == 1)
		return c->got + lo * c->each;
	while (p * 2 < hi - lo)
		p *= 2;
	left = canonical_reduce(s, c, lo, lo + p, canonical_slot(s, c, lo));
	right = canonical_reduce(s, c, lo + p, hi, canonical_slot(s, c, lo + p));
	done = sched_reduce(s, dst, canonical_slot(s, c, lo), canonical_slot(s, c, lo + p), c->len,
			    left);
	sched_after(s, done, right);
	return done;
}

/* ------------------------------------------------------------------------ short -- */

/* Every rank gathers all data by Bruck's allgather and reduces them. */
void canonical_gather_allreduce(struct sched *s, const struct work *w)
{
	struct canonical c = {.len = w->count * s->elem, .first = s->rank};
	struct slice result = sched_slice(SCHED_RECV, 0);

	c.stride = c.len;
	c.scratch = sched_scratch(s, (size_t)s->nranks * c.len);
	c.got = bruck_collect(s, c.scratch, c.len);
	sched_finish(s, result, c.len, canonical_reduce(s, &c, 0, s->nranks, result));
}

void canonical_gather_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	bruck_allgather_cost(w, nranks, elem, c);
}

/* ------------------------------------------------------------------------- long -- */

/* Collects segment g of this rank's block, of `own` bytes, from all ranks and reduces it into dst. */
static void canonical_segment(struct sched *s, struct canonical *c, struct slice own, size_t len,
			      int g, struct slice dst)
{
	int done;

	c->off = sched_segment_off(s, len, g);
	c->len = sched_segment_len(s, len, g);
	c->got = s->nsteps;
	own.off += c->off;
	dst.off += c->off;
	for (int r = 0; r < s->nranks; r++)
		if (r == s->rank)
			sched_copy(s, canonical_slot(s, c, r), own, c->len, -1);
		else
			sched_recv(s, r, canonical_slot(s, c, r), c->len, -1);
	done = canonical_reduce(s, c, 0, s->nranks, dst);
	sched_finish(s, dst, c->len, done);
}

/* Every rank sends every other rank the block that the receiver reduces, its neighbour's first. */
static void canonical_collect(struct sched *s, const struct blocks *b, struct slice dst)
{
	size_t len = blocks_len(s, b, s->rank);
	struct slice own = sched_slice(SCHED_SEND, blocks_off(s, b, s->rank));
	struct canonical c = {.stride = len, .each = 1};

	c.scratch = sched_scratch(s, (size_t)s->nranks * len);
	for (int g = 0; g < sched_segments(s, len); g++)
		canonical_segment(s, &c, own, len, g, dst);
	for (int i = 1; i < s->nranks; i++) {
		int to = ring_rank(s, i);
		size_t off = blocks_off(s, b, to);

		len = blocks_len(s, b, to);
		for (int g = 0; g < sched_segments(s, len); g++)
			sched_send(s, to,
				   sched_slice(SCHED_SEND, off + sched_segment_off(s, len, g)),
				   sched_segment_len(s, len, g), -1);
	}
}

/* This builder also serves reduce_scatterv. */
void canonical_reduce_scatter(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->recvcounts, w->recvdispls);

	canonical_collect(s, &b, sched_slice(SCHED_RECV, 0));
}

/* Each of n ranks gets its block from n - 1 others. */
void canonical_reduce_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	ring_reduce_scatter_cost(w, nranks, elem, c);
}

/* ---------------------------------------------------------------------- to root -- */

void linear_reduce(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	struct slice own = sched_slice(SCHED_SEND, 0);
	struct canonical c = {.stride = len, .each = 1};

	if (s->rank != w->root) {
		for (int g = 0; g < sched_segments(s, len); g++)
			sched_send(s, w->root, sched_slice(own.buf, sched_segment_off(s, len, g)),
				   sched_segment_len(s, len, g), -1);
		return;
	}
	c.scratch = sched_scratch(s, (size_t)s->nranks * len);
	for (int g = 0; g < sched_segments(s, len); g++)
		canonical_segment(s, &c, own, len, g, sched_slice(SCHED_RECV, 0));
}

void linear_reduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	tree_reduce_cost(w, nranks, elem, c);
}

/* In place a block's sum arrives in the memory from which the block was sent, so the ring waits for the sends. */
void canonical_scatter_allreduce(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_cut(s, w->count);
	struct slice own = sched_slice(SCHED_RECV, blocks_off(s, &b, s->rank));
	int first = s->nsteps;

	canonical_collect(s, &b, own);
	ring_pass(s, &b, s->rank, own, sched_join(s, first));
}

/* The blocks go to their ranks, then round the ring: as many messages and bytes as twice round the ring. */
void canonical_scatter_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	ring_allreduce_cost(w, nranks, elem, c);
}
