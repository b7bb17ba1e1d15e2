/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_test.c - the operations of a group leave in few system calls, and an operation leaves at once although
 * the rank that issued it makes no further call.
 */
#include "../lib/ranks.h"

#include "sendmsg_count.h"

enum { TEST_GROUP = 100, TEST_ROUNDS = 4, TEST_WAIT_S = 60 };

/* The allreduces of a group, taken in turn by n communicators; the sums are checked. */
static int test_group(struct rank *r, coll_comm_t *comm, int n)
{
	int64_t x[TEST_GROUP], y[TEST_GROUP] = {0};

	if (!rank_did(r, coll_group_start(), "group_start"))
		return 0;
	for (int i = 0; i < TEST_GROUP; i++) {
		x[i] = i + r->rank;
		if (!rank_did(r,
			      coll_allreduce(&x[i], &y[i], 1, COLL_INT64, COLL_SUM, comm[i % n],
					     NULL),
			      "allreduce"))
			return 0;
	}
	if (!rank_did(r, coll_group_end(), "group_end"))
		return 0;
	for (int i = 0; i < n; i++)
		if (!rank_did(r, coll_sync(comm[i]), "sync"))
			return 0;
	for (int i = 0; i < TEST_GROUP; i++)
		if (y[i] != (int64_t)r->nranks * i + r->nranks * (r->nranks - 1) / 2)
			return rank_fail(r, "sum %d is %lld", i, (long long)y[i]);
	return 1;
}

/* Half as many calls as messages would be a failure to send together; one call each is usual. */
static void test_few(struct rank *r)
{
	int rounds = 0;

	while (1 << rounds < r->nranks)
		rounds++;
	if (!test_group(r, &r->comm, 1))
		return;
	atomic_store(&sendmsg_calls, 0);
	for (int i = 0; i < TEST_ROUNDS; i++)
		if (!test_group(r, &r->comm, 1))
			return;
	if (!atomic_load(&sendmsg_calls))
		rank_fail(r, "no call of sendmsg() was counted");
	if (atomic_load(&sendmsg_calls) > TEST_ROUNDS * rounds * TEST_GROUP / 2)
		rank_fail(r, "%d calls of sendmsg() for %d messages", atomic_load(&sendmsg_calls),
			  TEST_ROUNDS * rounds * TEST_GROUP);
}

/* Two communicators on one endpoint. */
static void test_two(struct rank *r)
{
	coll_comm_t comm[2] = {r->comm, NULL};

	if (!rank_did(r, coll_comm_split(r->comm, 0, r->rank, &comm[1], NULL), "split"))
		return;
	for (int i = 0; i < TEST_ROUNDS; i++)
		if (!test_group(r, comm, 2))
			break;
	rank_did(r, coll_comm_destroy(comm[1]), "destroy");
}

/* --------------------------------------------------------------------- at once -- */

/* Rank 0 issues an operation, alone or as a group, then only waits until rank 1 has its message. */
static int test_issue(struct rank *r, int grouped, int64_t *x, int64_t *y)
{
	coll_result_t code = grouped ? coll_group_start() : COLL_SUCCESS;

	*x = 20 + r->rank;
	if (!code)
		code = coll_allreduce(x, y, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code && grouped)
		code = coll_group_end();
	return rank_did(r, code, "issue");
}

static void test_at_once(struct rank *r)
{
	_Atomic int *complete = r->user;

	for (int i = 0; i < 6; i++) {
		double end = ranks_now() + TEST_WAIT_S;
		int64_t x, y;

		if (!test_issue(r, i % 2, &x, &y))
			return;
		while (r->rank == 0 && atomic_load(complete) <= i && ranks_now() < end)
			ranks_sleep(0.0005);
		if (r->rank == 0 && atomic_load(complete) <= i)
			rank_fail(r, "message %d did not reach rank 1 without a further call", i);
		if (!rank_did(r, coll_sync(r->comm), "sync"))
			return;
		if (r->rank == 1)
			atomic_store(complete, i + 1);
		if (y != 41)
			rank_fail(r, "the sum is %d", (int)y);
	}
}

/* ------------------------------------------------------------------------------- -- */

static void test_run(int nranks, void (*fn)(struct rank *r), const char *what, const char *how)
{
	struct ranks_job job = {.backend = "tcp",
				.nranks = nranks,
				.processes = 1,
				.fn = fn,
				.user = ranks_memory(sizeof(int))};

	ranks_ok(&job, "%s over %s", what, how);
}

static void test_all(int sockets, const char *how)
{
	if (sockets) {
		test_run(2, test_few, "a group leaves in few calls", how);
		test_run(4, test_few, "a group leaves in few calls", how);
	}
	test_run(2, test_at_once, "an operation leaves at once", how);
	test_run(2, test_two, "two communicators in a group", how);
	test_run(3, test_two, "two communicators in a group", how);
}

int main(void)
{
	setenv("COLL_TCP_RING", "0", 1);
	setenv("COLL_TCP_UNIX", "no", 1);
	test_all(1, "TCP");
	setenv("COLL_TCP_UNIX", "yes", 1);
	test_all(1, "local sockets");
	unsetenv("COLL_TCP_RING");
	test_all(0, "shared memory");
	return done_testing();
}
