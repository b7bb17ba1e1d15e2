/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.c - derived communicators (split, dup, shrink), and the properties that a communicator
 * reports.
 */
#include "check/api/api.h"
#include <signal.h>
#include <string.h>

/* Has `comm` the expected rank and size, and does an allreduce work?  Destroys the communicator. */
static int comm_expect(struct api_rank *r, coll_comm_t comm, int32_t nranks, int32_t rank)
{
	struct api_rank derived;
	int good = api_derive(&derived, r, comm);

	if (good && (derived.nranks != nranks || derived.rank != rank))
		good = api_fail(r, "is rank %d of %d in the new communicator, not %d of %d",
				derived.rank, derived.nranks, rank, nranks);
	good = good && api_works(&derived);
	return api_did(r, coll_comm_destroy(comm), "coll_comm_destroy") && good;
}

static void comm_facts(struct api_rank *r)
{
	int32_t n = -1, rank = -1, device;
	coll_result_t error = COLL_ERR_INTERNAL;
	const char *name = "";

	if (!api_did(r, coll_comm_count(r->comm, &n), "coll_comm_count") ||
	    !api_did(r, coll_comm_user_rank(r->comm, &rank), "coll_comm_user_rank") ||
	    !api_did(r, coll_comm_device(r->comm, &device), "coll_comm_device") ||
	    !api_did(r, coll_comm_backend(r->comm, &name), "coll_comm_backend") ||
	    !api_did(r, coll_comm_get_async_error(r->comm, &error), "coll_comm_get_async_error"))
		return;
	if (n != r->nranks || rank != r->rank || error || strcmp(name, r->c->options->name))
		api_fail(r, "is rank %d of %d over '%s' with error %d", rank, n, name, error);
	api_works(r);
}

/* ------------------------------------------------------------------------- split -- */

/* With equal keys the ranks keep their order; colours may be large. */
static void comm_split_ties(struct api_rank *r)
{
	coll_comm_t all;

	if (api_did(r, coll_comm_split(r->comm, INT32_MAX, 7, &all, NULL), "coll_comm_split") &&
	    comm_expect(r, all, r->nranks, r->rank))
		api_works(r);
}

/* Splits off the highest rank again and again.  Each parent may be destroyed as soon as its child exists. */
static void comm_nested(struct api_rank *r)
{
	struct api_rank now = *r, next;
	coll_comm_t part = NULL;
	int32_t color;

	if (!api_did(r, coll_comm_dup(r->comm, &now.comm), "coll_comm_dup"))
		return;
	for (;;) {
		color = now.rank < now.nranks - 1 ? 0 : COLL_SPLIT_NOCOLOR;
		if (!api_works(&now) ||
		    !api_did(&now, coll_comm_split(now.comm, color, 0, &part, NULL),
			     "coll_comm_split"))
			return;
		if (part && !api_derive(&next, &now, part))
			return;
		if (!api_did(&now, coll_comm_destroy(now.comm), "coll_comm_destroy"))
			return;
		if (!part)
			break;
		if (next.nranks != now.nranks - 1)
			api_fail(r, "%d of %d ranks are left after a split", next.nranks,
				 now.nranks);
		now = next;
	}
	api_works(r);
}

/* ------------------------------------------------------------------- dup, shrink -- */

/* Duplicates while operations issued before and after it are under way. */
static void comm_idup(struct api_rank *r)
{
	coll_comm_t comm;
	coll_request_t request;
	struct api_rank twin;
	int32_t *x = api_buffer(r, 2 * sizeof(*x));

	x[0] = x[1] = 1;
	if (!api_did(r, coll_allreduce(&x[0], &x[0], 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		     "coll_allreduce") ||
	    !api_did(r, coll_comm_idup(r->comm, &comm, NULL, &request), "coll_comm_idup") ||
	    !api_did(r, coll_allreduce(&x[1], &x[1], 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		     "coll_allreduce") ||
	    !api_did(r, coll_wait(request), "coll_wait") ||
	    !api_did(r, coll_request_free(request), "coll_request_free") ||
	    !api_derive(&twin, r, comm))
		return;
	if (api_works(&twin) && api_did(r, coll_sync(r->comm), "coll_sync") &&
	    (x[0] != r->nranks || x[1] != r->nranks))
		api_fail(r, "the sums beside coll_comm_idup are %d and %d, not %d", x[0], x[1],
			 r->nranks);
	api_did(r, coll_comm_destroy(comm), "coll_comm_destroy");
}

static void comm_shrink(struct api_rank *r)
{
	int32_t gone[] = {r->nranks - 1, 0}, listed = r->nranks > 2 ? 2 : 1;
	int excluded = r->rank == r->nranks - 1 || (listed == 2 && !r->rank);
	coll_comm_t rest;

	if (!excluded &&
	    api_did(r, coll_comm_shrink(r->comm, gone, listed, &rest, NULL, 0), "coll_comm_shrink"))
		comm_expect(r, rest, r->nranks - listed, r->rank - (listed == 2));
	/* The excluded rank waits until the other ranks have finished. */
	api_kit_barrier(r);
}

/* The last rank dies.  The survivors notice, shrink and go on without it. */
static void comm_shrink_dead(struct api_rank *r)
{
	int32_t dead = r->nranks - 1;
	coll_comm_t rest;
	coll_result_t code;

	if (!api_works(r) || !api_kit_barrier(r))
		return;
	if (r->rank == dead) {
		check_dies(r->c, r->slot);
		raise(SIGKILL);
	}
	code = coll_barrier(r->comm);
	if (code != COLL_ERR_PEER_LOST && code != COLL_ERR_REMOTE && !(code && api_may_lack(r)))
		api_fail(r, "a barrier with a dead rank gives %d: %s", code,
			 coll_get_last_error(NULL));
	if (api_did(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), "coll_comm_shrink"))
		comm_expect(r, rest, r->nranks - 1, r->rank);
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan comm_facts_plan = {.rank = comm_facts};
static const struct api_plan comm_split_plan = {.scenario = scenario_split};
static const struct api_plan comm_split_ties_plan = {.rank = comm_split_ties};
static const struct api_plan comm_split_no_colour_plan = {.scenario = scenario_split_no_colour};
static const struct api_plan comm_nested_plan = {.rank = comm_nested};
static const struct api_plan comm_dup_plan = {.scenario = scenario_dup};
static const struct api_plan comm_idup_plan = {.rank = comm_idup};
static const struct api_plan comm_shrink_plan = {.rank = comm_shrink};
static const struct api_plan comm_shrink_dead_plan = {.rank = comm_shrink_dead, .flags = API_ROUGH};

const struct check check_api_comm[] = {
	{"comm-facts", "a communicator knows its rank, size and backend, and has no error",
	 "coll.h, coll_comm_count", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &comm_facts_plan},
	{"comm-split", "ranks of equal colour are ordered by key", "coll.h, coll_comm_split",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &comm_split_plan},
	{"comm-split-ties", "equal keys keep the old order", "coll.h, coll_comm_split", CHECK_API,
	 .ways = CHECK_EITHER, .run = api_run, .plan = &comm_split_ties_plan},
	{"comm-split-no-colour", "a rank without a colour gets no communicator",
	 "coll.h, coll_comm_split", CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2, .run = api_run,
	 .plan = &comm_split_no_colour_plan},
	{"comm-nested", "a split communicator is split again after its parent has ended",
	 "coll.h, coll_comm_split", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &comm_nested_plan},
	{"comm-dup", "a duplicate is independent of its original", "coll.h, coll_comm_dup",
	 CHECK_API, .ways = CHECK_EITHER, .run = api_run, .plan = &comm_dup_plan},
	{"comm-idup", "a dup with a request has its place among operations",
	 "coll.h, coll_comm_idup", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &comm_idup_plan},
	{"comm-shrink", "the ranks not listed form a new communicator", "coll.h, coll_comm_shrink",
	 CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2, .run = api_run,
	 .plan = &comm_shrink_plan},
	{"comm-shrink-dead", "the survivors of a dead rank form a new communicator",
	 "coll.h, coll_comm_shrink", CHECK_API, .needs = CHECK_SURVIVES, .ways = CHECK_PROCESSES,
	 .ranks_min = 2, .run = api_run, .plan = &comm_shrink_dead_plan},
	{.name = NULL},
};
