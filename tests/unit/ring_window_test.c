/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_window_test.c - in the schedules of the ring reductions a receive waits for sends of its own rank,
 * which free scratch memory.  The engine starts 64 sends of a rank at most; while receives are left, no
 * schedule wants to send more than 64 times from scratch memory, and longer ones use all 64.
 */
#include "../lib/tap.h"

#include "schedule/algo.h"

enum { ELEM = 4, SENDS = 64 /* STEPS_SENDS of compose/steps.c */, SEGMENTS = 100 };

/* A schedule being run: a step's state is the number of steps that it waits for, or one of these. */
enum { STEP_STARTED = -1, STEP_DONE = -2 };

struct progress {
	const struct sched *s;
	int *state;
	int receives; /* not complete yet */
	int sends;    /* from scratch memory, under way */
	int most;     /* the largest `sends` while receives were left */
	int done;
};

static int from_scratch(const struct step *step)
{
	return step->src.buf == SCHED_SCRATCH;
}

static void complete(struct progress *p, int i)
{
	p->state[i] = STEP_DONE;
	p->receives -= sched_is_recv(&p->s->step[i]);
	p->done++;
	for (int e = p->s->step[i].edge; e >= 0; e = p->s->edge[e].next)
		p->state[p->s->edge[e].later]--;
}

/* Starts every step that waits for nothing.  All but sends complete at once. */
static int start_ready(struct progress *p)
{
	int started = 0;

	for (int i = 0; i < p->s->nsteps; i++) {
		if (p->state[i])
			continue;
		started = 1;
		p->state[i] = STEP_STARTED;
		if (p->s->step[i].kind != STEP_SEND)
			complete(p, i);
		else if (from_scratch(&p->s->step[i]) && ++p->sends > p->most && p->receives)
			p->most = p->sends;
	}
	return started;
}

/* Completes the first or the last of the sends under way; 0 if there is none. */
static int complete_send(struct progress *p, int last)
{
	for (int k = 0; k < p->s->nsteps; k++) {
		int i = last ? p->s->nsteps - 1 - k : k;

		if (p->state[i] != STEP_STARTED)
			continue;
		p->sends -= from_scratch(&p->s->step[i]);
		complete(p, i);
		return 1;
	}
	return 0;
}

/* The most sends under way if a send completes only when nothing else can happen; -1 if steps remain. */
static int most_sends(const struct sched *s, int last)
{
	struct progress p = {.s = s, .state = calloc((size_t)s->nsteps, sizeof(*p.state))};

	if (!p.state)
		bail_out("no memory for %d steps", s->nsteps);
	for (int i = 0; i < s->nsteps; i++) {
		p.state[i] = (int)s->step[i].earlier;
		p.receives += sched_is_recv(&s->step[i]);
	}
	do
		while (start_ready(&p))
			;
	while (complete_send(&p, last));
	free(p.state);
	return p.done == s->nsteps ? p.most : -1;
}

static void test_window(const char *name, algo_build_fn build, const struct work *w, int nranks)
{
	/* The first send of a segment is from the caller's buffer; at most two of the others are under way. */
	const int expected = (nranks < 4 ? nranks - 2 : 2) * SENDS / 2;

	for (int rank = 0; rank < nranks; rank++)
		for (int last = 0; last < 2; last++) {
			struct sched s = {0};

			sched_reset(&s, rank, nranks, ELEM, ELEM);
			build(&s, w);
			is_int(s.error, COLL_SUCCESS, "%s, rank %d of %d: built", name, rank,
			       nranks);
			is_int(most_sends(&s, last), expected,
			       "%s, rank %d of %d, the %s send completes first: sends under way",
			       name, rank, nranks, last ? "last" : "first");
			sched_free(&s);
		}
}

int main(void)
{
	for (int nranks = 2; nranks <= 6; nranks++) {
		const struct work scatter = {.kind = COLL_KIND_REDUCE_SCATTER, .count = SEGMENTS};
		const struct work reduce = {.kind = COLL_KIND_REDUCE,
					    .count = (size_t)SEGMENTS * (size_t)nranks};

		test_window("reduce_scatter", ring_reduce_scatter, &scatter, nranks);
		test_window("reduce", ring_reduce, &reduce, nranks);
	}
	return done_testing();
}
