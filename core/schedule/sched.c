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

void sched_after(struct sched *s, int step, int earlier)
{
	struct sched_edge *edge;
	struct step *from;

	if (s->error || step < 0 || earlier < 0)
		return;
	if (s->nedges == s->cap_edges) {
		edge = array_grow(s->edge, s->nedges, &s->cap_edges, sizeof(*edge));
		if (!edge) {
			s->error = COLL_ERR_NO_MEMORY;
			return;
		}
		s->edge = edge;
	}
	from = &s->step[earlier];
	s->edge[s->nedges] = (struct sched_edge){.later = step, .next = -1};
	if (from->edge < 0)
		from->edge = s->nedges;
	else
		s->edge[from->last_edge].next = s->nedges;
	from->last_edge = s->nedges++;
	s->step[step].earlier++;
}

/*
 * Appends a step without slices, or returns NULL after an error.  The caller fills the slices in, in place: a copy of each step
 * takes time in a schedule of hundreds of thousands.
 */
static struct step *sched_add(struct sched *s, int kind, int peer, size_t len, int after)
{
	struct step *step = s->step;

	if (s->error)
		return NULL;
	if (s->nsteps == s->cap_steps) {
		step = array_grow(s->step, s->nsteps, &s->cap_steps, sizeof(*step));
		if (!step) {
			s->error = COLL_ERR_NO_MEMORY;
			return NULL;
		}
		s->step = step;
	}
	step += s->nsteps++;
	*step = (struct step){.kind = (int16_t)kind, .peer = peer, .edge = -1, .len = len};
	if (after < 0)
		after = s->part.after;
	if (after >= 0)
		sched_after(s, s->nsteps - 1, after);
	return step;
}

/* Appends a step that has a destination only. */
static int sched_add_to(struct sched *s, int kind, int peer, struct slice dst, size_t len,
			int after)
{
	struct step *step = sched_add(s, kind, peer, len, after);

	if (!step)
		return -1;
	step->dst = dst;
	return s->nsteps - 1;
}

int sched_send(struct sched *s, int peer, struct slice src, size_t len, int after)
{
	struct step *step = sched_add(s, STEP_SEND, peer, len, after);

	if (!step)
		return -1;
	step->src = src;
	return s->nsteps - 1;
}

int sched_recv(struct sched *s, int peer, struct slice dst, size_t len, int after)
{
	return sched_add_to(s, STEP_RECV, peer, dst, len, after);
}

int sched_recv_reduce(struct sched *s, int peer, struct slice dst, struct slice own, int swapped,
		      size_t len, int after)
{
	struct step *step = sched_add(s, STEP_RECV_REDUCE, peer, len, after);

	if (!step)
		return -1;
	step->dst = dst;
	step->src = own;
	step->swapped = swapped != 0;
	return s->nsteps - 1;
}

int sched_reduce(struct sched *s, struct slice dst, struct slice a, struct slice b, size_t len,
		 int after)
{
	struct step *step = sched_add(s, STEP_REDUCE, -1, len, after);

	if (!step)
		return -1;
	step->dst = dst;
	step->src = a;
	step->other = b;
	return s->nsteps - 1;
}

int sched_copy(struct sched *s, struct slice dst, struct slice src, size_t len, int after)
{
	struct step *step = sched_add(s, STEP_COPY, -1, len, after);

	if (!step)
		return -1;
	step->dst = dst;
	step->src = src;
	return s->nsteps - 1;
}

int sched_finish(struct sched *s, struct slice dst, size_t len, int after)
{
	return s->finish ? sched_add_to(s, STEP_FINISH, -1, dst, len, after) : after;
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
	return sched_add_to(s, kind, -1, sched_slice(part, off), len, -1);
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
