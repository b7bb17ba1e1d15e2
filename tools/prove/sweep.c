/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sweep.c - the cases of an algorithm on some ranks: every combination of some properties, with the other properties drawn
 * at random.
 */
#include <string.h>
#include "prove/prove.h"

/* Properties as bits. */
enum {
	SWEEP_ROOT = 1 << PROVE_ROOT,
	SWEEP_COUNT = 1 << PROVE_COUNT,
	SWEEP_PLACE = 1 << PROVE_PLACE,
	SWEEP_PIECES = 1 << PROVE_PIECES,
	SWEEP_AVERAGE = 1 << PROVE_AVERAGE,
	SWEEP_NODES = 1 << PROVE_NODES,
	SWEEP_VECTOR = 1 << PROVE_VECTOR,
	SWEEP_DISPLS = 1 << PROVE_DISPLS,
	SWEEP_ELEM = 1 << PROVE_ELEM,
	SWEEP_STAGING = 1 << PROVE_STAGING,
	SWEEP_EVERY = (1 << PROVE_PROPERTIES) - 1
};

struct sweep {
	unsigned crossed; /* properties whose combinations all occur */
	int pieces;       /* the only value of PROVE_PIECES; 0: the usual values */
	int many;         /* pieces of a block that this value of PROVE_PIECES means */
	int staged;       /* 1: only cases with staged buffers */
	int plain;        /* 1: only elements of one byte, and no staged buffers */
};

static const struct sweep sweeps[PROVE_SWEEPS] = {
	[PROVE_SWEEP_ALL] = {.crossed = SWEEP_EVERY - SWEEP_ELEM - SWEEP_STAGING},
	[PROVE_SWEEP_ROOTS] = {.crossed = SWEEP_ROOT},
	[PROVE_SWEEP_COUNTS] = {.crossed = SWEEP_COUNT | SWEEP_NODES},
	[PROVE_SWEEP_PAIRS] = {.crossed = SWEEP_ROOT | SWEEP_COUNT | SWEEP_PLACE, .plain = 1},
	[PROVE_SWEEP_PIECES] = {.pieces = PROVE_MANY, .many = PROVE_MANY_PIECES},
	[PROVE_SWEEP_MOST] = {.pieces = PROVE_MOST, .many = PROVE_MOST_PIECES},
	[PROVE_SWEEP_STAGED] = {.crossed = SWEEP_PLACE | SWEEP_PIECES | SWEEP_AVERAGE |
					   SWEEP_VECTOR | SWEEP_DISPLS | SWEEP_STAGING,
				.staged = 1},
	[PROVE_SWEEP_MORE] = {.crossed = 0},
};

/* The cases of a sweep of one algorithm on some ranks. */
struct sweep_space {
	uint64_t size[PROVE_PROPERTIES];
	uint64_t first[PROVE_PROPERTIES]; /* the first value of each property */
	uint64_t combinations;            /* number of combinations of the crossed properties */
	uint64_t seed;
};

/* Finds the cases of a sweep.  Returns 0 if it has none. */
static int sweep_space(struct sweep_space *space, const struct prove_plan *plan,
		       const struct sweep *w, const struct prove_case *c)
{
	uint64_t n = (uint64_t)c->nranks;

	memset(space, 0, sizeof(*space));
	prove_case_sizes(plan, c->info, c->nranks, space->size);
	if ((w->pieces || w->staged) && space->size[PROVE_STAGING] == 1)
		return 0; /* a barrier */
	if (w->pieces) {
		uint64_t *first = &space->first[PROVE_COUNT];

		space->first[PROVE_PIECES] = (uint64_t)w->pieces;
		space->size[PROVE_PIECES] = 1;
		while (*first < (uint64_t)plan->ncounts &&
		       plan->counts[*first] < (uint64_t)w->many * n)
			++*first;
		if (*first == (uint64_t)plan->ncounts)
			return 0;
		space->size[PROVE_COUNT] -= *first;
	}
	if (w->staged) {
		space->first[PROVE_STAGING] = PROVE_STAGED;
		space->size[PROVE_STAGING] -= PROVE_STAGED;
	}
	if (w->plain)
		space->size[PROVE_ELEM] = space->size[PROVE_STAGING] = 1;
	space->combinations = 1;
	for (int i = 0; i < PROVE_PROPERTIES; i++)
		if (w->crossed & 1u << i)
			space->combinations *= space->size[i];
	return 1;
}

/* Finds the values of case `number` of a sweep. */
static void sweep_values(const struct sweep_space *space, const struct sweep *w, uint64_t number,
			 uint64_t value[PROVE_PROPERTIES])
{
	uint64_t rest = number % space->combinations;

	for (int i = 0; i < PROVE_PROPERTIES; i++) {
		uint64_t drawn = prove_draw(space->seed, number * PROVE_PROPERTIES + (uint64_t)i);

		if (w->crossed & 1u << i) {
			value[i] = rest % space->size[i];
			rest /= space->size[i];
		} else {
			value[i] = drawn % space->size[i];
		}
		/* Pieces and staging cost steps, so half of the cases, or more, do without. */
		if ((i == PROVE_STAGING || i == PROVE_PIECES) && !(w->crossed & 1u << i) &&
		    drawn >> 32 & 1)
			value[i] = 0;
		value[i] += space->first[i];
	}
}

/* Begins the cases.  Returns 0 if the algorithm has none on so many ranks. */
static int sweep_begin(struct prove *p, struct prove_case *c, const struct prove_plan *plan)
{
	const uint64_t value[PROVE_PROPERTIES] = {0};

	memset(&p->totals, 0, sizeof(p->totals));
	p->failed = 0;
	c->shares = 1;
	prove_reserve(p, c->nranks);
	if (!prove_case_fill(p, c, plan, value))
		return 0;
	prove_case_shares(p, c);
	return 1;
}

/*
 * Returns about the number of steps of a sweep: as if every algorithm cut its messages, and a rank cost as much as some
 * steps.
 */
static uint64_t sweep_cost(const struct sweep *w, const struct sweep_space *space,
			   const struct prove_case *c)
{
	enum { RANK = 8, PIECES = 2, COPIES = 2 };
	uint64_t pieces = w->pieces ? (uint64_t)w->many : PIECES;
	uint64_t steps = 2 * (c->messages + pieces * (uint64_t)c->shares * c->volume);
	int actors = prove_kind_pairs(c->info->kind) ? 2 : c->nranks;

	if (w->staged)
		steps *= COPIES;
	return space->combinations * (steps + RANK * (uint64_t)actors);
}

static uint64_t sweep_spent(const struct prove *p)
{
	return p->totals.steps + 8 * p->totals.cases * (uint64_t)p->nactors;
}

/* Proves the cases of a sweep.  Returns 1 if it had a case, and no fault. */
static int sweep_run(struct prove *p, struct prove_case *c, const struct prove_plan *plan,
		     const struct sweep *w, const struct sweep_space *space)
{
	uint64_t before = p->totals.cases, value[PROVE_PROPERTIES];

	for (uint64_t i = 0; i < space->combinations; i++) {
		sweep_values(space, w, i, value);
		if (!prove_case_fill(p, c, plan, value))
			continue;
		prove_one(p, c);
		if (p->failed)
			return 0;
	}
	return p->totals.cases > before;
}

/* Steps of a case from which on its messages are whole: a gigabyte holds ten times as many. */
enum { SWEEP_HEAVY = 100000 };

/*
 * Draws further cases until so many steps are proven, but at least one case: with the last root, and with whole messages if
 * it has many steps.
 */
static int sweep_more(struct prove *p, struct prove_case *c, const struct prove_plan *plan,
		      const struct sweep_space *space)
{
	uint64_t most = prove_plan_more(plan, c->nranks), begin = sweep_spent(p);
	uint64_t value[PROVE_PROPERTIES];

	for (uint64_t i = 0; i < 1 || (p->totals.cases && sweep_spent(p) - begin < most); i++) {
		sweep_values(space, &sweeps[PROVE_SWEEP_MORE], i, value);
		if (!i)
			value[PROVE_ROOT] = space->size[PROVE_ROOT] - 1;
		if (2 * c->messages > SWEEP_HEAVY)
			value[PROVE_PIECES] = PROVE_WHOLE;
		if (!prove_case_fill(p, c, plan, value))
			continue;
		prove_one(p, c);
		if (p->failed)
			return 0;
	}
	return p->totals.cases > 0;
}

/* Returns the sweeps, as bits, whose cases a sweep contains. */
static unsigned sweep_implied(int sweep, const struct sweep_space *space)
{
	const unsigned parts = 1u << PROVE_SWEEP_ROOTS | 1u << PROVE_SWEEP_COUNTS;

	if (sweep == PROVE_SWEEP_ALL)
		return parts | 1u << PROVE_SWEEP_PAIRS;
	if (sweep == PROVE_SWEEP_PAIRS)
		return space->size[PROVE_NODES] == 1 ? parts : 1u << PROVE_SWEEP_ROOTS;
	return 0;
}

unsigned prove_sweeps(struct prove *p, const struct prove_plan *plan, int algorithm,
		      const coll_algorithm_info_t *info, int nranks)
{
	struct prove_case c = {.algorithm = algorithm, .info = info, .flags = info->flags};
	struct sweep_space space;
	unsigned swept = 0;

	c.nranks = nranks;
	if (!sweep_begin(p, &c, plan))
		return 0;
	for (int i = 0; i < PROVE_SWEEPS && !p->failed; i++) {
		const struct sweep *w = &sweeps[i];

		if (swept & 1u << i || !sweep_space(&space, plan, w, &c))
			continue;
		space.seed = prove_draw(plan->seed, (uint64_t)(nranks * PROVE_SWEEPS + i));
		if (!prove_plan_has(plan, (enum prove_sweep)i, nranks, sweep_cost(w, &space, &c)))
			continue;
		if (i == PROVE_SWEEP_MORE ? sweep_more(p, &c, plan, &space)
					  : sweep_run(p, &c, plan, w, &space))
			swept |= 1u << i | sweep_implied(i, &space);
	}
	return swept;
}
