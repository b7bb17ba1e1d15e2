/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_scan.c - scan and exscan: they reduce the inputs of the ranks up to this rank, or before it,
 * in rank order.
 *
 * Doubling: in the round of distance d each rank knows the sum of its block of d ranks, which begins at a
 * multiple of d.  Two neighbouring blocks make one block of the next round.  The ranks of the upper block
 * add the sum of the lower block to their results, on the left.  So the result has the grouping of
 * reproducible mode.
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

/* ---------------------------------------------------------------------- doubling -- */

struct scan {
	struct sched *s;
	size_t len;
	struct slice block;  /* the sum of this rank's block, complete after step block_ready */
	struct slice result; /* the result so far, complete after step result_ready */
	int block_ready, result_ready;
	int has_result; /* 0: an exscan that no lower block has been added to */
	int same; /* 1: block and result are the same bytes, since this rank is the last of its block */
	int sent;        /* the last send that reads the block, or -1 */
	size_t scratch;  /* scratch memory for a block and for two incoming blocks, */
	int has_scratch; /* 1: from the first exchange on */
	int half; /* half for the next incoming block; below: the last reader of each half, or -1 */
	int last_reader[2];
};

static struct scan scan_begin(struct sched *s, const struct work *w, int has_result)
{
	return (struct scan){.s = s,
			     .len = w->count * s->elem,
			     .block = sched_slice(SCHED_SEND, 0),
			     .result = sched_slice(SCHED_SEND, 0),
			     .block_ready = -1,
			     .result_ready = -1,
			     .has_result = has_result,
			     .same = has_result,
			     .sent = -1,
			     .last_reader = {-1, -1}};
}

/* Makes a step, which overwrites the block or the result, wait for their last readers.  Returns the step. */
static int scan_wait(const struct scan *c, int step)
{
	sched_after(c->s, step, c->sent);
	sched_after(c->s, step, c->block_ready);
	sched_after(c->s, step, c->result_ready);
	return step;
}

/* Adds the sum of the lower block, which step `got` completes, to the result. */
static void scan_add(struct scan *c, struct slice incoming, int got)
{
	const struct slice recv = sched_slice(SCHED_RECV, 0);
	int step = c->has_result ? sched_reduce(c->s, recv, incoming, c->result, c->len, got)
				 : sched_copy(c->s, recv, incoming, c->len, got);

	c->result_ready = scan_wait(c, step);
	c->result = recv;
	c->has_result = 1;
	if (!c->same)
		return;
	c->block = recv;
	c->block_ready = step;
}

/* Adds the incoming block to this rank's block. */
static void scan_join(struct scan *c, struct slice incoming, int is_upper, int got)
{
	const struct slice joined = sched_slice(SCHED_SCRATCH, c->scratch);
	int step = sched_reduce(c->s, joined, is_upper ? incoming : c->block,
				is_upper ? c->block : incoming, c->len, got);

	sched_after(c->s, step, c->sent);
	sched_after(c->s, step, c->block_ready);
	c->block = joined;
	c->block_ready = step;
	c->same = 0;
}

/* Exchanges the sums with the partner: both ranks need them, since another block follows theirs. */
static void scan_exchange(struct scan *c, int partner)
{
	const int is_upper = partner < c->s->rank, half = c->half;
	struct slice incoming;
	int got;

	if (!c->has_scratch)
		c->scratch = sched_scratch(c->s, 3 * c->len);
	c->has_scratch = 1;
	incoming = sched_slice(SCHED_SCRATCH, c->scratch + (size_t)(1 + half) * c->len);
	c->sent = sched_send(c->s, partner, c->block, c->len, c->block_ready);
	got = sched_recv(c->s, partner, incoming, c->len, c->last_reader[half]);
	if (!is_upper || !c->same)
		scan_join(c, incoming, is_upper, got);
	if (is_upper)
		scan_add(c, incoming, got);
	c->last_reader[half] = is_upper ? c->result_ready : c->block_ready;
	c->half = !half;
}

/* Adds the sum of the lower block straight to the result.  No rank asks for the sum of both blocks. */
static void scan_take(struct scan *c, int partner)
{
	const struct slice recv = sched_slice(SCHED_RECV, 0);
	int step = c->has_result ? sched_recv_reduce(c->s, partner, recv, c->result, 1, c->len, -1)
				 : sched_recv(c->s, partner, recv, c->len, -1);

	c->result_ready = scan_wait(c, step);
	c->result = recv;
	c->has_result = 1;
}

static void scan_rounds(struct scan *c)
{
	struct sched *s = c->s;

	for (int distance = 1; distance < s->nranks; distance *= 2) {
		const int partner = s->rank ^ distance;
		const int end = (s->rank | (2 * distance - 1)) + 1; /* of both blocks */

		if (partner >= s->nranks)
			continue;
		if (end < s->nranks)
			scan_exchange(c, partner);
		else if (partner < s->rank)
			scan_take(c, partner);
		else
			c->sent = sched_send(s, partner, c->block, c->len, c->block_ready);
	}
}

void doubling_scan(struct sched *s, const struct work *w)
{
	struct scan c = scan_begin(s, w, 1);

	scan_rounds(&c);
	if (!s->rank)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SEND, 0), c.len, -1);
}

void doubling_exscan(struct sched *s, const struct work *w)
{
	struct scan c = scan_begin(s, w, 0);

	scan_rounds(&c);
}

void doubling_scan_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	*c = (struct cost){0, 0};
	for (int distance = 1; distance < nranks; distance *= 2)
		for (int lower = 0; lower + distance < nranks; lower++)
			if (!(lower & distance))
				c->messages += (lower | (2 * distance - 1)) + 1 < nranks ? 2 : 1;
	c->bytes = c->messages * w->count * elem;
}

/* ------------------------------------------------------------------------- chain -- */

static void chain_scan_segment(struct sched *s, size_t off, size_t len)
{
	const struct slice own = sched_slice(SCHED_SEND, off), sum = sched_slice(SCHED_RECV, off);
	int got = -1;

	if (s->rank)
		got = sched_recv_reduce(s, s->rank - 1, sum, own, 1, len, -1);
	if (s->rank < s->nranks - 1)
		sched_send(s, s->rank + 1, s->rank ? sum : own, len, got);
}

void chain_scan(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem;

	for (int g = 0; g < sched_segments(s, len); g++)
		chain_scan_segment(s, sched_segment_off(s, len, g), sched_segment_len(s, len, g));
	if (!s->rank)
		sched_copy(s, sched_slice(SCHED_RECV, 0), sched_slice(SCHED_SEND, 0), len, -1);
}

/* In place the sum of the lower ranks must not overwrite this rank's input before the input has been added. */
static void chain_exscan_segment(struct sched *s, size_t off, size_t len, struct slice sum,
				 struct slice incoming)
{
	const struct slice own = sched_slice(SCHED_SEND, off), recv = sched_slice(SCHED_RECV, off);
	int got, added;

	if (!s->rank) {
		sched_send(s, 1, own, len, -1);
	} else if (s->rank == s->nranks - 1) {
		sched_recv(s, s->rank - 1, recv, len, -1);
	} else {
		got = sched_recv(s, s->rank - 1, incoming, len, -1);
		added = sched_reduce(s, sum, incoming, own, len, got);
		sched_send(s, s->rank + 1, sum, len, added);
		if (incoming.buf != SCHED_RECV)
			sched_copy(s, recv, incoming, len, added);
	}
}

void chain_exscan(struct sched *s, const struct work *w)
{
	size_t len = w->count * s->elem, scratch = 0;

	if (s->rank && s->rank < s->nranks - 1)
		scratch = sched_scratch(s, (w->in_place ? 2 : 1) * len);
	for (int g = 0; g < sched_segments(s, len); g++) {
		size_t off = sched_segment_off(s, len, g);
		struct slice incoming = w->in_place
						? sched_slice(SCHED_SCRATCH, scratch + len + off)
						: sched_slice(SCHED_RECV, off);

		chain_exscan_segment(s, off, sched_segment_len(s, len, g),
				     sched_slice(SCHED_SCRATCH, scratch + off), incoming);
	}
}

void chain_scan_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	*c = (struct cost){(uint64_t)nranks - 1, ((uint64_t)nranks - 1) * w->count * elem};
}
