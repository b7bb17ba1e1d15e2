/* SPDX-License-Identifier: BSD-3-Clause */
/* case.c - runs one case from schedules to verdict, and enumerates the cases of an algorithm. */
#include <string.h>
#include "prove/prove.h"

enum { CASE_CUTS = 3, CASE_LAYOUTS = 5, CASE_MANY_CUTS_RANKS = 5 };

/* Bytes of an element.  With the last a few elements are as long as a long message. */
enum { CASE_ELEM = 4, CASE_LONG_ELEM = 64 << 10 };

void prove_one(struct prove *p, const struct prove_case *c)
{
	p->c = c;
	p->failed = 0;
	p->totals.cases++;
	if (c->count * c->elem > p->totals.longest)
		p->totals.longest = c->count * c->elem;
	if (prove_build(p) == 0) {
		int sound = prove_match(p) == 0, complete = prove_run(p) == 0;

		if (complete && c->info->kind == COLL_KIND_BARRIER)
			prove_barrier(p);
		if (complete && sound)
			prove_data(p);
		if (!p->failed)
			prove_bounded(p);
		p->totals.steps += (uint64_t)p->nsteps;
	}
	prove_unbuild(p);
}

/* -------------------------------------------------------------------- cases -- */

/* Number of values of each property of a case. */
struct case_space {
	uint64_t roots; /* or number of pairs of ranks */
	int counts, forms, cuts, averages, layouts, vectors, gaps;
	uint64_t rest; /* product of all numbers but roots */
};

static struct case_space case_space_of(const struct prove_plan *plan,
				       const coll_algorithm_info_t *info)
{
	struct case_space s = {.roots = 1, .counts = plan->ncounts, .forms = 1, .cuts = CASE_CUTS};
	uint64_t n = (uint64_t)plan->nranks;

	if (prove_kind_rooted(info->kind))
		s.roots = n;
	if (prove_kind_pairs(info->kind))
		s.roots = n * n;
	s.cuts += n <= CASE_MANY_CUTS_RANKS;
	s.forms = prove_kind_forms(info->kind);
	s.averages = prove_kind_reduces(info->kind) && !prove_kind_scans(info->kind)
			     ? PROVE_AVERAGES
			     : 1;
	s.layouts = info->flags & COLL_ALGORITHM_NODES ? CASE_LAYOUTS : 1;
	s.vectors = prove_kind_vector(info->kind) ? PROVE_VECTORS : 1;
	s.gaps = prove_kind_vector(info->kind) && info->kind != COLL_KIND_REDUCE_SCATTERV ? 2 : 1;
	if (info->kind == COLL_KIND_BARRIER)
		s.counts = s.cuts = 1;
	s.rest = (uint64_t)s.counts * (uint64_t)s.forms * (uint64_t)s.cuts * (uint64_t)s.averages *
		 (uint64_t)s.layouts * (uint64_t)s.vectors * (uint64_t)s.gaps;
	return s;
}

/* Returns the next digit of a number in a mixed base. */
static int case_digit(uint64_t *number, int base)
{
	int digit = (int)(*number % (uint64_t)base);

	*number /= (uint64_t)base;
	return digit;
}

/*
 * Does the call give a count for each rank's block?  If not, an algorithm may cut the whole into
 * such blocks.
 */
static int case_has_blocks(int kind)
{
	return kind != COLL_KIND_ALLREDUCE && kind != COLL_KIND_BROADCAST &&
	       kind != COLL_KIND_REDUCE && !prove_kind_pairs(kind);
}

/*
 * The length of a piece, such that a block has two or three pieces or, without blocks, the whole
 * has four.  With few ranks a block can also have more pieces than a rank has sends in flight.
 */
static uint64_t case_segment(const struct prove_case *c, int cut)
{
	uint64_t pieces = cut == 3 ? 100 : 2;

	if (!cut)
		return 0;
	if (!case_has_blocks(c->info->kind))
		pieces = cut == 1 ? 4 : pieces * (uint64_t)c->nranks;
	else if (cut == 2)
		pieces = 3;
	return c->count / pieces + 1;
}

/* Fills a case with combination `number` of all properties but the root. */
static void case_fill(struct prove_case *c, const struct prove_plan *plan,
		      const struct case_space *s, uint64_t number)
{
	int cut;

	c->count = s->counts > 1 || plan->ncounts == 1
			   ? plan->counts[case_digit(&number, s->counts)]
			   : 0;
	c->layout = s->layouts > 1 ? 1 + case_digit(&number, s->layouts) : 0;
	c->form = case_digit(&number, s->forms);
	cut = case_digit(&number, s->cuts);
	c->average = case_digit(&number, s->averages);
	c->vector = case_digit(&number, s->vectors);
	c->gaps = case_digit(&number, s->gaps);
	c->segment = case_segment(c, cut);
}

static uint64_t case_common(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* A stride that visits all of `rest` numbers, with the first visits spread evenly. */
static uint64_t case_stride(uint64_t rest)
{
	uint64_t stride = rest * 618 / 1000 + 1;

	while (case_common(stride, rest) != 1)
		stride++;
	return stride;
}

/* Are some but not all ranks alone on their node? */
static int case_layout_fits(const struct prove *p, const struct prove_case *c)
{
	int nodes = 0;

	for (int r = 0; r < c->nranks; r++) {
		int seen = 0;

		for (int before = 0; before < r && !seen; before++)
			seen = p->nodes[before] == p->nodes[r];
		nodes += !seen;
	}
	return nodes > 1 && nodes < c->nranks;
}

/*
 * Does the algorithm support the case?  Replaces a layout that the algorithm rules out by the next
 * layout.
 */
static int case_fits(struct prove *p, struct prove_case *c)
{
	if (c->flags & COLL_ALGORITHM_POWER_OF_TWO && c->nranks & (c->nranks - 1))
		return 0;
	if (!c->layout)
		return 1;
	p->c = c;
	for (int tried = 0; tried < CASE_LAYOUTS; tried++) {
		prove_spec_nodes(p);
		if (case_layout_fits(p, c))
			return 1;
		c->layout = 1 + c->layout % CASE_LAYOUTS;
	}
	return 0;
}

static uint64_t case_elem(uint64_t i)
{
	if (i % 16 == 3)
		return CASE_LONG_ELEM;
	return i % 8 == 7 ? CASE_ELEM : 1;
}

static uint64_t case_cost(const struct prove *p)
{
	return p->totals.steps + 16 * p->totals.cases * (uint64_t)p->nactors;
}

int prove_cases(struct prove *p, const struct prove_plan *plan, const coll_algorithm_info_t *info)
{
	struct case_space s = case_space_of(plan, info);
	uint64_t stride = case_stride(s.rest), all = s.roots * s.rest, period, begin, i;
	/* Counts and layouts are the first digits of a combination, so that all their pairs come first. */
	uint64_t pairs = (uint64_t)s.counts * (uint64_t)s.layouts;
	uint64_t least = s.roots > pairs ? s.roots : pairs;
	struct prove_case c = {.algorithm = plan->algorithm, .info = info, .flags = info->flags};

	memset(&p->totals, 0, sizeof(p->totals));
	prove_reserve(p, plan->nranks);
	c.nranks = plan->nranks;
	begin = (uint64_t)plan->nranks * 7;
	period = all / case_common(s.roots, s.rest);
	for (i = 0; i < all && (i < least || case_cost(p) < plan->budget); i++) {
		/* Visits all roots in order; the second pass meets other combinations. */
		uint64_t root = (i + i / period + begin) % s.roots;

		case_fill(&c, plan, &s, (i % s.rest) * stride % s.rest);
		c.root = (int)(root % (uint64_t)plan->nranks);
		c.peer = (int)(root / (uint64_t)plan->nranks);
		c.elem = case_elem(i);
		c.segment *= c.elem;
		if (!case_fits(p, &c))
			continue;
		prove_one(p, &c);
		if (p->failed)
			return 0;
	}
	return i == all;
}
