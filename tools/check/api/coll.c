/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - compares every collective with the oracle: all types with all operations, counts from 0
 * to several pieces, every root, in place and out of place, with and without gaps.
 */
#include "check/api/api.h"

enum { COLL_LONG = 150001, COLL_RANDOM = 150, COLL_RANDOM_BYTES = 1 << 18 };

static int coll_try(void *user, const struct oracle_case *c)
{
	return api_call_run(user, c);
}

static void coll_kind(struct api_rank *r)
{
	const struct api_plan *plan = r->c->check->plan;
	struct oracle_case c = {.kind = plan->kind};

	r->tolerant = api_may_lack(r);
	/* A vendor's engine may lose a NaN; the check value-nan reports that. */
	c.inputs = r->tolerant ? ORACLE_EXACT : ORACLE_SPECIAL;
	if (!oracle_table(&c, r->nranks, coll_try, r) || r->c->quick)
		return;
	c.root = r->nranks - 1;
	c.count = COLL_LONG;
	c.dtype = COLL_FLOAT32;
	api_call_run(r, &c);
}

/* Tries the forms with lists: every kind with blocks in order and out of order. */
static void coll_lists(struct api_rank *r)
{
	static const size_t counts[] = {0, 1, 7, 1000, 5003};
	static const int32_t dtypes[] = {COLL_INT32, COLL_FLOAT64, COLL_UINT8, COLL_FLOAT32,
					 COLL_INT32};
	struct oracle_case c = {.list = 1, .op = COLL_SUM};

	r->tolerant = api_may_lack(r);
	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < 5 && oracle_has_list(oracle_kinds[k]); i++) {
			c.kind = oracle_kinds[k];
			c.count = counts[i];
			c.dtype = dtypes[i];
			if (!oracle_places(&c, r->nranks, coll_try, r))
				return;
		}
}

/* The send is larger than any buffer between the two ranks. */
static void coll_large(struct api_rank *r)
{
	struct oracle_case c = {.dtype = COLL_FLOAT32, .op = COLL_SUM, .count = (5 << 18) + 7};
	int good = 1;

	for (int place = 0; place < 2 && good; place++) {
		c.place = place;
		c.kind = COLL_KIND_ALLREDUCE;
		good = api_call_run(r, &c);
		c.kind = COLL_KIND_BROADCAST;
		c.root = r->nranks - 1;
		good = good && api_call_run(r, &c);
	}
}

/* Has the buffers in memory of coll_mem_alloc, which each call allocates and frees. */
static void coll_memory(struct api_rank *r)
{
	const size_t counts[] = {1, r->c->quick ? 9000 : 70000};
	struct oracle_case c = {.dtype = COLL_FLOAT32, .op = COLL_SUM};

	r->library = 1;
	r->tolerant = api_may_lack(r);
	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int i = 0; i < 2; i++) {
			c.kind = oracle_kinds[k];
			c.count = counts[i];
			if (!oracle_places(&c, r->nranks, coll_try, r))
				return;
		}
}

/* Tries random calls beyond the table: the kinds alternate, and no two calls are alike. */
static void coll_random(struct api_rank *r)
{
	struct oracle_case c;

	r->tolerant = api_may_lack(r);
	for (uint64_t seed = 1; seed <= COLL_RANDOM; seed++) {
		oracle_random(&c, seed, r->nranks, COLL_RANDOM_BYTES);
		c.inputs = r->tolerant ? ORACLE_EXACT : c.inputs;
		if (!api_call_run(r, &c))
			return;
	}
}

static void coll_barriers(struct api_rank *r)
{
	atomic_llong *entered = &r->c->shared->number[0];

	for (int round = 1; round <= 20; round++) {
		if (r->rank == round % r->nranks)
			api_sleep_ms(1);
		atomic_fetch_add(entered, 1);
		if (!api_did(r, coll_barrier(r->comm), "coll_barrier"))
			return;
		if (atomic_load(entered) < (long long)round * r->nranks)
			api_fail(r, "left barrier %d before all had come", round);
		if (!api_did(r, coll_barrier(r->comm), "coll_barrier"))
			return;
	}
}

/* Issues many operations before the rank waits for the first. */
static void coll_queue(struct api_rank *r)
{
	enum { N = 100 };
	int32_t *x = api_buffer(r, N * sizeof(*x)), sum = r->nranks * (r->nranks - 1) / 2;
	int good = 1;

	for (int i = 0; i < N && good; i++) {
		x[i] = r->rank + i;
		good = api_did(r, coll_allreduce(&x[i], &x[i], 1, COLL_INT32, COLL_SUM, r->comm, 0),
			       "coll_allreduce") &&
		       api_did(r,
			       coll_broadcast(&x[i], &x[i], 1, COLL_INT32, i % r->nranks, r->comm,
					      NULL),
			       "coll_broadcast");
	}
	if (!api_did(r, coll_sync(r->comm), "coll_sync") || !good)
		return;
	for (int i = 0; i < N; i++)
		if (x[i] != sum + r->nranks * i)
			api_fail(r, "operation %d of the queue gave %d, not %d", i, x[i],
				 sum + r->nranks * i);
}

/* ------------------------------------------------------------------ the table -- */

static const char *const coll_short_pieces[] = {"segment=4K", NULL};

static const struct api_plan coll_plans[] = {
	[COLL_KIND_ALLREDUCE] = {coll_kind, .options = coll_short_pieces,
				 .kind = COLL_KIND_ALLREDUCE},
	[COLL_KIND_BROADCAST] = {coll_kind, .options = coll_short_pieces,
				 .kind = COLL_KIND_BROADCAST},
	[COLL_KIND_REDUCE] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_REDUCE},
	[COLL_KIND_ALLGATHER] = {coll_kind, .options = coll_short_pieces,
				 .kind = COLL_KIND_ALLGATHER},
	[COLL_KIND_REDUCE_SCATTER] = {coll_kind, .options = coll_short_pieces,
				      .kind = COLL_KIND_REDUCE_SCATTER},
	[COLL_KIND_ALLTOALL] = {coll_kind, .options = coll_short_pieces,
				.kind = COLL_KIND_ALLTOALL},
	[COLL_KIND_GATHER] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_GATHER},
	[COLL_KIND_SCATTER] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_SCATTER},
	[COLL_KIND_ALLGATHERV] = {coll_kind, .options = coll_short_pieces,
				  .kind = COLL_KIND_ALLGATHERV},
	[COLL_KIND_REDUCE_SCATTERV] = {coll_kind, .options = coll_short_pieces,
				       .kind = COLL_KIND_REDUCE_SCATTERV},
	[COLL_KIND_ALLTOALLV] = {coll_kind, .options = coll_short_pieces,
				 .kind = COLL_KIND_ALLTOALLV},
	[COLL_KIND_GATHERV] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_GATHERV},
	[COLL_KIND_SCATTERV] = {coll_kind, .options = coll_short_pieces,
				.kind = COLL_KIND_SCATTERV},
	[COLL_KIND_SCAN] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_SCAN},
	[COLL_KIND_EXSCAN] = {coll_kind, .options = coll_short_pieces, .kind = COLL_KIND_EXSCAN},
};
static const struct api_plan coll_lists_plan = {.rank = coll_lists, .options = coll_short_pieces};
static const struct api_plan coll_memory_plan = {.rank = coll_memory};
static const struct api_plan coll_random_plan = {.rank = coll_random, .options = coll_short_pieces};
static const struct api_plan coll_large_plan = {.rank = coll_large};
static const struct api_plan coll_barriers_plan = {.rank = coll_barriers};
static const struct api_plan coll_queue_plan = {.rank = coll_queue};

const struct check check_api_coll[] = {
	{"coll-allreduce",
	 "coll_allreduce agrees with the reference: types, operations, counts, places",
	 "coll.h, coll_allreduce", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_ALLREDUCE]},
	{"coll-broadcast", "coll_broadcast agrees with the reference: types, counts, roots, places",
	 "coll.h, coll_broadcast", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_BROADCAST]},
	{"coll-reduce",
	 "coll_reduce agrees with the reference: types, operations, counts, roots, places",
	 "coll.h, coll_reduce", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_REDUCE]},
	{"coll-allgather", "coll_allgather agrees with the reference: types, counts, places",
	 "coll.h, coll_allgather", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_ALLGATHER]},
	{"coll-reduce-scatter",
	 "coll_reduce_scatter agrees with the reference: types, operations, counts, places",
	 "coll.h, coll_reduce_scatter", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_REDUCE_SCATTER]},
	{"coll-alltoall", "coll_alltoall agrees with the reference: types, counts, places",
	 "coll.h, coll_alltoall", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_ALLTOALL]},
	{"coll-gather", "coll_gather agrees with the reference: types, counts, roots, places",
	 "coll.h, coll_gather", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_GATHER]},
	{"coll-scatter", "coll_scatter agrees with the reference: types, counts, roots, places",
	 "coll.h, coll_scatter", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_SCATTER]},
	{"coll-allgatherv", "coll_allgatherv agrees with the reference: types, counts, places",
	 "coll.h, coll_allgatherv", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_ALLGATHERV]},
	{"coll-reduce-scatterv",
	 "coll_reduce_scatterv agrees with the reference: types, operations, counts, places",
	 "coll.h, coll_reduce_scatterv", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_REDUCE_SCATTERV]},
	{"coll-alltoallv", "coll_alltoallv agrees with the reference: types, counts, places",
	 "coll.h, coll_alltoallv", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_ALLTOALLV]},
	{"coll-gatherv", "coll_gatherv agrees with the reference: types, counts, roots, places",
	 "coll.h, coll_gatherv", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_GATHERV]},
	{"coll-scatterv", "coll_scatterv agrees with the reference: types, counts, roots, places",
	 "coll.h, coll_scatterv", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_plans[COLL_KIND_SCATTERV]},
	{"coll-scan", "coll_scan agrees with the reference: types, operations, counts, places",
	 "coll.h, coll_scan", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &coll_plans[COLL_KIND_SCAN]},
	{"coll-exscan", "coll_exscan agrees with the reference: types, operations, counts, places",
	 "coll.h, coll_exscan", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &coll_plans[COLL_KIND_EXSCAN]},
	{"coll-lists", "the collectives with lists of buffers agree with the reference",
	 "coll.h, coll_allgather_list", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_lists_plan},
	{"coll-memory", "collectives in memory of coll_mem_alloc agree with the reference",
	 "coll.h, coll_mem_alloc", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_memory_plan},
	{"coll-random", "calls drawn from seeds agree with the reference", "coll.h, Order",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &coll_random_plan},
	{"coll-large", "allreduce and broadcast of megabytes agree with the reference",
	 "coll.h, Counts", CHECK_API, .ways = CHECK_EITHER, .slow = 1, .run = api_run,
	 .plan = &coll_large_plan},
	{"coll-barrier", "no rank leaves a barrier before all ranks have come",
	 "coll.h, coll_barrier", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS,
	 .run = api_run, .plan = &coll_barriers_plan},
	{"coll-queue", "200 operations are issued before the first is waited for", "coll.h, Order",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &coll_queue_plan},
	{.name = NULL},
};
