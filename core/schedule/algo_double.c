/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_double.c - recursive doubling: in each of log2(n) rounds a rank exchanges all its data with
 * a partner twice as far away as before (Thakur, Rabenseifner and Gropp, 2005).
 */
#include "schedule/algo.h"
#include "schedule/segment.h"

/*
 * Appends one round.  The partner's data goes to scratch, because it may arrive while this rank's data is
 * still being read.  Both partners put the lower rank's data on the left, so both get the same bits.
 */
static int double_round(struct sched *s, const struct fold *f, int distance, struct slice own,
			struct slice incoming, size_t len, int ready, int free)
{
	struct slice sum = sched_slice(SCHED_RECV, 0);
	int partner = fold_real_rank(f, f->rank ^ distance);
	int sent = sched_send(s, partner, own, len, ready);
	int got = sched_recv(s, partner, incoming, len, free);
	int lower = (f->rank & distance) == 0;
	int done = sched_reduce(s, sum, lower ? own : incoming, lower ? incoming : own, len, got);

	sched_after(s, done, sent);
	sched_after(s, done, ready);
	return done;
}

/*
 * Appends the first round of a rank whose input the sum does not overwrite.  The rank adds the partner's data as it
 * arrives.
 */
static int double_first_round(struct sched *s, const struct fold *f, size_t len)
{
	struct slice own = sched_slice(SCHED_SEND, 0);
	int partner = fold_real_rank(f, f->rank ^ 1);

	sched_send(s, partner, own, len, -1);
	return sched_recv_reduce(s, partner, sched_slice(SCHED_RECV, 0), own, f->rank & 1, len, -1);
}

void double_allreduce(struct sched *s, const struct work *w)
{
	struct fold f = fold_of(s->rank, s->nranks);
	struct slice sum = sched_slice(SCHED_RECV, 0), own = sched_slice(SCHED_SEND, 0);
	size_t len = w->count * s->elem, scratch;
	int ready = -1;  /* the step that completes the data at `own` */
	int before = -1; /* the last reduction that read this round's half of the scratch memory */
	int distance = 1;

	if (f.rank < 0) {
		fold_lend(s, len, len);
		return;
	}
	if (f.lender >= 0) {
		ready = fold_borrow(s, &f, sum, len);
		own = sum;
	} else if (!w->in_place) {
		ready = double_first_round(s, &f, len);
		own = sum;
		distance = 2;
	}
	scratch = distance < f.power ? sched_scratch(s, 2 * len) : 0;
	for (int half = 0; distance < f.power; distance *= 2, half = !half) {
		struct slice incoming = sched_slice(SCHED_SCRATCH, scratch + (half ? len : 0));
		int done = double_round(s, &f, distance, own, incoming, len, ready, before);

		before = ready;
		ready = done;
		own = sum;
	}
	ready = sched_finish(s, sum, len, ready);
	if (f.lender >= 0)
		sched_send(s, f.lender, sum, len, ready);
}

void double_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	int power = fold_of(0, nranks).power;

	c->messages = (uint64_t)power * rounds(power) + 2 * (uint64_t)(nranks - power);
	c->bytes = c->messages * w->count * elem;
}

/* After ceil(log2 n) rounds every rank has heard of every other rank, directly or through others. */
void dissemination_barrier(struct sched *s, const struct work *w)
{
	int got = -1;

	(void)w;
	for (int distance = 1; distance < s->nranks; distance *= 2) {
		int to = (s->rank + distance) % s->nranks;
		int from = (s->rank - distance + s->nranks) % s->nranks;

		sched_send(s, to, sched_slice(SCHED_SEND, 0), 0, got);
		got = sched_recv(s, from, sched_slice(SCHED_RECV, 0), 0, got);
	}
}

void dissemination_barrier_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	(void)w;
	(void)elem;
	*c = (struct cost){(uint64_t)nranks * rounds(nranks), 0};
}
