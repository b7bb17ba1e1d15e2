/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c - builds the schedules of all ranks of a case, and matches sends with receives. */
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

void prove_reserve(struct prove *p, int nranks)
{
	int actors = nranks > 2 ? nranks : 2, cap = p->cap_ranks;
	size_t n = (size_t)actors;

	if (actors <= cap)
		return;
	p->rank = tool_grow(p->rank, &p->cap_ranks, actors, sizeof(*p->rank));
	memset(p->rank + cap, 0, (size_t)(p->cap_ranks - cap) * sizeof(*p->rank));
	n = (size_t)p->cap_ranks;
	free(p->nodes);
	free(p->sendcounts);
	free(p->senddispls);
	free(p->recvcounts);
	free(p->recvdispls);
	free(p->joined);
	p->nodes = tool_grow(NULL, &(int){0}, (int)n, sizeof(*p->nodes));
	p->joined = tool_grow(NULL, &(int){0}, (int)n, sizeof(*p->joined));
	p->sendcounts = tool_grow(NULL, &(int){0}, (int)(n * n), sizeof(*p->sendcounts));
	p->senddispls = tool_grow(NULL, &(int){0}, (int)(n * n), sizeof(*p->senddispls));
	p->recvcounts = tool_grow(NULL, &(int){0}, (int)(n * n), sizeof(*p->recvcounts));
	p->recvdispls = tool_grow(NULL, &(int){0}, (int)(n * n), sizeof(*p->recvdispls));
}

static int build_is_in_place(const struct prove_case *c, int rank)
{
	if (oracle_rooted(c->info->kind))
		return c->form == PROVE_IN_PLACE && rank == c->root;
	return c->form == PROVE_IN_PLACE || (c->form == PROVE_MIXED && rank % 2);
}

/* Returns the staged buffers of a rank, whether or not it uses them.  In place both are in the same memory. */
static int build_staged(const struct prove_case *c, const struct prove_rank *r)
{
	const int send = 1 << COLL_BUFFER_SEND, recv = 1 << COLL_BUFFER_RECV;

	if (c->staged == PROVE_UNSTAGED)
		return 0;
	if (c->staged == PROVE_STAGED)
		return send | recv;
	switch (r->rank % 4) {
	case 0: return send | recv;
	case 1: return 0;
	case 2: return r->in_place ? send | recv : send;
	default: return r->in_place ? 0 : recv;
	}
}

static void build_ranks(struct prove *p)
{
	const struct prove_case *c = p->c;
	int pairs = prove_kind_pairs(c->info->kind);

	p->nactors = pairs ? 2 : c->nranks;
	for (int i = 0; i < p->nactors; i++) {
		struct prove_rank *r = &p->rank[i];

		r->rank = !pairs ? i : i ? c->peer : c->root;
		r->in_place = build_is_in_place(c, i);
		r->staged = build_staged(c, r);
		r->algorithm = c->algorithm;
		if (pairs && (c->info->kind == COLL_KIND_SEND) == (i == 1))
			r->algorithm = p->mate_algorithm;
		r->schedule = NULL;
		r->nsteps = 0;
	}
}

static int build_schedule(struct prove *p, int actor)
{
	struct prove_rank *r = &p->rank[actor];
	coll_schedule_args_t args;

	prove_spec_args(p, actor, &args);
	if (p->builder && p->builder->args && p->builder->is_wrong(p->c))
		p->builder->args(p, actor, &args);
	if (coll_schedule_create(&args, &r->schedule) != COLL_SUCCESS) {
		prove_fail(p, PROVE_RESULT, "rank %d has no schedule: %s", r->rank,
			   coll_get_last_error(NULL));
		return -1;
	}
	r->nsteps = coll_schedule_step_count(r->schedule);
	r->step = tool_grow(r->step, &r->cap_steps, r->nsteps, sizeof(*r->step));
	for (int i = 0; i < r->nsteps; i++) {
		r->step[i].size = sizeof(*r->step);
		if (coll_schedule_step(r->schedule, i, &r->step[i]) != COLL_SUCCESS) {
			prove_fail(p, PROVE_RESULT, "rank %d: %s", r->rank,
				   coll_get_last_error(NULL));
			return -1;
		}
	}
	return 0;
}

static void build_number(struct prove *p)
{
	p->nsteps = 0;
	for (int i = 0; i < p->nactors; i++) {
		p->rank[i].first = p->nsteps;
		p->nsteps += p->rank[i].nsteps;
	}
	p->event = tool_grow(p->event, &p->cap_steps, p->nsteps, sizeof(*p->event));
	p->order = tool_grow(p->order, &p->cap_order, p->nsteps, sizeof(*p->order));
	p->stack = tool_grow(p->stack, &p->cap_stack, p->nsteps, sizeof(*p->stack));
	memset(p->event, 0, (size_t)p->nsteps * sizeof(*p->event));
	p->search = 0;
	for (int i = 0; i < p->nactors; i++)
		for (int k = 0; k < p->rank[i].nsteps; k++) {
			struct prove_event *e = &p->event[p->rank[i].first + k];

			e->step = &p->rank[i].step[k];
			e->owner = i;
			e->mate = e->later = -1;
		}
}

/* Links each step to the later steps that wait for it. */
static void build_links(struct prove *p)
{
	p->nlinks = 0;
	for (int g = 0; g < p->nsteps; g++) {
		const struct prove_rank *r = &p->rank[p->event[g].owner];
		const coll_step_t *s = prove_step(p, g);

		p->link = tool_grow(p->link, &p->cap_links, p->nlinks + (int)s->after_count,
				    sizeof(*p->link));
		for (uint32_t k = 0; k < s->after_count; k++) {
			struct prove_event *earlier = &p->event[r->first + s->after[k]];

			p->link[p->nlinks] = (struct prove_link){g, earlier->later};
			earlier->later = p->nlinks++;
		}
	}
}

/* Fills in the arguments of all ranks. */
static void build_arguments(struct prove *p)
{
	prove_reserve(p, p->c->nranks);
	prove_spec_nodes(p);
	prove_spec_counts(p);
	build_ranks(p);
}

int prove_build(struct prove *p)
{
	build_arguments(p);
	for (int i = 0; i < p->nactors; i++) {
		if (build_schedule(p, i) != 0)
			return -1;
		prove_spec_rank(p, i);
		if (p->rank[i].staged)
			prove_stage(p, i);
	}
	if (p->builder && p->builder->steps && p->builder->is_wrong(p->c))
		p->builder->steps(p);
	if (p->mutant != NULL && p->mutant->plant != NULL && !p->mutant->plant(p))
		return -1;
	build_number(p);
	build_links(p);
	return 0;
}

void prove_unbuild(struct prove *p)
{
	for (int i = 0; i < p->nactors; i++) {
		coll_schedule_destroy(p->rank[i].schedule);
		p->rank[i].schedule = NULL;
		prove_unstage(&p->rank[i]);
	}
	while (p->nmutant_arrays > 0)
		free(p->mutant_arrays[--p->nmutant_arrays]);
}

/* ---------------------------------------------------------------- messages -- */

/* Returns the number of pairs of ranks that have a schedule. */
static int match_pairs(const struct prove *p)
{
	return prove_kind_pairs(p->c->info->kind) ? 1 : p->c->nranks * p->c->nranks;
}

/* Returns the number of a pair of ranks, the sender first. */
static int match_pair(const struct prove *p, int g, const coll_step_t *s)
{
	int rank = p->rank[p->event[g].owner].rank, n = p->c->nranks;

	if (prove_kind_pairs(p->c->info->kind))
		return 0;
	return s->kind == COLL_STEP_SEND ? rank * n + s->peer : s->peer * n + rank;
}

/* Does the message go between ranks of the case? */
static int match_is_known(const struct prove *p, int g, const coll_step_t *s)
{
	if (!prove_kind_pairs(p->c->info->kind))
		return s->peer >= 0 && s->peer < p->c->nranks;
	return s->peer == (p->event[g].owner ? p->c->root : p->c->peer) &&
	       (s->kind == COLL_STEP_SEND) == (p->event[g].owner == 0);
}

/* Counts the sends of each pair.  Then pair[i] is the first slot of pair i. */
static int match_count(struct prove *p)
{
	int pairs = match_pairs(p), sum = 0;

	p->pair = tool_grow(p->pair, &p->cap_pairs, pairs + 1, sizeof(*p->pair));
	memset(p->pair, 0, ((size_t)pairs + 1) * sizeof(*p->pair));
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *s = prove_step(p, g);

		if (prove_is_message(s) && !match_is_known(p, g, s)) {
			prove_fail_step(p, PROVE_MESSAGES, g, "names rank %d, which has no part",
					s->peer);
			return -1;
		}
		if (s->kind == COLL_STEP_SEND)
			p->pair[match_pair(p, g, s)]++;
	}
	for (int i = 0; i <= pairs; i++) {
		int sends = p->pair[i];

		p->pair[i] = sum;
		sum += sends;
	}
	p->slot = tool_grow(p->slot, &p->cap_slots, sum + 1, sizeof(*p->slot));
	for (int i = 0; i < sum; i++)
		p->slot[i] = -1;
	return 0;
}

static void match_sends(struct prove *p)
{
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *s = prove_step(p, g);
		int pair, at;

		if (s->kind != COLL_STEP_SEND)
			continue;
		pair = match_pair(p, g, s);
		at = p->pair[pair] + (int)s->message;
		if (s->message >= (uint32_t)p->c->nranks * 0x10000u || at >= p->pair[pair + 1])
			prove_fail_step(p, PROVE_MESSAGES, g,
					"skips the number of a message: there are only %d messages "
					"to rank %d",
					p->pair[pair + 1] - p->pair[pair], s->peer);
		else if (p->slot[at] >= 0)
			prove_fail_step(p, PROVE_MESSAGES, g, "repeats the number of a message");
		else
			p->slot[at] = g;
	}
}

static void match_recvs(struct prove *p)
{
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *s = prove_step(p, g);
		int pair, at, mate = -1;

		if (!prove_is_recv(s))
			continue;
		pair = match_pair(p, g, s);
		at = p->pair[pair] + (int)s->message;
		if (s->message < (uint32_t)p->nsteps && at < p->pair[pair + 1])
			mate = p->slot[at];
		if (mate < 0 || p->event[mate].mate >= 0) {
			prove_fail_step(p, PROVE_MESSAGES, g, "waits for a message that %s",
					mate < 0 ? "is never sent" : "another step receives");
			continue;
		}
		p->event[g].mate = mate;
		p->event[mate].mate = g;
		if (prove_step(p, mate)->bytes != s->bytes)
			prove_fail_step(p, PROVE_MESSAGES, g,
					"expects %llu bytes, but %llu are sent",
					(unsigned long long)s->bytes,
					(unsigned long long)prove_step(p, mate)->bytes);
	}
}

/*
 * Finds the messages and bytes by the formula of the algorithm: the formula of the root, with the counts of all ranks; for
 * SEND and RECV the sums of both rows.
 */
static void match_formula(struct prove *p, uint64_t *messages, uint64_t *bytes)
{
	int kind = p->c->info->kind, actors = prove_kind_pairs(kind) ? 2 : 1;

	*messages = *bytes = 0;
	for (int i = 0; i < actors; i++) {
		coll_schedule_args_t args;
		uint64_t m = 0, b = 0;

		prove_spec_args(p, actors == 1 && oracle_rooted(kind) ? p->c->root : i, &args);
		if (coll_schedule_cost(&args, &m, &b) != COLL_SUCCESS)
			prove_fail(p, PROVE_MESSAGES, "there is no formula: %s",
				   coll_get_last_error(NULL));
		*messages += m;
		*bytes += b;
	}
}

void prove_formula(struct prove *p, const struct prove_case *c, uint64_t *messages, uint64_t *bytes)
{
	p->c = c;
	build_arguments(p);
	match_formula(p, messages, bytes);
}

static void match_cost(struct prove *p, uint64_t messages, uint64_t bytes)
{
	uint64_t want, volume;

	match_formula(p, &want, &volume);
	if (!p->c->segment && messages != want)
		prove_fail(p, PROVE_MESSAGES, "%llu messages are sent, the formula says %llu",
			   (unsigned long long)messages, (unsigned long long)want);
	if (bytes != volume)
		prove_fail(p, PROVE_MESSAGES, "%llu bytes are sent, the formula says %llu",
			   (unsigned long long)bytes, (unsigned long long)volume);
}

int prove_match(struct prove *p)
{
	uint64_t messages = 0, bytes = 0;
	int sound;

	if (match_count(p) != 0)
		return -1;
	match_sends(p);
	match_recvs(p);
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *s = prove_step(p, g);

		if (s->kind != COLL_STEP_SEND)
			continue;
		messages++;
		bytes += s->bytes;
		if (p->event[g].mate < 0)
			prove_fail_step(p, PROVE_MESSAGES, g,
					"sends a message that no rank receives");
	}
	p->totals.messages += messages;
	if (prove_kind_pairs(p->c->info->kind))
		prove_pieces(p);
	sound = !(p->failed & 1u << PROVE_MESSAGES);
	match_cost(p, messages, bytes);
	return sound ? 0 : -1;
}
