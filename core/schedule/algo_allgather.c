/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_allgather.c - every rank's block to every rank.  Each rank receives all blocks but its own.
 * The algorithms differ in the number of messages.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

/* Sends a block to the next rank.  Segment g waits for step `first` + g * `stride`. */
static void allgather_send(struct sched *s, struct slice src, size_t len, int first, int stride)
{
	for (int g = 0; g < sched_segments(s, len); g++) {
		struct slice at = sched_slice(src.buf, src.off + sched_segment_off(s, len, g));

		sched_send(s, ring_rank(s, 1), at, sched_segment_len(s, len, g),
			   first + g * stride);
	}
}

/*
 * Receives a block from the previous rank.  Returns the step of the first segment; the steps of the later segments follow
 * it.
 */
static int allgather_recv(struct sched *s, size_t off, size_t len, int after)
{
	int first = s->nsteps;

	for (int g = 0; g < sched_segments(s, len); g++) {
		struct slice at = sched_slice(SCHED_RECV, off + sched_segment_off(s, len, g));

		sched_recv(s, ring_rank(s, -1), at, sched_segment_len(s, len, g), after);
	}
	return first;
}

void ring_pass(struct sched *s, const struct blocks *b, int mine, struct slice own, int after)
{
	int n = s->nranks, out = mine, in, got = after;

	for (int round = 0; round < n - 1; round++, out = in) {
		struct slice src = sched_slice(SCHED_RECV, blocks_off(s, b, out));

		in = (out + n - 1) % n;
		allgather_send(s, round ? src : own, blocks_len(s, b, out), got, round > 0);
		got = allgather_recv(s, blocks_off(s, b, in), blocks_len(s, b, in), after);
	}
}

/* This builder also serves allgatherv. */
void ring_allgather(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->recvcounts, w->recvdispls);
	struct slice own = sched_slice(SCHED_SEND, 0);
	struct slice place = sched_slice(SCHED_RECV, blocks_off(s, &b, s->rank));

	sched_copy(s, place, own, blocks_len(s, &b, s->rank), -1);
	ring_pass(s, &b, s->rank, own, -1);
}

/* Every block travels n - 1 times, in messages of its own. */
void ring_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	c->messages = n * (n - 1);
	c->bytes = (n - 1) * blocks_others(w->recvcounts, w->count, nranks, -1) * elem;
}

/* Makes `step` wait for all receives so far: every round since step `first` appended a send and a receive. */
static void allgather_wait(struct sched *s, int step, int first)
{
	for (int got = first + 1; got < step; got += 2)
		sched_after(s, step, got);
}

/*
 * Recursive doubling (Thakur, Rabenseifner and Gropp, 2005): before the round of distance d a rank
 * has the d blocks of its aligned group of d ranks, and exchanges them for the blocks of the
 * neighbouring group.
 */
void double_allgather(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;
	struct slice own = sched_slice(SCHED_SEND, 0);
	int copied = sched_copy(s, sched_slice(SCHED_RECV, (size_t)s->rank * len), own, len, -1);
	int first = s->nsteps;

	for (int d = 1; d < s->nranks; d *= 2) {
		int partner = s->rank ^ d;
		size_t have = (size_t)(s->rank & -d) * len, want = (size_t)(partner & -d) * len;
		struct slice src = d > 1 ? sched_slice(SCHED_RECV, have) : own;
		int sent = sched_send(s, partner, src, (size_t)d * len, d > 1 ? copied : -1);

		allgather_wait(s, sent, first);
		sched_recv(s, partner, sched_slice(SCHED_RECV, want), (size_t)d * len, -1);
	}
}

/* The cost of Bruck's allgather for a power of two ranks. */
void double_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	bruck_allgather_cost(w, nranks, elem, c);
}

int bruck_collect(struct sched *s, size_t at, size_t len)
{
	struct slice begin = sched_slice(SCHED_SCRATCH, at);
	int own = sched_copy(s, begin, sched_slice(SCHED_SEND, 0), len, -1);
	int first = s->nsteps;

	for (int d = 1; d < s->nranks; d *= 2) {
		size_t part = (size_t)(d < s->nranks - d ? d : s->nranks - d) * len;
		int sent = sched_send(s, ring_rank(s, -d), begin, part, own);

		allgather_wait(s, sent, first);
		sched_recv(s, ring_rank(s, d), sched_slice(SCHED_SCRATCH, at + (size_t)d * len),
			   part, -1);
	}
	return sched_join(s, first);
}

/* Gathers the blocks in scratch memory; the last steps copy them to the receive buffer. */
void bruck_allgather(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem, n = (size_t)s->nranks, rank = (size_t)s->rank;
	size_t at = sched_scratch(s, n * len), high = (n - rank) * len;
	int all = bruck_collect(s, at, len);

	sched_copy(s, sched_slice(SCHED_RECV, rank * len), sched_slice(SCHED_SCRATCH, at), high,
		   all);
	if (rank)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SCRATCH, at + high),
			   rank * len, all);
}

void bruck_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t n = (uint64_t)nranks;

	*c = (struct cost){n * rounds(nranks), n * (n - 1) * w->count * elem};
}

/* This builder also serves allgatherv. */
void pairwise_allgather(struct sched *s, const struct work *w)
{
	struct blocks b = blocks_of(w->count, w->recvcounts, w->recvdispls);
	struct slice own = sched_slice(SCHED_SEND, 0);
	size_t len = blocks_len(s, &b, s->rank);

	for (int d = 1; d < s->nranks; d++)
		segment_send(s, w->kind, ring_rank(s, d), own, len, -1);
	for (int d = 1; d < s->nranks; d++) {
		int from = ring_rank(s, -d);

		segment_recv(s, w->kind, from, sched_slice(SCHED_RECV, blocks_off(s, &b, from)),
			     blocks_len(s, &b, from), -1);
	}
	sched_copy(s, sched_slice(SCHED_RECV, blocks_off(s, &b, s->rank)), own, len, -1);
}

/* The ring needs as many messages. */
void pairwise_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	ring_allgather_cost(w, nranks, elem, c);
}
