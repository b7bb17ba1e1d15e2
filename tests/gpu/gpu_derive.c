/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_derive.c - derived communicators: dup, split, shrink. */
#include "gpu.h"

static int derive_is(coll_comm_t comm, int32_t rank, int32_t nranks)
{
	int32_t r = -1, n = -1;

	return gpu_did(coll_comm_user_rank(comm, &r), "coll_comm_user_rank") &&
	       gpu_did(coll_comm_count(comm, &n), "coll_comm_count") &&
	       ((r == rank && n == nranks) ||
		gpu_fail("rank %d of %d, not %d of %d", r, n, rank, nranks));
}

/* Shrinks a duplicate, because only some ranks use a communicator that is shrunk. */
static void derive_shrink(const struct gpu *g)
{
	int32_t last = g->nranks - 1;
	coll_comm_t copy, rest;
	coll_result_t code;

	if (!gpu_did(coll_comm_dup(g->comm, &copy), "coll_comm_dup"))
		return;
	gpu_sums(g, copy, gpu_total(g), "before");
	code = g->rank == last ? COLL_SUCCESS : coll_comm_shrink(copy, &last, 1, &rest, NULL, 0);
	if (g->rank != last && gpu_did(code, "coll_comm_shrink")) {
		derive_is(rest, g->rank, last);
		gpu_sums(g, rest, gpu_total(g) - g->nranks, "all but the last");
		gpu_did(coll_comm_destroy(rest), "coll_comm_destroy");
	}
	gpu_did(coll_barrier(g->comm), "coll_barrier");
	gpu_did(coll_comm_destroy(copy), "coll_comm_destroy");
	if (code == COLL_ERR_UNSUPPORTED)
		gpu_say("note|%s", coll_get_last_error(NULL));
	gpu_report("shrink");
}

/* Uses both duplicates at once, in one group. */
static void derive_together(const struct gpu *g)
{
	int32_t mine = g->rank + 1, sums[2] = {0, 0};
	coll_comm_t copy;

	if (gpu_did(coll_comm_dup(g->comm, &copy), "coll_comm_dup")) {
		gpu_copy(g->send, &mine, sizeof(mine));
		gpu_did(coll_group_start(), "coll_group_start");
		gpu_did(coll_allreduce(g->send, g->recv, 1, COLL_INT32, COLL_SUM, g->comm, NULL),
			"coll_allreduce");
		gpu_did(coll_allreduce(g->send, g->recv + 4, 1, COLL_INT32, COLL_SUM, copy, NULL),
			"coll_allreduce");
		gpu_did(coll_group_end(), "coll_group_end");
		gpu_did(coll_sync(copy), "coll_sync");
		gpu_did(coll_sync(g->comm), "coll_sync");
		gpu_copy(sums, g->recv, sizeof(sums));
		if (sums[0] != gpu_total(g) || sums[1] != gpu_total(g))
			gpu_fail("the sums are %d and %d, not %d", sums[0], sums[1], gpu_total(g));
		gpu_did(coll_comm_destroy(copy), "coll_comm_destroy");
	}
	gpu_report("two communicators in one group");
}

void gpu_derive(struct gpu *g)
{
	gpu_scenario(g, 0, scenario_dup_of_dup);
	gpu_report("dup, and dup of that");
	derive_together(g);
	gpu_scenario(g, 0, scenario_split);
	gpu_report("split into two halves, in reverse order");
	if (g->nranks < 2) {
		gpu_skip("split that leaves a rank out", "one rank");
		gpu_skip("shrink", "one rank");
		return;
	}
	gpu_scenario(g, 0, scenario_split_no_colour);
	gpu_report("split that leaves a rank out");
	derive_shrink(g);
}
