/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - every collective against the reference: all types with all operations, counts
 * from 0 to what is cut into pieces, every root, in place and not, with gaps and without.
 */
#include "check/api/api.h"

static const size_t coll_counts[] = {0, 1, 2, 3, 5, 64, 257, 1000};
enum { COLL_COUNTS = sizeof(coll_counts) / sizeof(coll_counts[0]) };

/* Every type with every operation; the rest takes turns. */
static int coll_types(struct api_rank *r, int32_t kind)
{
	int turn = r->nranks, ops = api_reduces(kind) ? API_OPS : 1;

	for (int t = 0; t < API_DTYPES; t++)
		for (int op = 0; op < ops; op++) {
			struct api_case c = {.kind = kind,
					     .dtype = api_dtypes[t],
					     .op = api_ops[op],
					     .root = turn % r->nranks,
					     .in_place = turn / 2 % 2,
					     .gaps = turn % 2,
					     .count = 7 + (size_t)turn % 5};

			if (!api_op_fits(c.op, c.dtype))
				continue;
			turn++;
			if (!api_call_run(r, &c))
				return 0;
			c.in_place = !c.in_place;
			if (!api_reduces(kind) && !api_call_run(r, &c))
				return 0;
		}
	return 1;
}

/* One count with every root, in both places. */
static int coll_places(struct api_rank *r, const struct api_case *like)
{
	struct api_case c = *like;

	for (c.root = 0; c.root < (api_rooted(c.kind) ? r->nranks : 1); c.root++)
		for (c.in_place = 0; c.in_place <= API_ODD_RANKS; c.in_place++)
			for (c.gaps = 0; c.gaps < (api_varies(c.kind) ? 2 : 1); c.gaps++)
				if (!api_call_run(r, &c))
					return 0;
	return 1;
}

static void coll_kind(struct api_rank *r)
{
	const struct api_plan *plan = r->c->check->plan;
	struct api_case c = {.kind = plan->kind};
	int good;

	r->patient = api_may_lack(r);
	good = coll_types(r, plan->kind);
	for (int i = 0; i < COLL_COUNTS && good; i++) {
		c.count = coll_counts[i];
		c.dtype = i % 2 ? COLL_UINT8 : COLL_INT32;
		c.op = i % 2 ? COLL_MAX : COLL_SUM;
		good = coll_places(r, &c);
	}
	/* Pieces of 4 KiB, the last of them short. */
	c.count = 5003;
	c.dtype = COLL_INT16;
	c.op = COLL_SUM;
	good = good && coll_places(r, &c);
	c.root = r->nranks - 1;
	c.count = 150001;
	c.dtype = COLL_FLOAT32;
	if (good && !r->c->quick)
		api_call_run(r, &c);
}

/* A send that is larger than any buffer on the way. */
static void coll_large(struct api_rank *r)
{
	struct api_case c = {.dtype = COLL_FLOAT32, .op = COLL_SUM, .count = (5 << 18) + 7};
	int good = 1;

	for (c.in_place = 0; c.in_place < 2 && good; c.in_place++) {
		c.kind = COLL_KIND_ALLREDUCE;
		good = api_call_run(r, &c);
		c.kind = COLL_KIND_BROADCAST;
		c.root = r->nranks - 1;
		good = good && api_call_run(r, &c);
	}
}

static void coll_barriers(struct api_rank *r)
{
	atomic_llong *come = &r->c->shared->number[0];

	for (int round = 1; round <= 20; round++) {
		if (r->rank == round % r->nranks)
			api_sleep_ms(1);
		atomic_fetch_add(come, 1);
		if (!api_did(r, coll_barrier(r->comm), "coll_barrier"))
			return;
		if (atomic_load(come) < (long long)round * r->nranks)
			api_fail(r, "left barrier %d before all had come", round);
		if (!api_did(r, coll_barrier(r->comm), "coll_barrier"))
			return;
	}
}

/* Many operations are issued before the first is waited for. */
static void coll_queue(struct api_rank *r)
{
	enum { N = 100 };
	int32_t *x = api_room(r, N * sizeof(*x)), sum = r->nranks * (r->nranks - 1) / 2;
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
};
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
	{"coll-large", "allreduce and broadcast of megabytes agree with the reference",
	 "coll.h, Counts", CHECK_API, .ways = CHECK_EITHER, .slow = 1, .run = api_run,
	 .plan = &coll_large_plan},
	{"coll-barrier", "no rank leaves a barrier before all ranks have come",
	 "coll.h, coll_barrier", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &coll_barriers_plan},
	{"coll-queue", "200 operations are issued before the first is waited for", "coll.h, Order",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &coll_queue_plan},
	{.name = NULL},
};
