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

/* The rank destroys the first duplicate before it uses the second, which was made from it. */
static void derive_dup(const struct gpu *g)
{
	coll_comm_t one, two;

	if (gpu_did(coll_comm_dup(g->comm, &one), "coll_comm_dup")) {
		gpu_sums(g, one, gpu_total(g), "a copy");
		gpu_did(coll_comm_dup(one, &two), "coll_comm_dup of a copy");
		gpu_did(coll_comm_destroy(one), "coll_comm_destroy");
		derive_is(two, g->rank, g->nranks);
		gpu_sums(g, two, gpu_total(g), "a copy of a copy");
		gpu_did(coll_comm_destroy(two), "coll_comm_destroy");
		gpu_sums(g, g->comm, gpu_total(g), "the first one");
	}
	gpu_report("dup, and dup of that");
}

/* Splits odd from even ranks, in reverse order. */
static void derive_split(const struct gpu *g)
{
	int color = g->rank % 2, size = (g->nranks + 1 - color) / 2, want = 0;
	coll_comm_t half;

	for (int r = color; r < g->nranks; r += 2)
		want += r + 1;
	if (gpu_did(coll_comm_split(g->comm, color, -g->rank, &half, NULL), "coll_comm_split")) {
		derive_is(half, size - 1 - g->rank / 2, size);
		gpu_sums(g, half, want, "one of two halves");
		gpu_did(coll_comm_destroy(half), "coll_comm_destroy");
	}
	gpu_report("split into two halves, in reverse order");
}

static void derive_nobody(const struct gpu *g)
{
	int out = g->rank == g->nranks - 1;
	coll_comm_t rest = g->comm;

	gpu_did(coll_comm_split(g->comm, out ? COLL_SPLIT_NOCOLOR : 0, 0, &rest, NULL),
		"coll_comm_split");
	if (out && rest)
		gpu_fail("without colour there is a communicator");
	if (!out && derive_is(rest, g->rank, g->nranks - 1))
		gpu_sums(g, rest, gpu_total(g) - g->nranks, "all but the last");
	if (!out)
		gpu_did(coll_comm_destroy(rest), "coll_comm_destroy");
	gpu_report("split that leaves a rank out");
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
	derive_dup(g);
	derive_together(g);
	derive_split(g);
	if (g->nranks < 2) {
		gpu_skip("split that leaves a rank out", "one rank");
		gpu_skip("shrink", "one rank");
		return;
	}
	derive_nobody(g);
	derive_shrink(g);
}
