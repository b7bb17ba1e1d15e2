/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.c - checks that no rank leaves a barrier before all ranks have entered.  `entered` holds for each step
 * the ranks that have certainly entered when the step is complete.
 */
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

static void barrier_step(struct prove *p, uint8_t *entered, size_t n, int step)
{
	const struct prove_rank *r = &p->rank[p->event[step].owner];
	const coll_step_t *s = prove_step(p, step);
	uint8_t *row = entered + n * (size_t)step;

	row[p->event[step].owner] = 1;
	for (uint32_t k = 0; k < s->after_count; k++)
		for (size_t i = 0; i < n; i++)
			row[i] |= entered[n * (size_t)(r->first + s->after[k]) + i];
	if (s->kind == COLL_STEP_RECV)
		for (size_t i = 0; i < n; i++)
			row[i] |= entered[n * (size_t)p->event[step].mate + i];
}

static void barrier_leave(struct prove *p, const uint8_t *entered, size_t n,
			  const struct prove_rank *r)
{
	for (size_t i = 0; i < n; i++) {
		int has = r->rank == (int)i;

		for (int k = 0; k < r->nsteps && !has; k++)
			has = entered[n * (size_t)(r->first + k) + i];
		if (!has)
			prove_fail(p, PROVE_RESULT, "rank %d may leave before rank %d has entered",
				   r->rank, (int)i);
	}
}

void prove_barrier(struct prove *p)
{
	size_t n = (size_t)p->nactors;
	int cap = 0;
	uint8_t *entered = tool_grow(NULL, &cap, p->nsteps + 1, n);

	memset(entered, 0, n * (size_t)p->nsteps);
	/*
	 * When a send completes, that send and all steps before it have started; nothing else is
	 * certain.
	 */
	for (int k = 0; k < p->ordered; k++)
		barrier_step(p, entered, n, p->order[k]);
	for (int i = 0; i < p->nactors; i++)
		barrier_leave(p, entered, n, &p->rank[i]);
	free(entered);
}
