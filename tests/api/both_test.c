/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * both_test.c - a backend with a transport and with functions of its own: operations in their order whichever
 * of the two does them, groups, communicators that share the endpoint.
 *
 * The ranks are threads over coll_both, which sums up to eight int32 by itself.
 */
#include "../lib/ranks.h"

/* Rank 1 calls late: the backend's sum waits for it, and the product reads the sum. */
static void in_order(struct rank *r)
{
	int32_t x = r->rank + 1, sum[2] = {0}, product[2] = {0};
	coll_result_t code = COLL_SUCCESS;

	if (r->rank == 1)
		ranks_sleep(0.2);
	for (int i = 0; !code && i < 2; i++) {
		code = coll_allreduce(&x, sum + i, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
		if (!code)
			code = coll_allreduce(sum + i, product + i, 1, COLL_INT32, COLL_PROD,
					      r->comm, NULL);
	}
	if (!rank_did(r, code, "a call") || !rank_did(r, coll_sync(r->comm), "sync"))
		return;
	for (int i = 0; i < 2; i++)
		if (sum[i] != 6 || product[i] != 216)
			rank_fail(r, "sum %d, product %d", sum[i], product[i]);
}

/* Both kinds in one group, over two communicators of which one shares the other's endpoint. */
static void in_group(struct rank *r)
{
	int32_t x = r->rank + 1, sum[3] = {0}, product = 0;
	coll_comm_t twin = NULL;
	coll_result_t code;

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	code = coll_group_start();
	if (!code)
		code = coll_allreduce(&x, sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_allreduce(&x, sum + 1, 1, COLL_INT32, COLL_SUM, twin, NULL);
	if (!code)
		code = coll_allreduce(&x, &product, 1, COLL_INT32, COLL_PROD, r->comm, NULL);
	if (!code)
		code = coll_allreduce(&x, sum + 2, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_group_end();
	if (rank_did(r, code, "a call") && rank_did(r, coll_sync(r->comm), "sync") &&
	    rank_did(r, coll_sync(twin), "sync of the twin") &&
	    (sum[0] != 6 || sum[1] != 6 || sum[2] != 6 || product != 6))
		rank_fail(r, "sums %d, %d, %d, product %d", sum[0], sum[1], sum[2], product);
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

static int sum_is(struct rank *r, coll_comm_t comm, int32_t want, const char *what)
{
	int32_t x = r->rank + 1, y = 0;

	if (!rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL), what) ||
	    !rank_did(r, coll_sync(comm), what))
		return 0;
	return y == want || rank_fail(r, "%s: the sum is %d, not %d", what, y, want);
}

/* Ranks 0 and 2, and rank 1: the engine sums over all three. */
static void in_part(struct rank *r)
{
	coll_comm_t part = NULL;
	void *engine = NULL;

	if (!rank_did(r, coll_comm_split(r->comm, r->rank % 2, 0, &part, NULL), "split"))
		return;
	sum_is(r, part, r->rank == 1 ? 2 : 4, "a part of the ranks");
	sum_is(r, r->comm, 6, "all ranks");
	if (!rank_did(r, coll_comm_native_handle(r->comm, &engine), "the engine's object"))
		return;
	if (coll_comm_native_handle(part, &engine) != COLL_ERR_UNSUPPORTED)
		rank_fail(r, "the engine's object has another's ranks");
	rank_did(r, coll_comm_destroy(part), "destroy");
	sum_is(r, r->comm, 6, "all ranks again");
}

int main(void)
{
	ranks_plugins("tests/plugins/.libs", NULL);
	setenv("COLL_TIMEOUT", "20s", 1);
	if (!ranks_can("both"))
		return done_testing();
	ranks_ok(&(struct ranks_job){"both", 3, 0, in_order, NULL}, "in order");
	ranks_ok(&(struct ranks_job){"both", 3, 0, in_group, NULL}, "in a group");
	ranks_ok(&(struct ranks_job){"both", 3, 0, in_part, NULL}, "in communicators of a part");
	return done_testing();
}
