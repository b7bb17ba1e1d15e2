/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged.c - the schedule of a rank whose buffers are staged: the library's own code lays out the staging
 * memory and adds the copies.
 */
#include <stdlib.h>
#include "prove/prove.h"
#include "schedule/stage.h"

_Static_assert((int)PROVE_COPY_IN == (int)STEP_COPY_IN && (int)PROVE_COPY_OUT == (int)STEP_COPY_OUT,
	       "a step of the library keeps its kind");

/* The longest copy has STAGED_LONGEST bytes or, of long buffers, this part of the memory. */
enum { STAGED_LONGEST = 4 << 20, STAGED_PART = 16 };

/* -------------------------------------------------------------------- the memory -- */

static int staged_root(const struct prove *p, const struct prove_rank *r)
{
	return r->rank == p->c->root;
}

/* Returns bit 1 << buffer for a buffer that is a list. */
static int staged_lists(const struct prove *p, const struct prove_rank *r)
{
	const int send = 1 << COLL_BUFFER_SEND, recv = 1 << COLL_BUFFER_RECV;

	if (p->c->displs != PROVE_LIST)
		return 0;
	switch (p->c->info->kind) {
	case COLL_KIND_ALLGATHERV: return recv;
	case COLL_KIND_REDUCE_SCATTERV: return send;
	case COLL_KIND_ALLTOALLV: return send | recv;
	case COLL_KIND_GATHERV: return staged_root(p, r) ? recv : 0;
	case COLL_KIND_SCATTERV: return staged_root(p, r) ? send : 0;
	default: return 0;
	}
}

/* Returns the used bytes of a buffer, as the library finds them. */
static struct stage_span staged_span(const struct prove *p, const struct prove_rank *r, int buffer)
{
	const struct prove_span *part = buffer == COLL_BUFFER_SEND ? r->in : r->out;
	int n = buffer == COLL_BUFFER_SEND ? r->ins : r->outs;
	struct stage_span span = {0, 0};

	if (!n)
		return span;
	span.begin = (uintptr_t)part[0].at;
	span.end = (uintptr_t)(part[n - 1].at + part[n - 1].len);
	if (staged_lists(p, r) & 1 << buffer) {
		span.begin = (uintptr_t)r->user[buffer];
		span.end = span.begin +
			   (uintptr_t)(p->c->count * p->c->elem) * (uintptr_t)p->c->nranks;
	}
	return span;
}

static void staged_place(const struct prove *p, struct prove_rank *r, struct stage *stage)
{
	const struct prove_case *c = p->c;
	size_t row = c->info->kind == COLL_KIND_ALLTOALLV ? (size_t)c->nranks * (size_t)r->rank : 0;

	stage->in_place = r->in_place;
	stage->rank = r->rank;
	stage->list = staged_lists(p, r);
	stage->block = c->count * c->elem;
	stage->elem = c->elem;
	stage->displs[COLL_BUFFER_SEND] = p->senddispls + row;
	stage->displs[COLL_BUFFER_RECV] = p->recvdispls + row;
	for (int buffer = 0; buffer <= COLL_BUFFER_RECV; buffer++) {
		stage->address[buffer] = (uintptr_t)r->user[buffer];
		if (r->staged & 1 << buffer)
			stage->span[buffer] = staged_span(p, r, buffer);
		if (!stage->span[buffer].end)
			r->staged &= ~(1 << buffer);
	}
	stage->staged = r->staged;
	stage_layout(stage);
	r->staging_size = stage->need;
	r->end = r->staging + r->staging_size;
	for (int buffer = 0; buffer <= COLL_BUFFER_RECV; buffer++)
		if (r->staged & 1 << buffer)
			r->base[buffer] = r->staging + stage->at[buffer];
}

uint64_t prove_staged_at(const struct prove_rank *r, int part, uint64_t off)
{
	return stage_user_at(r->stage, part, off);
}

/* --------------------------------------------------------------------- the steps -- */

/* Appends a step of the builder to the library's form of the schedule. */
static void staged_append(struct sched *s, const coll_step_t *t)
{
	struct slice dst = sched_slice(t->dst_buffer, t->dst);
	struct slice src = sched_slice(t->src_buffer, t->src);
	struct slice other = sched_slice(t->other_buffer, t->other);
	int i;

	switch (t->kind) {
	case COLL_STEP_SEND: i = sched_send(s, t->peer, src, t->bytes, -1); break;
	case COLL_STEP_RECV: i = sched_recv(s, t->peer, dst, t->bytes, -1); break;
	case COLL_STEP_RECV_REDUCE:
		i = sched_recv_reduce(s, t->peer, dst, src, t->swapped, t->bytes, -1);
		break;
	case COLL_STEP_REDUCE: i = sched_reduce(s, dst, src, other, t->bytes, -1); break;
	case COLL_STEP_COPY: i = sched_copy(s, dst, src, t->bytes, -1); break;
	default: i = sched_finish(s, dst, t->bytes, -1); break;
	}
	if (i < 0)
		return;
	s->step[i].unscaled = t->unscaled;
	s->step[i].msg = t->message;
	for (uint32_t k = 0; k < t->after_count; k++)
		sched_after(s, i, t->after[k]);
}

static void staged_take_step(struct prove_rank *r, const struct step *step, int i)
{
	r->step[i] = (coll_step_t){.size = sizeof(*r->step),
				   .kind = step->kind,
				   .peer = step->peer,
				   .message = step->msg,
				   .swapped = step->swapped,
				   .unscaled = step->unscaled,
				   .dst_buffer = step->dst.buf,
				   .src_buffer = step->src.buf,
				   .other_buffer = step->other.buf,
				   .dst = step->dst.off,
				   .src = step->src.off,
				   .other = step->other.off,
				   .bytes = step->len};
}

/* Takes the steps back from the library's form, whose edges lead from earlier to later steps. */
static void staged_take(struct prove_rank *r, const struct sched *s)
{
	int at = 0;

	r->nsteps = s->nsteps;
	r->step = tool_grow(r->step, &r->cap_steps, s->nsteps, sizeof(*r->step));
	r->after = tool_grow(r->after, &r->cap_after, s->nedges + 1, sizeof(*r->after));
	for (int i = 0; i < s->nsteps; i++) {
		staged_take_step(r, &s->step[i], i);
		r->step[i].after = r->after + at;
		at += (int)s->step[i].earlier;
	}
	for (int i = 0; i < s->nsteps; i++)
		for (int e = s->step[i].edge; e >= 0; e = s->edge[e].next) {
			coll_step_t *later = &r->step[s->edge[e].later];

			r->after[later->after - r->after + later->after_count++] = i;
		}
}

void prove_stage(struct prove *p, int actor)
{
	struct prove_rank *r = &p->rank[actor];
	const struct prove_case *c = p->c;
	struct sched s = {0};
	size_t longest;

	r->stage = calloc(1, sizeof(*r->stage));
	if (r->stage == NULL) {
		prove_fail(p, PROVE_RESULT, "rank %d: no memory", r->rank);
		return;
	}
	staged_place(p, r, r->stage);
	if (!r->staged)
		return;
	sched_reset(&s, r->rank, c->nranks, c->elem, c->segment ? c->segment : SIZE_MAX);
	s.finish = 1;
	s.scale = c->average == PROVE_SCALED;
	for (int i = 0; i < r->nsteps; i++)
		staged_append(&s, &r->step[i]);
	longest = r->stage->need / STAGED_PART;
	stage_schedule(&s, r->stage, longest > STAGED_LONGEST ? longest : STAGED_LONGEST);
	if (s.error)
		prove_fail(p, PROVE_RESULT, "rank %d: no memory for staged steps", r->rank);
	else
		staged_take(r, &s);
	sched_free(&s);
}

void prove_forget_lists(struct prove_rank *r)
{
	if (r->stage)
		r->stage->list = 0;
}

void prove_unstage(struct prove_rank *r)
{
	free(r->stage);
	r->stage = NULL;
}
