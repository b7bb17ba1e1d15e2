/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algo_level.c - an allreduce in two levels: only the leader of each node, its lowest rank, talks to
 * other nodes.  It has three phases, each an algorithm of its own: reduce to the leaders, allreduce
 * among the leaders, broadcast (Karonis et al., 2000).
 */
#include "schedule/algo.h"

/* Bytes from which on the leaders exchange halves, and bytes for each leader from which on they use a ring. */
enum { LEVEL_LONG = 64 << 10, LEVEL_BLOCK = 32 << 10 };

struct level_choice {
	algo_build_fn build;
	algo_cost_fn cost;
};

/* Chooses the allreduce among the leaders. */
static struct level_choice level_choose(const struct work *w, int leaders, size_t elem)
{
	size_t len = w->count * elem;

	if (len < LEVEL_LONG)
		return (struct level_choice){double_allreduce, double_allreduce_cost};
	if (w->count < (size_t)leaders || len / (size_t)leaders < LEVEL_BLOCK)
		return (struct level_choice){halving_allreduce, halving_allreduce_cost};
	return (struct level_choice){ring_allreduce, ring_allreduce_cost};
}

/* Returns the phase of the ranks of this rank's node. */
static struct sched_part level_node(const struct sched *s, const struct nodes *nodes)
{
	int node = nodes->node[s->rank], first = nodes->first[node];
	struct sched_part part = {.rank = nodes_local_rank(nodes, s->rank), .after = -1};

	part.nranks = nodes->first[node + 1] - first;
	part.ranks = nodes->member + first;
	part.send = sched_slice(SCHED_SEND, 0);
	part.recv = sched_slice(SCHED_RECV, 0);
	return part;
}

/* Appends the second phase.  A leader of several ranks has their sum in its receive buffer. */
static int level_meet(struct sched *s, const struct work *w, const struct sched_part *node)
{
	struct work part = {.kind = COLL_KIND_ALLREDUCE, .count = w->count};
	struct sched_part leaders = *node;

	leaders.rank = w->nodes->node[s->rank];
	leaders.nranks = w->nodes->count;
	leaders.ranks = w->nodes->leader;
	part.in_place = w->in_place;
	if (node->nranks > 1) {
		part.in_place = 1;
		leaders.send = leaders.recv;
	}
	return algo_phase(s, &leaders, level_choose(w, leaders.nranks, s->elem).build, &part);
}

void level_allreduce(struct sched *s, const struct work *w)
{
	struct sched_part node = level_node(s, w->nodes);
	struct work part = {.kind = COLL_KIND_REDUCE, .count = w->count, .in_place = w->in_place};
	int finish = s->finish;

	s->finish = 0; /* the sum of one node is not the result */
	node.after = algo_phase(s, &node, tree_reduce, &part);
	s->finish = finish;
	if (node.rank == 0)
		node.after = level_meet(s, w, &node);
	part.kind = COLL_KIND_BROADCAST;
	part.in_place = 1;
	node.send = node.recv;
	algo_phase(s, &node, tree_broadcast, &part);
}

void level_allreduce_cost(const struct work *w, int nranks, size_t elem, struct cost *c)
{
	int leaders = w->nodes->count;
	uint64_t inside = 2 * (uint64_t)(nranks - leaders);

	level_choose(w, leaders, elem).cost(w, leaders, elem, c);
	c->messages += inside;
	c->bytes += inside * w->count * elem;
}
