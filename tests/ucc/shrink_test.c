/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink_test.c - coll_comm_shrink over backends without a transport and without a shrink of their own: the ranks that stay
 * meet over the companion's transport, and the backend makes a new endpoint.  Runs over ucc if UCC is installed, and over a
 * stand-in.
 */
#include "../lib/ranks.h"

enum { ROUNDS = 20 };

/* Calls of the backend and of the companion, on a communicator in which this process is `rank` of `nranks`. */
static void shrink_works(struct rank *r, coll_comm_t comm, int rank, int nranks)
{
	int64_t x = rank + 1, scan = -1, sum = -1;
	const int64_t all = (int64_t)nranks * (nranks + 1) / 2;

	if (!is_rank(r, comm, rank, nranks))
		return;
	for (int i = 0; i < ROUNDS; i++) {
		sums_to(r, comm, x, all, "the sum of those that stay");
		rank_did(r, coll_scan(&x, &scan, 1, COLL_INT64, COLL_SUM, comm, NULL), "scan");
		rank_did(r, coll_allreduce(&scan, &sum, 1, COLL_INT64, COLL_MAX, comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(comm), "sync");
		rank_is(r, sum, all, "the largest scan");
	}
}

/* The last rank ends, and the others go on. */
static coll_comm_t shrink_off_last(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;
	int64_t x = 1;

	(void)coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!coll_sync(r->comm))
		rank_fail(r, "a sum without the last rank");
	if (!rank_did(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0), "shrink"))
		return NULL;
	return rest;
}

/* 1: this rank is the last one, and has ended. */
static int shrink_ends(struct rank *r, int vanishes)
{
	int64_t x = 1;

	/* The other ranks may learn of the end before the sum is theirs. */
	(void)coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	(void)coll_sync(r->comm);
	if (r->rank < r->nranks - 1)
		return 0;
	if (vanishes)
		ranks_vanish();
	rank_did(r, coll_comm_abort(r->comm), "abort");
	return 1;
}

static void shrink_after(struct rank *r, int vanishes)
{
	coll_comm_t rest, half = NULL;

	if (shrink_ends(r, vanishes))
		return;
	rest = shrink_off_last(r);
	if (!rest)
		return;
	shrink_works(r, rest, r->rank, r->nranks - 1);
	if (rank_did(r, coll_comm_split(rest, r->rank == 0, -r->rank, &half, NULL), "split"))
		shrink_works(r, half, r->rank ? r->nranks - 2 - r->rank : 0,
			     r->rank ? r->nranks - 2 : 1);
	if (half)
		rank_did(r, coll_comm_destroy(half), "destroy");
	rank_did(r, coll_comm_destroy(rest), "destroy");
}

static void shrink_after_abort(struct rank *r)
{
	shrink_after(r, 0);
}

static void shrink_after_death(struct rank *r)
{
	shrink_after(r, 1);
}

/* The communicator has not failed, and goes on to work. */
static void shrink_whole(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;

	if (r->rank < last &&
	    rank_did(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0), "shrink")) {
		shrink_works(r, rest, r->rank, r->nranks - 1);
		rank_did(r, coll_comm_destroy(rest), "destroy");
	}
	shrink_works(r, r->comm, r->rank, r->nranks);
}

/* Rank 1 dies when it should shrink: the others learn it, and then leave it out too. */
static void shrink_twice(struct rank *r)
{
	const int32_t gone[2] = {1, r->nranks - 1};
	coll_comm_t rest = NULL;
	coll_result_t code;

	if (shrink_ends(r, 1))
		return;
	if (r->rank == 1)
		ranks_vanish();
	code = coll_comm_shrink(r->comm, &gone[1], 1, &rest, NULL, 0);
	if (code != COLL_ERR_PEER_LOST)
		rank_fail(r, "rank 1 is lost: %d (%s)", code, coll_get_last_error(NULL));
	rank_says(r, "rank 1", "its name");
	if (!rank_did(r, coll_comm_shrink(r->comm, gone, 2, &rest, NULL, 0), "shrink"))
		return;
	shrink_works(r, rest, r->rank ? r->rank - 1 : 0, r->nranks - 2);
	rank_did(r, coll_comm_destroy(rest), "destroy");
}

/* Another rank that stays does not call. */
static void shrink_alone(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;
	coll_result_t code;

	if (r->rank)
		return;
	rank_did(r, coll_comm_set_timeout(r->comm, 500), "set_timeout");
	code = coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0);
	if (code != COLL_ERR_TIMEOUT && code != COLL_ERR_PEER_LOST)
		rank_fail(r, "rank 1 does not come: %d (%s)", code, coll_get_last_error(NULL));
	rank_says(r, "rank 1", "its name");
}

static void shrink_without_companion(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;
	coll_result_t code;

	if (r->rank == last)
		return;
	code = coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0);
	if (code != COLL_ERR_UNSUPPORTED)
		rank_fail(r, "there is no way to meet: %d", code);
	rank_says(r, "no companion over which they could meet", "the reason");
}

static void test_shrink(const char *backend, int processes)
{
	for (int n = 3; n <= 5; n++) {
		const struct ranks_job lost = {backend, n, processes,
					       processes ? shrink_after_death : shrink_after_abort,
					       NULL};
		const struct ranks_job whole = {backend, n, processes, shrink_whole, NULL};
		const struct ranks_job twice = {backend, n, 1, shrink_twice, NULL};

		ranks_ok(&lost, "the ranks that stay go on");
		ranks_ok(&whole, "a shrink without a failure");
		if (processes)
			ranks_ok(&twice, "another rank dies instead of shrinking");
	}
	const struct ranks_job alone = {backend, 3, processes, shrink_alone, NULL};
	const struct ranks_job none = {backend, 3, processes, shrink_without_companion, NULL};

	ranks_ok(&alone, "another rank does not shrink");
	setenv("COLL_COMPANION", "none", 1);
	ranks_ok(&none, "no companion");
	unsetenv("COLL_COMPANION");
}

int main(void)
{
	ranks_plugins(".libs", "tests/plugins/.libs");
	/* Processes first: UCC cannot be used by a child of a process that has used it. */
	if (ranks_can("ucc")) {
		test_shrink("ucc", 1);
		test_shrink("ucc", 0);
	}
	test_shrink("bare", 0);
	return done_testing();
}
