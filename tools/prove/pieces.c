/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces.c - the order of the messages of a send or receive in pieces.
 *
 * The first message has no bytes; it tells the receiver the tag of the pieces.  All pieces have one tag, so the
 * first piece that is sent meets the first receive that is posted.  Hence the receives wait for the first
 * message, and pieces start in their order, whatever else they wait for.
 */
#include "prove/prove.h"

/* Does step i of a rank wait for step `earlier`, perhaps through other steps? */
static int pieces_wait(const struct prove_rank *r, int i, int earlier)
{
	const coll_step_t *s = &r->step[i];

	for (uint32_t k = 0; k < s->after_count; k++)
		if (s->after[k] == earlier ||
		    (s->after[k] < i && pieces_wait(r, s->after[k], earlier)))
			return 1;
	return 0;
}

/*
 * Returns the last step that a step waits for, or -1.  Copies in are complete in the order of their numbers, and the first
 * message of a receive is complete before any piece.  Reports a step that waits for any other step, since nobody knows when
 * that step is complete.
 */
static int pieces_after(struct prove *p, int actor, int i, int first)
{
	const struct prove_rank *r = &p->rank[actor];
	const coll_step_t *s = &r->step[i];
	int last = -1;

	for (uint32_t k = 0; k < s->after_count; k++) {
		int after = s->after[k];

		if (after == first)
			continue;
		if (r->step[after].kind != PROVE_COPY_IN)
			prove_fail_step(
				p, PROVE_MESSAGES, r->first + i,
				"is a piece that waits for step %d, and may so overtake another",
				after);
		last = after > last ? after : last;
	}
	return last;
}

static void pieces_check_one(struct prove *p, int actor, int i, int first, int *before)
{
	const struct prove_rank *r = &p->rank[actor];
	int after = pieces_after(p, actor, i, first);

	if (r->step[i].bytes > p->c->segment)
		prove_fail_step(p, PROVE_MESSAGES, r->first + i,
				"is a piece longer than a segment");
	if (r->step[i].kind != COLL_STEP_SEND && !pieces_wait(r, i, first))
		prove_fail_step(
			p, PROVE_MESSAGES, r->first + i,
			"is posted before the first message has told the tag of the pieces");
	if (after < *before)
		prove_fail_step(p, PROVE_MESSAGES, r->first + i,
				"may start before an earlier piece, whose tag it has");
	*before = after;
}

static void pieces_check(struct prove *p, int actor)
{
	const struct prove_rank *r = &p->rank[actor];
	int first = -1, before = -1;
	uint32_t message = 0;

	for (int i = 0; i < r->nsteps; i++) {
		if (!prove_is_message(&r->step[i]))
			continue;
		if (r->step[i].message != message++)
			prove_fail_step(p, PROVE_MESSAGES, r->first + i,
					"is appended in the place of message %u", message - 1);
		if (first >= 0) {
			pieces_check_one(p, actor, i, first, &before);
			continue;
		}
		first = i;
		if (i != 0 || r->step[i].bytes != 0)
			prove_fail_step(
				p, PROVE_MESSAGES, r->first + i,
				"is the first of several messages, but not an empty first step");
	}
}

void prove_pieces(struct prove *p)
{
	int messages = 0;

	for (int i = 0; i < p->rank[0].nsteps; i++)
		messages += prove_is_message(&p->rank[0].step[i]);
	if (messages < 2)
		return;
	for (int actor = 0; actor < p->nactors; actor++)
		pieces_check(p, actor);
}
