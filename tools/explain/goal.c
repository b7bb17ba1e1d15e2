/* SPDX-License-Identifier: BSD-3-Clause */
/* goal.c - the schedules of all ranks as GOAL, the input of the simulator LogGOPSim. */
#include <inttypes.h>
#include "explain/schedule.h"

static void goal_step(const struct schedule *s, int g, FILE *out)
{
	const struct prove *p = &s->prove;
	const coll_step_t *step = prove_step(p, g);
	const int i = g - p->rank[p->event[g].owner].first;
	const uint64_t bytes = step->bytes;

	/* GOAL has no message without bytes. */
	if (step->kind == COLL_STEP_SEND)
		fprintf(out, "l%d: send %" PRIu64 "b to %d tag %" PRIu32 "\n", i, bytes ? bytes : 1,
			step->peer, step->message);
	else if (prove_is_recv(step))
		fprintf(out, "l%d: recv %" PRIu64 "b from %d tag %" PRIu32 "\n", i,
			bytes ? bytes : 1, step->peer, step->message);
	else
		fprintf(out, "l%d: calc %" PRIu64 "\n", i, bytes);
	if (step->kind == COLL_STEP_RECV_REDUCE)
		fprintf(out, "r%d: calc %" PRIu64 "\nr%d requires l%d\n", i, bytes, i, i);
}

/* A step is complete when its data are: a receive that reduces, when the reduction is. */
static void goal_requires(const struct schedule *s, int g, FILE *out)
{
	const struct prove *p = &s->prove;
	const struct prove_rank *r = &p->rank[p->event[g].owner];
	const coll_step_t *step = prove_step(p, g);

	for (uint32_t k = 0; k < step->after_count; k++) {
		const int earlier = step->after[k];

		fprintf(out, "l%d requires %c%d\n", g - r->first,
			r->step[earlier].kind == COLL_STEP_RECV_REDUCE ? 'r' : 'l', earlier);
	}
}

void schedule_goal(const struct schedule *s, FILE *out)
{
	const struct prove *p = &s->prove;

	fprintf(out, "num_ranks %d\n", s->c.nranks);
	for (int i = 0; i < p->nactors; i++) {
		const struct prove_rank *r = &p->rank[i];

		fprintf(out, "\nrank %d {\n", r->rank);
		for (int g = r->first; g < r->first + r->nsteps; g++)
			goal_step(s, g, out);
		for (int g = r->first; g < r->first + r->nsteps; g++)
			goal_requires(s, g, out);
		fprintf(out, "}\n");
	}
}
