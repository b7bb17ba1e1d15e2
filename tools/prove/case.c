/* SPDX-License-Identifier: BSD-3-Clause */
/* case.c - runs one case from schedules to verdict, and the properties in which cases differ. */
#include <string.h>
#include "prove/prove.h"

enum { CASE_LAYOUTS = 5, CASE_ELEMS = 4 };

/*
 * Bytes of an element.  No length of a piece is a multiple of the odd length.  With the longest element a few elements are
 * as long as a long message.  The longest counts only up to a limit: some algorithms want scratch memory for the data of
 * all ranks of all ranks, which must fit into 64 bits.
 */
enum { CASE_ODD_ELEM = 12, CASE_LONG_ELEM = 64 << 10, CASE_LONG_COUNT = 1 << 21 };

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
	if (p->failed)
		p->wrong = *c;
	prove_unbuild(p);
}

/* --------------------------------------------------------------- properties -- */

void prove_case_sizes(const struct prove_plan *plan, const coll_algorithm_info_t *info, int nranks,
		      uint64_t size[PROVE_PROPERTIES])
{
	int kind = info->kind, vector = oracle_varies(kind);
	uint64_t n = (uint64_t)nranks;

	for (int i = 0; i < PROVE_PROPERTIES; i++)
		size[i] = 1;
	if (kind == COLL_KIND_BARRIER)
		return;
	if (oracle_rooted(kind))
		size[PROVE_ROOT] = n;
	if (prove_kind_pairs(kind))
		size[PROVE_ROOT] = n * n;
	size[PROVE_COUNT] = (uint64_t)plan->ncounts;
	size[PROVE_PLACE] = (uint64_t)prove_kind_forms(kind);
	size[PROVE_PIECES] = PROVE_MANY;
	if (oracle_reduces(kind) && !oracle_scans(kind))
		size[PROVE_AVERAGE] = PROVE_AVERAGES;
	if (info->flags & COLL_ALGORITHM_NODES)
		size[PROVE_NODES] = CASE_LAYOUTS;
	size[PROVE_VECTOR] = vector ? PROVE_VECTORS : 1;
	size[PROVE_DISPLS] = vector ? PROVE_DISPLACEMENTS : 1;
	size[PROVE_ELEM] = CASE_ELEMS;
	size[PROVE_STAGING] = PROVE_STAGINGS;
}

/* Does the call give a count for each rank's block?  If not, an algorithm may cut the whole buffer into such blocks. */
static int case_has_blocks(int kind)
{
	return kind != COLL_KIND_ALLREDUCE && kind != COLL_KIND_BROADCAST &&
	       kind != COLL_KIND_REDUCE && !prove_kind_pairs(kind);
}

/* Returns the length of a piece in elements.  PROVE_FEW is two pieces of a block or, without blocks, four of the whole. */
static uint64_t case_segment(const struct prove_case *c, uint64_t value)
{
	switch (value) {
	case PROVE_WHOLE: return 0;
	case PROVE_FEW: return c->count / (case_has_blocks(c->info->kind) ? 2 : 4) + 1;
	case PROVE_SOME: return c->count / (3 * (uint64_t)c->shares) + 1;
	case PROVE_MANY: return c->count / (PROVE_MANY_PIECES * (uint64_t)c->shares);
	default: return c->count / (PROVE_MOST_PIECES * (uint64_t)c->shares);
	}
}

void prove_case_shares(struct prove *p, struct prove_case *c)
{
	enum { COUNT = 1 << 20 };
	uint64_t messages, bytes;

	c->shares = 1;
	c->count = COUNT;
	c->elem = 1;
	prove_formula(p, c, &messages, &bytes);
	c->messages = messages;
	c->volume = (bytes + COUNT - 1) / COUNT;
	if (case_has_blocks(c->info->kind) || !bytes)
		return;
	if (c->flags & COLL_ALGORITHM_NODES)
		c->shares = c->nranks; /* one phase may have blocks and another none */
	else
		c->shares = (int)((messages * COUNT + bytes / 2) / bytes);
	if (c->shares < 1)
		c->shares = 1;
}

/* Makes the blocks of a list equally long.  reduce_scatterv has displacements in a list only. */
static void case_fit_list(struct prove_case *c)
{
	if (c->info->kind == COLL_KIND_REDUCE_SCATTERV && c->displs == PROVE_GAPS)
		c->displs = PROVE_LIST;
	if (c->displs == PROVE_LIST)
		c->vector = PROVE_EQUAL;
}

/* Are some ranks alone on their node, and some not? */
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

/* Does the algorithm support the case?  Replaces a layout that the algorithm rules out by the next layout. */
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

int prove_case_fill(struct prove *p, struct prove_case *c, const struct prove_plan *plan,
		    const uint64_t value[PROVE_PROPERTIES])
{
	static const uint64_t elems[CASE_ELEMS] = {1, 4, CASE_ODD_ELEM, CASE_LONG_ELEM};

	c->root = (int)(value[PROVE_ROOT] % (uint64_t)c->nranks);
	c->peer = (int)(value[PROVE_ROOT] / (uint64_t)c->nranks);
	c->count = c->info->kind == COLL_KIND_BARRIER ? 0 : plan->counts[value[PROVE_COUNT]];
	c->form = (int)value[PROVE_PLACE];
	c->average = (int)value[PROVE_AVERAGE];
	c->layout = c->flags & COLL_ALGORITHM_NODES ? 1 + (int)value[PROVE_NODES] : 0;
	c->vector = (int)value[PROVE_VECTOR];
	c->displs = (int)value[PROVE_DISPLS];
	case_fit_list(c);
	c->staged = (int)value[PROVE_STAGING];
	c->elem = elems[value[PROVE_ELEM]];
	if (c->elem == CASE_LONG_ELEM && c->count > CASE_LONG_COUNT)
		c->elem = 1;
	c->segment = case_segment(c, value[PROVE_PIECES]) * c->elem;
	if (c->segment && c->elem == CASE_ODD_ELEM)
		c->segment += CASE_ODD_ELEM / 2 - 1; /* the library rounds it down */
	return case_fits(p, c);
}
