/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * race.c - finds the events that certainly happen before another event.  Each step has two events,
 * start and completion.  A step starts after the steps that it waits for are complete, and
 * completes after it has started.  A receive completes after the matching send has started.  A send
 * may complete before its receive is posted (small messages do), so no other order is certain.
 *
 * A receive accesses memory only after it and the matching send have started.
 */
#include "prove/prove.h"

/* Pushes a step that has started.  The steps that made it start have then started too. */
static void race_push(struct prove *p, int step)
{
	if (p->event[step].seen == p->search)
		return;
	p->event[step].seen = p->search;
	p->stack[p->depth++] = step;
}

/* Returns the send that matches a receive; -1 for other steps. */
static int race_send_of(const struct prove *p, int step)
{
	return prove_is_recv(prove_step(p, step)) ? p->event[step].mate : -1;
}

/*
 * Searches backwards from the start of a step, through the steps of one rank.  Steps that completed
 * before `earlier` in the one known execution cannot depend on it, so the search skips them.
 */
static int race_locally(struct prove *p, int earlier, int start)
{
	int first = p->rank[p->event[earlier].owner].first;

	p->search++;
	p->depth = 0;
	race_push(p, start);
	while (p->depth > 0) {
		const coll_step_t *s = prove_step(p, p->stack[--p->depth]);

		for (uint32_t k = 0; k < s->after_count; k++) {
			int before = first + s->after[k];

			if (before == earlier)
				return 1;
			if (p->event[before].done > p->event[earlier].done)
				race_push(p, before);
		}
	}
	return 0;
}

/* Searches so through the steps of all ranks. */
static int race_globally(struct prove *p, int earlier, int start)
{
	p->search++;
	p->depth = 0;
	race_push(p, start);
	while (p->depth > 0) {
		int step = p->stack[--p->depth], first = p->rank[p->event[step].owner].first, send;
		const coll_step_t *s = prove_step(p, step);

		for (uint32_t k = 0; k < s->after_count; k++) {
			int before = first + s->after[k];

			if (before == earlier)
				return 1;
			if (p->event[before].done < p->event[earlier].done)
				continue;
			race_push(p, before);
			send = race_send_of(p, before);
			if (send >= 0 && p->event[send].started > p->event[earlier].done)
				race_push(p, send);
		}
	}
	return 0;
}

int prove_before(struct prove *p, int earlier, int later)
{
	int send = race_send_of(p, later);

	if (race_locally(p, earlier, later) || race_globally(p, earlier, later))
		return 1;
	return send >= 0 && race_globally(p, earlier, send);
}
