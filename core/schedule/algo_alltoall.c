/* SPDX-License-Identifier: BSD-3-Clause */
/* algo_alltoall.c - a block from every rank to every rank. */
#include "schedule/algo.h"
#include "schedule/segment.h"

/*
 * Sends a block.  In place it must leave its memory before the incoming block arrives there, so each piece is copied to
 * scratch and sent from there.
 */
static void pairwise_send(struct sched *s, const struct work *w, const struct blocks *out, int to)
{
	size_t len = blocks_len(s, out, to);
	struct slice src = sched_slice(SCHED_SEND, blocks_off(s, out, to));
	struct slice safe = sched_slice(SCHED_SCRATCH, w->in_place ? sched_scratch(s, len) : 0);

	if (!w->in_place) {
		segment_send(s, w->kind, to, src, len, -1);
		return;
	}
	for (int g = 0; g < segment_count(s, w->kind, len); g++) {
		size_t off = sched_segment_off(s, len, g), part = sched_segment_len(s, len, g);
		struct slice kept = sched_slice(SCHED_SCRATCH, safe.off + off);
		struct slice from = sched_slice(SCHED_SEND, src.off + off);

		sched_send(s, to, kept, part, sched_copy(s, kept, from, part, -1));
	}
}

/* Receives a block.  copied: in place, the first copy step of pairwise_send for that rank. */
static void pairwise_recv(struct sched *s, const struct work *w, const struct blocks *in, int from,
			  int copied)
{
	size_t len = blocks_len(s, in, from);
	struct slice dst = sched_slice(SCHED_RECV, blocks_off(s, in, from));

	if (!w->in_place) {
		segment_recv(s, w->kind, from, dst, len, -1);
		return;
	}
	for (int g = 0; g < segment_count(s, w->kind, len); g++)
		sched_recv(s, from, sched_slice(SCHED_RECV, dst.off + sched_segment_off(s, len, g)),
			   sched_segment_len(s, len, g), copied + 2 * g);
}

/*
 * Sends every block by itself, in rounds in which all partners are equally far away, so that at no time many ranks send to
 * one.  No round waits for another.  This builder also serves alltoallv.
 */
void pairwise_alltoall(struct sched *s, const struct work *w)
{
	struct blocks out = blocks_of(w->count, w->sendcounts, w->senddispls);
	struct blocks in = blocks_of(w->count, w->recvcounts, w->recvdispls);
	int copied;

	for (int d = 1; d < s->nranks; d++)
		pairwise_send(s, w, &out, ring_rank(s, d));
	copied = s->nsteps;
	for (int d = 1; d < s->nranks; d++) {
		int from = ring_rank(s, -d); /* the same rank is nranks - d ahead */

		copied -= 2 * segment_count(s, w->kind, blocks_len(s, &out, from));
		pairwise_recv(s, w, &in, from, copied);
	}
	sched_copy(s, sched_slice(SCHED_RECV, blocks_off(s, &in, s->rank)),
		   sched_slice(SCHED_SEND, blocks_off(s, &out, s->rank)),
		   blocks_len(s, &out, s->rank), -1);
}

void pairwise_alltoall_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	*c = (struct cost){n * (n - 1), n * (n - 1) * w->count * elem};
	if (!w->sendcounts)
		return;
	c->bytes = 0;
	for (int r = 0; r < nranks; r++)
		c->bytes += blocks_others(w->sendcounts + (size_t)r * n, 0, nranks, r) * elem;
}

/*
 * Bruck, Ho, Kipnis, Upfal and Weathersby, 1997: block i is for the rank i before this one.  In round k
 * a rank hands block i back over distance 2^k if i has bit k.  Each round packs its blocks into one
 * message, in the order of i.  Blocks go backwards so that those of a round come from ranks that follow one another.
 */
struct bruck {
	size_t len;    /* bytes of a block */
	size_t in[32]; /* offset in scratch of the blocks that each round received */
	int got[32];   /* the step that received the message of each round */
	int before; /* in place the last send, for which the next one and all results wait; else -1 */
};

/* Returns the highest set bit, 2^k; *round becomes k. */
static int bruck_top(int bits, int *round)
{
	*round = 31 - __builtin_clz((unsigned int)bits);
	return 1 << *round;
}

/* Returns the number of i < end with bit d: the blocks before block `end` in the message of distance d. */
static size_t bruck_count(int end, int d)
{
	const int past = end & (2 * d - 1), rest = past - d;

	return (size_t)((end - past) / 2 + (rest > 0 ? rest : 0));
}

/* Finds block i, which has travelled by `came` (the bits of i below the round's), and the step that received it. */
static struct slice bruck_find(const struct sched *s, const struct bruck *b, int i, int came,
			       int *got)
{
	int round, top;

	*got = -1;
	if (!came)
		return sched_slice(SCHED_SEND, (size_t)ring_rank(s, -i) * b->len);
	top = bruck_top(came, &round);
	*got = b->got[round];
	return sched_slice(SCHED_SCRATCH, b->in[round] + bruck_count(i, top) * b->len);
}

/*
 * Packs the blocks that have bit d.  Blocks that the same earlier round received last lie together, so one copy takes them:
 * `low` takes the values 0, 1, 2, 4 ...
 */
static void bruck_pack(struct sched *s, const struct bruck *b, size_t out, int d)
{
	for (int base = d; base < s->nranks; base += 2 * d)
		for (int low = 0, run = 1; low < d && base + low < s->nranks; low += run) {
			int i = base + low, rest = s->nranks - i, got;
			struct slice src = bruck_find(s, b, i, low, &got);

			run = low ? low : 1;
			sched_copy(s, sched_slice(SCHED_SCRATCH, out + bruck_count(i, d) * b->len),
				   src, (size_t)(run < rest ? run : rest) * b->len, got);
		}
}

static void bruck_round(struct sched *s, struct bruck *b, int d, int round, int in_place)
{
	size_t len = bruck_count(s->nranks, d) * b->len;
	size_t out = sched_scratch(s, len);
	int packed = s->nsteps, sent;

	bruck_pack(s, b, out, d);
	sent = sched_send(s, ring_rank(s, -d), sched_slice(SCHED_SCRATCH, out), len, b->before);
	for (; packed < sent; packed++)
		sched_after(s, sent, packed);
	b->before = in_place ? sent : -1;
	b->in[round] = sched_scratch(s, len);
	b->got[round] =
		sched_recv(s, ring_rank(s, d), sched_slice(SCHED_SCRATCH, b->in[round]), len, -1);
}

/* Copies blocks that a round received, from `src` on, to the blocks of the result from that of `rank` on. */
static void bruck_copy(struct sched *s, const struct bruck *b, int round, struct slice src,
		       int rank, int blocks)
{
	int step = sched_copy(s, sched_slice(SCHED_RECV, (size_t)rank * b->len), src,
			      (size_t)blocks * b->len, b->got[round]);

	sched_after(s, step, b->before);
}

/*
 * Copies the blocks that a round received for the last time, those of the ranks from distance d to before 2 d: they come first
 * in its message.
 */
static void bruck_unpack(struct sched *s, const struct bruck *b, int d, int round)
{
	const int from = ring_rank(s, d), n = s->nranks;
	const int blocks = d < n - d ? d : n - d, high = blocks < n - from ? blocks : n - from;
	struct slice src = sched_slice(SCHED_SCRATCH, b->in[round]);

	bruck_copy(s, b, round, src, from, high);
	src.off += (size_t)high * b->len;
	if (high < blocks)
		bruck_copy(s, b, round, src, 0, blocks - high);
}

void bruck_alltoall(struct sched *s, const struct work *w)
{
	struct bruck b = {.len = w->count * s->elem, .before = -1};
	size_t own = (size_t)s->rank * b.len;

	for (int d = 1, round = 0; d < s->nranks; d *= 2, round++)
		bruck_round(s, &b, d, round, w->in_place);
	for (int d = 1, round = 0; d < s->nranks; d *= 2, round++)
		bruck_unpack(s, &b, d, round);
	sched_copy(s, sched_slice(SCHED_RECV, own), sched_slice(SCHED_SEND, own), b.len, -1);
}

void bruck_alltoall_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks, handed = 0;

	for (int i = 1; i < nranks; i++)
		handed += hops(i);
	*c = (struct cost){n * rounds(nranks), n * handed * w->count * elem};
}
