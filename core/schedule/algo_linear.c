/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_linear.c - collectives over rank 0: all ranks send straight to rank 0, which sends straight to all.  Each rank
 * but rank 0 has two messages, one after the other.  So ranks that take turns on processors need one turn each, where
 * doubling distances need one turn for each distance.
 */
#include "schedule/algo.h"

static struct sched_part linear_part(const struct sched *s)
{
	struct sched_part part = {.rank = s->rank, .nranks = s->nranks, .after = -1};

	part.send = sched_slice(SCHED_SEND, 0);
	part.recv = sched_slice(SCHED_RECV, 0);
	return part;
}

/* Appends two phases.  The result of the first phase, at part->recv, is the input of the second phase. */
static void linear_phases(struct sched *s, struct sched_part *part, algo_build_fn first,
			  const struct work *w, algo_build_fn second, const struct work *then)
{
	part->after = algo_phase(s, part, first, w);
	part->send = part->recv;
	part->recv = sched_slice(SCHED_RECV, 0);
	algo_phase(s, part, second, then);
}

void linear_allreduce(struct sched *s, const struct work *w)
{
	struct sched_part part = linear_part(s);
	const struct work first = {
		.kind = COLL_KIND_REDUCE, .count = w->count, .in_place = w->in_place};
	const struct work then = {.kind = COLL_KIND_BROADCAST, .count = w->count, .in_place = 1};

	linear_phases(s, &part, linear_reduce, &first, linear_broadcast, &then);
}

void linear_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	const uint64_t messages = 2 * (uint64_t)(nranks - 1);

	*c = (struct cost){messages, messages * w->count * elem};
}

void linear_allgather(struct sched *s, const struct work *w)
{
	struct sched_part part = linear_part(s);
	const struct work first = {
		.kind = COLL_KIND_GATHER, .count = w->count, .in_place = w->in_place};
	const struct work then = {
		.kind = COLL_KIND_BROADCAST, .count = w->count * (size_t)s->nranks, .in_place = 1};

	linear_phases(s, &part, linear_gather, &first, linear_broadcast, &then);
}

void linear_allgather_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	const uint64_t others = (uint64_t)(nranks - 1);

	*c = (struct cost){2 * others, others * (1 + (uint64_t)nranks) * w->count * elem};
}

/* Rank 0 has the sums of all blocks in scratch memory. */
void linear_reduce_scatter(struct sched *s, const struct work *w)
{
	struct sched_part part = linear_part(s);
	const struct work first = {.kind = COLL_KIND_REDUCE, .count = w->count * (size_t)s->nranks};
	const struct work then = {.kind = COLL_KIND_SCATTER, .count = w->count};
	size_t sums = 0;

	if (s->rank == 0)
		sums = sched_scratch(s, first.count * s->elem);
	part.recv = sched_slice(SCHED_SCRATCH, sums);
	linear_phases(s, &part, linear_reduce, &first, linear_scatter, &then);
}

void linear_reduce_scatter_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	linear_allgather_cost(w, nranks, elem, c);
}

void linear_barrier(struct sched *s, const struct work *w)
{
	const struct slice none = sched_slice(SCHED_RECV, 0);
	int told;

	(void)w;
	if (s->rank) {
		sched_send(s, 0, none, 0, -1);
		sched_recv(s, 0, none, 0, -1);
		return;
	}
	for (int r = 1; r < s->nranks; r++)
		sched_recv(s, r, none, 0, -1);
	told = sched_join(s, 0);
	for (int r = 1; r < s->nranks; r++)
		sched_send(s, r, none, 0, told);
}

void linear_barrier_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	(void)w;
	(void)elem;
	*c = (struct cost){2 * (uint64_t)(nranks - 1), 0};
}
