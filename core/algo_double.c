/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_double.c - recursive doubling: log2(n) rounds, in each of which a rank exchanges all it has
 * with a partner twice as far away as before (Thakur, Rabenseifner and Gropp, 2005).
 */
#include "algo.h"

/*
 * If n is no power of two, the first 2 * extra ranks first pair up: the even ones lend their data
 * to their odd neighbours and get the result at the end.
 */
struct fold {
	int power; /* greatest power of two <= n */
	int extra; /* n - power */
	int rank;  /* among those who take part in the rounds, or -1 */
};

static struct fold fold_of(const struct sched *s)
{
	struct fold f = {.power = 1};

	while (f.power * 2 <= s->nranks)
		f.power *= 2;
	f.extra = s->nranks - f.power;
	if (s->rank >= 2 * f.extra)
		f.rank = s->rank - f.extra;
	else
		f.rank = s->rank % 2 ? s->rank / 2 : -1;
	return f;
}

static int fold_real_rank(const struct fold *f, int rank)
{
	return rank < f->extra ? 2 * rank + 1 : rank + f->extra;
}

/*
 * One round: what arrives goes to scratch, since the partner's data may come while ours is still
 * being read.  Both partners put the lower rank's data on the left, so both get the same bits.
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

/* Takes part in the rounds, beginning with what `own` holds once step `ready` is done. */
static void double_rounds(struct sched *s, const struct fold *f, struct slice own, size_t len,
			  int ready)
{
	size_t scratch = sched_scratch(s, 2 * len);
	int before = -1; /* the reduction that last read the scratch half now to be written */
	int half = 0;

	for (int distance = 1; distance < f->power; distance *= 2) {
		struct slice incoming = sched_slice(SCHED_SCRATCH, scratch + (half ? len : 0));
		int done = double_round(s, f, distance, own, incoming, len, ready, before);

		before = ready;
		ready = done;
		own = sched_slice(SCHED_RECV, 0);
		half = !half;
	}
	ready = sched_finish(s, sched_slice(SCHED_RECV, 0), len, ready);
	if (s->rank < 2 * f->extra)
		sched_send(s, s->rank - 1, sched_slice(SCHED_RECV, 0), len, ready);
}

void double_allreduce(struct sched *s, const struct work *w)
{
	struct slice own = sched_slice(SCHED_SEND, 0);
	struct fold f = fold_of(s);
	size_t len = w->count * s->elem;
	int ready = -1;
	if (f.rank < 0) {
		int sent = sched_send(s, s->rank + 1, own, len, -1);

		sched_recv(s, s->rank + 1, sched_slice(SCHED_RECV, 0), len, sent);
		return;
	}
	if (s->rank < 2 * f.extra) {
		ready = sched_recv_reduce(s, s->rank - 1, sched_slice(SCHED_RECV, 0), own, 1, len,
					  -1);
		own = sched_slice(SCHED_RECV, 0);
	}
	double_rounds(s, &f, own, len, ready);
}

void double_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t power = 1, rounds = 0;

	for (; power * 2 <= (uint64_t)nranks; power *= 2)
		rounds++;
	c->messages = power * rounds + 2 * ((uint64_t)nranks - power);
	c->bytes = c->messages * w->count * elem;
}

/* Every rank has heard, directly or not, from every other after ceil(log2 n) rounds. */
void dissemination_barrier(struct sched *s, const struct work *w)
{
	int heard = -1;

	(void)w;
	for (int distance = 1; distance < s->nranks; distance *= 2) {
		int to = (s->rank + distance) % s->nranks;
		int from = (s->rank - distance + s->nranks) % s->nranks;

		sched_send(s, to, sched_slice(SCHED_SEND, 0), 0, heard);
		heard = sched_recv(s, from, sched_slice(SCHED_RECV, 0), 0, heard);
	}
}

void dissemination_barrier_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t rounds = 0;

	(void)w;
	(void)elem;
	for (int distance = 1; distance < nranks; distance *= 2)
		rounds++;
	*c = (struct cost){(uint64_t)nranks * rounds, 0};
}
