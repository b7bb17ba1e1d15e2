/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_group.c - messages between two ranks, and many operations at once: groups of tensors, of
 * different collectives, nested groups; a chain of calls without a wait between them.
 */
#include "gpu.h"

enum { TENSORS = 16, WORDS = 4096, CHAIN = 12 };

static void *group_place(char *arena, int i)
{
	return arena + (size_t)i * WORDS * sizeof(int32_t);
}

static void group_fill(const struct gpu *g, void *dst, int32_t value, size_t count)
{
	if (count)
		gpu_must(cuda_driver.cuMemsetD32Async((uintptr_t)dst, (unsigned)value, count,
						      g->stream),
			 "cuMemsetD32");
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
}

static int group_holds(const struct gpu *g, const void *src, int32_t want, size_t count,
		       const char *what)
{
	int32_t *got = (int32_t *)(void *)g->host;

	gpu_copy(got, src, count * sizeof(*got));
	for (size_t i = 0; i < count; i++)
		if (got[i] != want)
			return gpu_fail("%s: word %zu is %d, not %d", what, i, got[i], want);
	return 1;
}

static int group_end(const struct gpu *g)
{
	return gpu_did(coll_group_end(), "coll_group_end") &&
	       gpu_did(coll_sync(g->comm), "coll_sync");
}

/* ----------------------------------------------------------------- messages -- */

/* Every rank sends to every rank, also to itself; `count` may be 0. */
static void message_all(const struct gpu *g, size_t count)
{
	gpu_scenario(g, count * sizeof(int32_t), scenario_all_pairs_long);
	gpu_report("messages of %zu elements between all ranks", count);
}

static void message_pair(const struct gpu *g)
{
	if (g->nranks < 2) {
		gpu_skip("messages without a group", "one rank");
		return;
	}
	gpu_scenario(g, 0, scenario_ping_pong);
	gpu_report("messages without a group");
}

/* ------------------------------------------------------------------- groups -- */

/* The sizes differ; the last tensor has no elements. */
static size_t tensor_count(int i)
{
	return (size_t)(TENSORS - 1 - i) * WORDS / TENSORS;
}

static void tensor_sum(const struct gpu *g, int i)
{
	gpu_did(coll_allreduce(group_place(g->send, i), group_place(g->recv, i), tensor_count(i),
			       COLL_INT32, COLL_SUM, g->comm, NULL),
		"coll_allreduce");
}

static void group_tensors(const struct gpu *g, int nested)
{
	int done;

	for (int i = 0; i < TENSORS; i++) {
		group_fill(g, group_place(g->send, i), (g->rank + 1) * (i + 1), tensor_count(i));
		group_fill(g, group_place(g->recv, i), -1, WORDS);
	}
	gpu_did(coll_group_start(), "coll_group_start");
	for (int i = 0; i < TENSORS; i++) {
		if (nested)
			gpu_did(coll_group_start(), "coll_group_start");
		tensor_sum(g, i);
		if (nested)
			gpu_did(coll_group_end(), "coll_group_end");
	}
	done = group_end(g);
	for (int i = 0; done && i < TENSORS; i++)
		group_holds(g, group_place(g->recv, i), gpu_total(g) * (i + 1), tensor_count(i),
			    "a tensor's sum");
	gpu_report(nested ? "groups within a group" : "many tensors in a group");
}

static void group_mixed(const struct gpu *g)
{
	size_t part = WORDS / GPU_RANKS;
	int last = g->nranks - 1;

	for (int i = 0; i < 3; i++)
		group_fill(g, group_place(g->send, i), (g->rank + 1) * (i + 1), WORDS);
	gpu_did(coll_group_start(), "coll_group_start");
	tensor_sum(g, 0);
	gpu_did(coll_broadcast(group_place(g->send, 1), group_place(g->recv, 1), WORDS, COLL_INT32,
			       last, g->comm, NULL),
		"coll_broadcast");
	gpu_did(coll_allgather(group_place(g->send, 2), group_place(g->recv, 2), part, COLL_INT32,
			       g->comm, NULL),
		"coll_allgather");
	if (group_end(g)) {
		group_holds(g, group_place(g->recv, 0), gpu_total(g), tensor_count(0), "the sum");
		group_holds(g, group_place(g->recv, 1), 2 * (last + 1), WORDS, "the broadcast");
		for (int r = 0; r < g->nranks; r++)
			group_holds(g, (int32_t *)group_place(g->recv, 2) + (size_t)r * part,
				    3 * (r + 1), part, "what was gathered");
	}
	gpu_report("different collectives in a group");
}

/* Each operation reads the result of the operation before. */
static void group_chain(const struct gpu *g)
{
	char *from = g->send, *to = g->recv, *swap;
	int32_t want = gpu_total(g);

	group_fill(g, g->send, g->rank + 1, WORDS);
	for (int i = 0; i < CHAIN; i++) {
		gpu_did(coll_allreduce(from, to, WORDS, COLL_INT32, i ? COLL_AVG : COLL_SUM,
				       g->comm, NULL),
			"coll_allreduce");
		swap = from;
		from = to;
		to = swap;
	}
	if (gpu_did(coll_sync(g->comm), "coll_sync"))
		group_holds(g, from, want, WORDS, "the end of the chain");
	gpu_report("%d calls, each on the result of the one before, without waiting", CHAIN);
}

void gpu_group(struct gpu *g)
{
	message_all(g, WORDS);
	message_all(g, 1);
	message_all(g, 0);
	message_pair(g);
	group_tensors(g, 0);
	group_tensors(g, 1);
	group_mixed(g);
	group_chain(g);
}
