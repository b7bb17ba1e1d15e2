/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - how much each proof tries: its numbers of ranks, and the sweeps for each number. */
#include <string.h>
#include "prove/prove.h"

enum { PLAN_FEW = 8, PLAN_LONG = 64 };

/*
 * The numbers of ranks that each proof tries: all up to `every`, `drawn` further numbers up to PLAN_LONG, and from
 * the level on the numbers listed below.  The sweep of all combinations goes up to `all` ranks; `pairs` numbers of
 * the drawn sample have every root with every count and place.
 */
struct plan_level {
	int every, drawn, all, pairs;
	uint64_t limit[PROVE_SWEEPS]; /* cost up to which a sweep is made */
	uint64_t pairs_limit;         /* cost up to which the sample's sweep is made */
	uint64_t more, more_beyond;   /* up to PLAN_LONG ranks, and beyond */
};

static const struct plan_level plan_levels[PROVE_LEVELS] = {
	[PROVE_QUICK] = {.every = 8,
			 .all = 1,
			 .limit = {[PROVE_SWEEP_ROOTS] = 3000,
				   [PROVE_SWEEP_COUNTS] = 20000,
				   [PROVE_SWEEP_PIECES] = 20000,
				   [PROVE_SWEEP_STAGED] = 6000},
			 .more = 500},
	[PROVE_USUAL] = {.every = 32,
			 .drawn = 4,
			 .all = 5,
			 .pairs = 3,
			 .pairs_limit = 1000000,
			 .limit = {[PROVE_SWEEP_PAIRS] = 10000,
				   [PROVE_SWEEP_ROOTS] = 70000,
				   [PROVE_SWEEP_COUNTS] = 50000,
				   [PROVE_SWEEP_PIECES] = 20000,
				   [PROVE_SWEEP_MOST] = 1000000,
				   [PROVE_SWEEP_STAGED] = 70000},
			 .more = 3000,
			 .more_beyond = 30000},
	[PROVE_LONG] = {.every = 64,
			.all = 6,
			.pairs = 6,
			.pairs_limit = 15000000,
			.limit = {[PROVE_SWEEP_PAIRS] = 2400000,
				  [PROVE_SWEEP_ROOTS] = 3000000,
				  [PROVE_SWEEP_COUNTS] = 1000000,
				  [PROVE_SWEEP_PIECES] = 1600000,
				  [PROVE_SWEEP_MOST] = 10000000,
				  [PROVE_SWEEP_STAGED] = 500000},
			.more = 60000,
			.more_beyond = 300000},
};

/* Numbers of ranks beside a power of two, and beyond 256; the first level that tries each. */
static const struct {
	int nranks;
	enum prove_level level;
} plan_listed[] = {{12, PROVE_QUICK},  {16, PROVE_QUICK},  {17, PROVE_QUICK},  {33, PROVE_USUAL},
		   {47, PROVE_USUAL},  {48, PROVE_USUAL},  {63, PROVE_USUAL},  {64, PROVE_USUAL},
		   {65, PROVE_QUICK},  {96, PROVE_USUAL},  {127, PROVE_USUAL}, {128, PROVE_USUAL},
		   {129, PROVE_USUAL}, {130, PROVE_USUAL}, {257, PROVE_USUAL}};

enum { PLAN_LISTED = sizeof(plan_listed) / sizeof(plan_listed[0]) };

/* Returns the i-th number that the seed draws (splitmix64). */
uint64_t prove_draw(uint64_t seed, uint64_t i)
{
	uint64_t z = (seed ^ i * 0xd1342543de82ef95u) + 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void plan_level_ranks(struct prove_plan *plan)
{
	const struct plan_level *level = &plan_levels[plan->level];

	for (int n = 1; n <= level->every; n++)
		prove_set_add(&plan->ranks, n);
	for (int i = 0; i < PLAN_LISTED; i++)
		if (plan_listed[i].level <= plan->level)
			prove_set_add(&plan->ranks, plan_listed[i].nranks);
	for (int i = 0; i < level->drawn; i++)
		prove_set_add(&plan->ranks, level->every + 1 +
						    (int)(prove_draw(plan->seed, (uint64_t)i) %
							  (uint64_t)(PLAN_LONG - level->every)));
}

/* Draws the sample from the numbers of ranks that are too many for all combinations. */
static void plan_draw_sample(struct prove_plan *plan)
{
	const struct plan_level *level = &plan_levels[plan->level];
	int ranks[PROVE_RANKS_MAX], n = 0;

	for (int r = level->all + 1; r <= PROVE_RANKS_MAX; r++)
		if (prove_set_has(&plan->ranks, r) && (r <= PLAN_LONG || !n))
			ranks[n++] = r;
	for (int i = 0; n && i < level->pairs; i++)
		prove_set_add(&plan->sample,
			      ranks[prove_draw(~plan->seed, (uint64_t)i) % (uint64_t)n]);
}

void prove_plan_ranks(struct prove_plan *plan, int first, int last)
{
	memset(&plan->ranks, 0, sizeof(plan->ranks));
	memset(&plan->sample, 0, sizeof(plan->sample));
	if (!last)
		plan_level_ranks(plan);
	for (int n = first; n <= last; n++)
		prove_set_add(&plan->ranks, n);
	plan_draw_sample(plan);
}

int prove_plan_has(const struct prove_plan *plan, enum prove_sweep sweep, int nranks, uint64_t cost)
{
	const struct plan_level *level = &plan_levels[plan->level];

	switch (sweep) {
	case PROVE_SWEEP_ALL: return nranks <= level->all;
	case PROVE_SWEEP_MORE: return 1;
	case PROVE_SWEEP_PAIRS:
		if (prove_set_has(&plan->sample, nranks) && cost <= level->pairs_limit)
			return 1; /* fall through */
	case PROVE_SWEEP_ROOTS:
	case PROVE_SWEEP_COUNTS: return nranks > level->all && cost <= level->limit[sweep];
	case PROVE_SWEEP_MOST:
		/* Waits in a circle need a third round; otherwise they do not depend on the number of ranks. */
		return nranks <= PLAN_FEW && cost <= level->limit[sweep];
	default: return cost <= level->limit[sweep];
	}
}

uint64_t prove_plan_more(const struct prove_plan *plan, int nranks)
{
	const struct plan_level *level = &plan_levels[plan->level];

	return nranks > PLAN_LONG ? level->more_beyond : level->more;
}
