/* SPDX-License-Identifier: BSD-3-Clause */
/* cases.c - series of calls: a table for each kind, and random calls from a seed. */
#include "oracle/oracle.h"

enum { CASES_FEW = 9, CASES_PIECES = 5003 };

const int32_t oracle_kinds[ORACLE_KINDS] = {
	COLL_KIND_ALLREDUCE,       COLL_KIND_BROADCAST,      COLL_KIND_REDUCE,
	COLL_KIND_ALLGATHER,       COLL_KIND_REDUCE_SCATTER, COLL_KIND_ALLTOALL,
	COLL_KIND_GATHER,          COLL_KIND_SCATTER,        COLL_KIND_ALLGATHERV,
	COLL_KIND_REDUCE_SCATTERV, COLL_KIND_ALLTOALLV,      COLL_KIND_GATHERV,
	COLL_KIND_SCATTERV,        COLL_KIND_SCAN,           COLL_KIND_EXSCAN,
};

int oracle_types(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user)
{
	int ops = oracle_reduces(like->kind) ? oracle_op_count : 1, variant = nranks;
	struct oracle_case c = *like;

	for (int t = 0; t < oracle_dtype_count; t++)
		for (int op = 0; op < ops; op++) {
			c.dtype = oracle_dtypes[t];
			c.op = oracle_ops[op];
			if (!oracle_op_fits(c.op, c.dtype) || !oracle_kind_has(c.kind, c.op))
				continue;
			c.root = variant % nranks;
			c.gaps = variant++ % 2;
			for (int place = 0; place < 2; place++) {
				c.place = place;
				if (!try(user, &c))
					return 0;
			}
		}
	return 1;
}

int oracle_places(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user)
{
	int roots = oracle_rooted(like->kind) ? nranks : 1,
	    forms = oracle_varies(like->kind) || like->list ? 2 : 1;
	struct oracle_case c = *like;

	for (c.root = 0; c.root < roots; c.root++)
		for (int place = ORACLE_APART; place <= ORACLE_ODD_IN_PLACE; place++)
			for (c.gaps = 0; c.gaps < forms; c.gaps++) {
				c.place = place;
				if (!try(user, &c))
					return 0;
			}
	return 1;
}

int oracle_table(const struct oracle_case *like, int32_t nranks, oracle_try_fn try, void *user)
{
	static const size_t counts[] = {0, 1, 2, 3, 5, 64, 257, 1000};
	static const int32_t dtypes[] = {COLL_INT32, COLL_UINT8, COLL_FLOAT16, COLL_FLOAT64};
	struct oracle_case c = *like;

	c.count = CASES_FEW;
	if (!oracle_types(&c, nranks, try, user))
		return 0;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		c.count = counts[i];
		c.dtype = dtypes[i % 4];
		c.op = i % 2 ? COLL_MAX : COLL_SUM;
		if (!oracle_places(&c, nranks, try, user))
			return 0;
	}
	/* Several pieces of a pipelined transfer, with a shorter last piece. */
	c.count = CASES_PIECES;
	c.dtype = COLL_INT16;
	c.op = COLL_SUM;
	return oracle_places(&c, nranks, try, user);
}

/* Returns the next random number and advances the seed. */
static uint64_t cases_draw(uint64_t *state, uint64_t below)
{
	*state = oracle_mix(*state, 1);
	return (*state >> 16) % below;
}

void oracle_random(struct oracle_case *c, uint64_t seed, int32_t nranks, size_t most)
{
	uint64_t state = seed, bits = 0;

	*c = (struct oracle_case){.seed = seed};
	c->kind = oracle_kinds[cases_draw(&state, ORACLE_KINDS)];
	c->dtype = oracle_dtypes[cases_draw(&state, oracle_dtype_count)];
	do
		c->op = oracle_ops[cases_draw(&state, oracle_op_count)];
	while (!oracle_op_fits(c->op, c->dtype) || !oracle_kind_has(c->kind, c->op));
	c->root = (int32_t)cases_draw(&state, (uint64_t)nranks);
	c->place = cases_draw(&state, 3);
	c->gaps = (int)cases_draw(&state, 2);
	/*
	 * Short counts are as frequent as long counts.  The largest block of a v-form has three
	 * times the count.
	 */
	most /= 3 * (size_t)nranks * oracle_size(c->dtype);
	while (most >> bits)
		bits++;
	c->count = (size_t)cases_draw(&state, ((uint64_t)1 << cases_draw(&state, bits + 1)) + 1);
	c->inputs = cases_draw(&state, 2) ? ORACLE_SPECIAL : ORACLE_EXACT;
}
