/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_level.c - two levels: only the leader of each node, its lowest rank, talks to other nodes.
 * Three phases, each an algorithm of its own: reduce to the leaders, allreduce among them, broadcast
 * (Karonis et al., 2000).
 */
#include "schedule/algo.h"

#include <stdlib.h>

enum { LEVEL_LONG = 64 << 10 }; /* from this many bytes on the leaders use a ring */

static int level_leads(const struct work *w, int rank)
{
	for (int r = rank - 1; r >= 0; r--)
		if (w->node[r] == w->node[rank])
			return 0;
	return 1;
}

static int level_is_long(const struct work *w, int leaders, size_t elem)
{
	return w->count >= (size_t)leaders && w->count * elem >= LEVEL_LONG;
}

/* Appends a phase; returns a step that completes after the phase. */
static int level_phase(struct sched *s, const struct sched_part *part, algo_build_fn build,
		       const struct work *w)
{
	struct sched_part outer;

	if (part->nranks == 1)
		return part->after;
	sched_enter(s, part, &outer);
	build(s, w);
	return sched_leave(s, &outer);
}

/* The ranks of this rank's node, or the leaders of all nodes. */
static struct sched_part level_group(const struct sched *s, const struct work *w, int leaders,
				     int *ranks)
{
	struct sched_part part = {.ranks = ranks, .after = -1};

	for (int r = 0; r < s->nranks; r++) {
		if (leaders ? !level_leads(w, r) : w->node[r] != w->node[s->rank])
			continue;
		if (r == s->rank)
			part.rank = part.nranks;
		ranks[part.nranks++] = r;
	}
	part.send = sched_slice(SCHED_SEND, 0);
	part.recv = sched_slice(SCHED_RECV, 0);
	return part;
}

/* Second phase.  The leader of several ranks has their sum in its receive buffer. */
static int level_meet(struct sched *s, const struct work *w, const struct sched_part *node,
		      int *ranks)
{
	struct work part = {.kind = COLL_KIND_ALLREDUCE, .count = w->count};
	struct sched_part leaders = level_group(s, w, 1, ranks);
	algo_build_fn build = double_allreduce;

	part.in_place = w->in_place;
	leaders.after = node->after;
	if (node->nranks > 1) {
		part.in_place = 1;
		leaders.send = leaders.recv;
	}
	if (level_is_long(w, leaders.nranks, s->elem))
		build = ring_allreduce;
	return level_phase(s, &leaders, build, &part);
}

static void level_build(struct sched *s, const struct work *w, int *ranks)
{
	struct sched_part node = level_group(s, w, 0, ranks);
	struct work part = {.kind = COLL_KIND_REDUCE, .count = w->count, .in_place = w->in_place};
	int finish = s->finish;

	s->finish = 0; /* the sum of one node is not the result */
	node.after = level_phase(s, &node, tree_reduce, &part);
	s->finish = finish;
	if (node.rank == 0)
		node.after = level_meet(s, w, &node, ranks + s->nranks);
	part.kind = COLL_KIND_BROADCAST;
	part.in_place = 1;
	node.send = node.recv;
	level_phase(s, &node, tree_broadcast, &part);
}

void level_allreduce(struct sched *s, const struct work *w)
{
	int *ranks = malloc(2 * (size_t)s->nranks * sizeof(*ranks));

	if (ranks)
		level_build(s, w, ranks);
	else
		s->error = COLL_ERR_NO_MEMORY;
	free(ranks);
}

void level_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	uint64_t inside;
	int leaders = 0;

	for (int r = 0; r < nranks; r++)
		leaders += level_leads(w, r);
	inside = 2 * (uint64_t)(nranks - leaders);
	if (level_is_long(w, leaders, elem))
		ring_allreduce_cost(w, leaders, elem, c);
	else
		double_allreduce_cost(w, leaders, elem, c);
	c->messages += inside;
	c->bytes += inside * w->count * elem;
}
