/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.c - building schedules: appending steps and the order between them. */
#include "schedule/sched.h"
#include "base/array.h"

#include <coll/coll.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

void sched_reset(struct sched *s, int rank, int nranks, size_t elem, size_t segment)
{
	s->rank = rank;
	s->nranks = nranks;
	s->part = (struct sched_part){.rank = rank, .nranks = nranks, .after = -1, .first = -1};
	s->elem = elem;
	s->segment = segment > elem ? segment - segment % elem : elem;
	s->scratch = 0;
	s->error = COLL_SUCCESS;
	s->finish = 0;
	s->scale = 0;
	s->nsteps = 0;
	s->nedges = 0;
}

void sched_free(struct sched *s)
{
	free(s->step);
	free(s->edge);
	memset(s, 0, sizeof(*s));
}

struct slice sched_slice(uint32_t buf, size_t off)
{
	return (struct slice){.buf = buf, .off = off};
}

void sched_after(struct sched *s, int step, int earlier)
{
	struct sched_edge *edge, *e;

	if (s->error || step < 0 || earlier < 0)
		return;
	edge = array_grow(s->edge, s->nedges, &s->cap_edges, sizeof(*edge));
	if (!edge) {
		s->error = COLL_ERR_NO_MEMORY;
		return;
	}
	s->edge = edge;
	e = &edge[s->nedges];
	e->later = step;
	e->next = -1;
	if (s->step[earlier].edge < 0)
		s->step[earlier].edge = s->nedges;
	else
		s->edge[s->step[earlier].last_edge].next = s->nedges;
	s->step[earlier].last_edge = s->nedges++;
	s->step[step].earlier++;
}

static int sched_add(struct sched *s, struct step step, int after)
{
	struct step *steps;

	if (s->error)
		return -1;
	steps = array_grow(s->step, s->nsteps, &s->cap_steps, sizeof(*steps));
	if (!steps) {
		s->error = COLL_ERR_NO_MEMORY;
		return -1;
	}
	s->step = steps;
	step.edge = -1;
	s->step[s->nsteps++] = step;
	sched_after(s, s->nsteps - 1, after < 0 ? s->part.after : after);
	return s->nsteps - 1;
}

int sched_send(struct sched *s, int peer, struct slice src, size_t len, int after)
{
	return sched_add(s, (struct step){STEP_SEND, peer, .src = src, .len = len}, after);
}

int sched_recv(struct sched *s, int peer, struct slice dst, size_t len, int after)
{
	return sched_add(s, (struct step){STEP_RECV, peer, .dst = dst, .len = len}, after);
}

int sched_recv_reduce(struct sched *s, int peer, struct slice dst, struct slice own, int swapped,
		      size_t len, int after)
{
	return sched_add(s,
			 (struct step){STEP_RECV_REDUCE, peer, .dst = dst, .src = own,
				       .swapped = swapped, .len = len},
			 after);
}

int sched_reduce(struct sched *s, struct slice dst, struct slice a, struct slice b, size_t len,
		 int after)
{
	return sched_add(
		s, (struct step){STEP_REDUCE, -1, .dst = dst, .src = a, .other = b, .len = len},
		after);
}

int sched_copy(struct sched *s, struct slice dst, struct slice src, size_t len, int after)
{
	return sched_add(s, (struct step){STEP_COPY, -1, .dst = dst, .src = src, .len = len},
			 after);
}

int sched_finish(struct sched *s, struct slice dst, size_t len, int after)
{
	return s->finish
		       ? sched_add(s, (struct step){STEP_FINISH, -1, .dst = dst, .len = len}, after)
		       : after;
}

int sched_scales(const struct sched *s, struct slice src)
{
	return s->scale && src.buf == SCHED_SEND;
}

void sched_unscaled(struct sched *s, int step)
{
	/* Within a phase one rank's input may be the other rank's sum. */
	if (step >= 0 && s->part.first < 0)
		s->step[step].unscaled = sched_scales(s, s->step[step].src);
}

/* Moves the steps from number `first` on to the front.  No step waits for them yet, and they wait for none. */
static void sched_move_to_front(struct sched *s, int first)
{
	int n = s->nsteps - first;
	struct step *moved = malloc(((size_t)n + 1) * sizeof(*moved));

	if (!moved) {
		s->error = COLL_ERR_NO_MEMORY;
		return;
	}
	memcpy(moved, s->step + first, (size_t)n * sizeof(*moved));
	memmove(s->step + n, s->step, (size_t)first * sizeof(*moved));
	memcpy(s->step, moved, (size_t)n * sizeof(*moved));
	free(moved);
	for (int e = 0; e < s->nedges; e++)
		s->edge[e].later += n;
}

/* Does the step send an input that must be scaled first? */
static int sched_sends_input(const struct sched *s, const struct step *step)
{
	return step->kind == STEP_SEND && step->len && !step->unscaled &&
	       sched_scales(s, step->src);
}

/*
 * Makes each send from SCHED_SEND wait for a scaled copy in scratch memory and send the copy.
 *
 * The copies come first, so that steps may still run in their order in the schedule.  The copy of the
 * first send is the last copy, because the engine takes ready steps without a peer last to first.
 */
static void sched_scale_sends(struct sched *s)
{
	int nsteps = s->nsteps, copies;

	for (int i = nsteps - 1; i >= 0 && !s->error; i--) {
		const struct step step = s->step[i];

		if (sched_sends_input(s, &step))
			sched_copy(s, sched_slice(SCHED_SCRATCH, sched_scratch(s, step.len)),
				   step.src, step.len, -1);
	}
	copies = s->nsteps - nsteps;
	if (!s->error && copies)
		sched_move_to_front(s, nsteps);
	for (int i = s->nsteps - 1, copy = 0; i >= copies && !s->error; i--) {
		struct step *step = &s->step[i];

		if (!sched_sends_input(s, step))
			continue;
		step->src = s->step[copy].dst;
		sched_after(s, i, copy++);
	}
}

/* Counts the messages to and from each peer in the order of their steps. */
void sched_complete(struct sched *s)
{
	int lowest = INT_MAX, highest = -1;
	uint32_t(*count)[2];

	for (int i = 0; i < s->nsteps && !s->error; i++) {
		const int peer = s->step[i].peer;

		lowest = peer >= 0 && peer < lowest ? peer : lowest;
		highest = peer > highest ? peer : highest;
	}
	if (highest < 0)
		return;
	count = calloc((size_t)(highest - lowest) + 1, sizeof(*count));
	if (!count)
		s->error = COLL_ERR_NO_MEMORY;
	for (int i = 0; count && i < s->nsteps; i++) {
		struct step *step = &s->step[i];

		if (step->peer >= 0)
			step->msg = count[step->peer - lowest][step->kind != STEP_SEND]++;
	}
	free(count);
	if (count && s->scale)
		sched_scale_sends(s);
}

int sched_staging_copy(struct sched *s, int kind, uint32_t part, size_t off, size_t len)
{
	return sched_add(s, (struct step){kind, -1, .dst = sched_slice(part, off), .len = len}, -1);
}

/* Turns a slice of a phase into a slice of the outer phase. */
static struct slice sched_translate(const struct sched_part *part, struct slice slice)
{
	struct slice base = slice.buf == SCHED_SEND ? part->send : part->recv;

	return slice.buf == SCHED_SCRATCH ? slice : sched_slice(base.buf, base.off + slice.off);
}

void sched_enter(struct sched *s, const struct sched_part *part, struct sched_part *outer)
{
	*outer = s->part;
	s->part = *part;
	if (part->after < 0)
		s->part.after = outer->after;
	s->part.first = s->nsteps;
	s->rank = part->rank;
	s->nranks = part->nranks;
}

int sched_leave(struct sched *s, const struct sched_part *outer)
{
	const struct sched_part part = s->part;

	for (int i = part.first; i < s->nsteps; i++) {
		struct step *step = &s->step[i];

		step->dst = sched_translate(&part, step->dst);
		step->src = sched_translate(&part, step->src);
		step->other = sched_translate(&part, step->other);
		if (part.ranks && step->peer >= 0)
			step->peer = part.ranks[step->peer];
	}
	s->part = *outer;
	s->rank = outer->rank;
	s->nranks = outer->nranks;
	return s->nsteps > part.first ? sched_join(s, part.first) : part.after;
}

int sched_join(struct sched *s, int first)
{
	struct slice nothing = sched_slice(SCHED_RECV, 0);
	int last = s->nsteps, join = -1;

	for (int i = first; i < last; i++) {
		if (s->step[i].edge >= 0)
			continue;
		if (join < 0)
			join = sched_copy(s, nothing, nothing, 0, i);
		else
			sched_after(s, join, i);
	}
	return join;
}

size_t sched_scratch(struct sched *s, size_t bytes)
{
	size_t at = s->scratch;

	s->scratch = (at + bytes + 63) & ~(size_t)63;
	return at;
}

int sched_segments(const struct sched *s, size_t len)
{
	return len ? (int)(len / s->segment + (len % s->segment != 0)) : 1;
}

size_t sched_segment_off(const struct sched *s, size_t len, int i)
{
	size_t off = (size_t)i * s->segment;

	return off < len ? off : len;
}

size_t sched_segment_len(const struct sched *s, size_t len, int i)
{
	size_t rest = len - sched_segment_off(s, len, i);

	return rest < s->segment ? rest : s->segment;
}

size_t sched_block_off(const struct sched *s, size_t count, int b)
{
	size_t n = (size_t)s->nranks;
	size_t longer = count % n; /* the first blocks have one element more */

	return ((size_t)b * (count / n) + ((size_t)b < longer ? (size_t)b : longer)) * s->elem;
}

size_t sched_block_len(const struct sched *s, size_t count, int b)
{
	return sched_block_off(s, count, b + 1) - sched_block_off(s, count, b);
}
