/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_cost_test.c - the schedule of one rank costs what its own steps cost, however many ranks there
 * are: the processor time per step of 65,536 ranks is compared with that of 1,024.  And no algorithm that the built-in rules
 * choose for 65,536 ranks has more than three steps for each rank.
 */
#include "../lib/ranks.h"
#include "../lib/tap.h"

#include "algorithm/selection.h"
#include "base/kind.h"
#include "config/config.h"
#include "schedule/algo.h"

#include <coll/coll.h>
#include <coll/introspect.h>
#include <time.h>

enum { FEW = 1024, MANY = 65536, PER_NODE = 8, TIMES = 3, RATIO = 24 };

static int node[MANY];
static size_t counts[MANY], displs[MANY];

/* ns of this thread's processor time. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Both ends of node 1 and the last rank: the first two differ in what two_level makes of them. */
static int rank_of(int i, int nranks)
{
	return i == 0 ? PER_NODE : i == 1 ? 2 * PER_NODE - 1 : nranks - 1;
}

static coll_schedule_args_t call_of(int algorithm, int nranks, int rank)
{
	coll_schedule_args_t a = {.size = sizeof(a), .algorithm = algorithm, .elem = 4};

	a.nranks = nranks;
	a.rank = rank;
	a.count = 1;
	a.nodes = node;
	a.sendcounts = a.recvcounts = counts;
	a.senddispls = a.recvdispls = displs;
	return a;
}

/* The least time of coll_schedule_create; *steps becomes the number of steps. */
static double create_ns(const coll_schedule_args_t *a, int *steps)
{
	double least = 1e18;

	for (int i = 0; i < TIMES; i++) {
		coll_schedule_t schedule;
		double begin = now();

		if (coll_schedule_create(a, &schedule))
			return -1;
		if (now() - begin < least)
			least = now() - begin;
		*steps = coll_schedule_step_count(schedule);
		coll_schedule_destroy(schedule);
	}
	return least;
}

/*
 * A microsecond and 20 steps are granted to each schedule, for the work that no step causes.  Algorithms that
 * read an array of all ranks once may take 8 ns a rank for it.  Under a sanitizer every algorithm may take 32 ns a rank,
 * since malloc then marks each byte of an array.
 */
static void test_create(int algorithm, int reads)
{
	const struct algo *algo = algo_at(algorithm);
	const double read_ns = ranks_sanitized() ? 32 : reads ? 8 : 0;

	for (int i = 0; i < 3; i++) {
		coll_schedule_args_t few = call_of(algorithm, FEW, rank_of(i, FEW));
		coll_schedule_args_t many = call_of(algorithm, MANY, rank_of(i, MANY));
		int few_steps = 0, many_steps = 0;
		double few_ns = create_ns(&few, &few_steps), many_ns;

		many_ns = create_ns(&many, &many_steps);
		ok(few_ns >= 0 && many_ns >= 0 &&
			   many_ns / (many_steps + 20) <=
				   RATIO * (few_ns + 1000) / (few_steps + 20) +
					   read_ns * RATIO * MANY / (many_steps + 20),
		   "%d %s of rank %d: %d steps in %.0f ns of %d ranks, %d in %.0f ns of %d",
		   algo->kind, algo->name, few.rank, few_steps, few_ns, FEW, many_steps, many_ns,
		   MANY);
	}
}

/* The least time in which the schedule is made again in the memory of `s`. */
static double rebuild_ns(struct sched *s, const struct algo *algo, const struct work *w, int nranks)
{
	double least = 1e18;

	for (int i = 0; i < TIMES; i++) {
		double begin = now();

		sched_reset(s, PER_NODE, nranks, 4, SIZE_MAX);
		algo_build(algo, s, w);
		if (now() - begin < least)
			least = now() - begin;
	}
	return least;
}

/* As the library does: the nodes are known, and the memory has held a schedule with all ranks as peers. */
static void test_rebuild(const char *name)
{
	const struct algo *algo = algo_at(algo_find(COLL_KIND_ALLREDUCE, name));
	const struct algo *wide = algo_at(algo_find(COLL_KIND_ALLTOALL, "pairwise"));
	double ns[2];

	for (int many = 0; many < 2; many++) {
		int nranks = many ? MANY : FEW;
		struct sched s = {0};
		struct nodes nodes;
		struct work w = {.kind = COLL_KIND_ALLTOALL, .count = 1, .nodes = &nodes};

		if (nodes_make(&nodes, node, NULL, nranks))
			abort();
		sched_reset(&s, PER_NODE, nranks, 4, SIZE_MAX);
		algo_build(wide, &s, &w);
		w.kind = COLL_KIND_ALLREDUCE;
		ns[many] = rebuild_ns(&s, algo, &w, nranks);
		sched_free(&s);
		nodes_free(&nodes);
	}
	ok(ns[1] < RATIO * (ns[0] + 1000), "rebuilt %s: %.0f ns of %d ranks, %.0f ns of %d", name,
	   ns[0], FEW, ns[1], MANY);
}

/*
 * What the rules choose for so many bytes: milliseconds are granted for each of the steps' hundred nanoseconds, since the
 * test may share its processor (tests/bench/README.md has the times of a quiet one).
 */
static void test_chosen_for(const struct selection *selection, int kind, int nnodes, uint64_t bytes)
{
	const struct call_description call = {.kind = kind,
					      .nranks = MANY,
					      .nnodes = nnodes,
					      .bytes = bytes,
					      .memory = COLL_MEM_HOST};
	const int id = choose_algorithm(selection, &call, 0);
	coll_schedule_args_t a = call_of(id, MANY, 0);
	int steps = 0;
	double ns;

	/* The nodes by turns: their table is the most work then. */
	for (int r = 0; r < MANY; r++)
		node[r] = nnodes < MANY ? r % nnodes : r;
	a.elem = 1;
	a.count = bytes;
	a.segment = selection->segment;
	ns = create_ns(&a, &steps);
	ok(ns >= 0 && steps <= 3 * MANY + 64 && ns < 500e6,
	   "%s of %llu bytes on %d nodes: %s has %d steps, in %.2f ms", kind_name(kind),
	   (unsigned long long)bytes, nnodes, algo_at(id)->name, steps, ns / 1e6);
}

/* Collectives whose buffers are no longer than 1 GiB; broadcasts, reductions and the like also 64 GiB. */
static void test_chosen(void)
{
	static struct selection selection;
	struct config *config = NULL;

	if (config_load(NULL, NULL, &config) || choose_compile(config, &selection))
		abort();
	for (int i = 0; i < RULES_KINDS; i++) {
		const int kind = kind_from_index(i);
		const struct kind *k = kind_at(kind);
		const int parts = k->send == KIND_EACH || k->recv == KIND_EACH;
		const uint64_t most = parts ? ((uint64_t)1 << 30) / MANY : (uint64_t)1 << 36;

		for (uint64_t bytes = 8; bytes <= most && kind != COLL_KIND_BARRIER; bytes *= 64) {
			test_chosen_for(&selection, kind, MANY / PER_NODE, bytes);
			test_chosen_for(&selection, kind, MANY, bytes);
		}
	}
	config_free(config);
}

int main(void)
{
	for (int r = 0; r < MANY; r++) {
		node[r] = r / PER_NODE;
		counts[r] = 1;
		displs[r] = (size_t)r;
	}
	for (int i = 0; i < algo_count(); i++)
		test_create(i, algo_at(i)->flags & COLL_ALGORITHM_NODES ||
				       algo_at(i)->kind == COLL_KIND_REDUCE_SCATTERV);
	test_rebuild("recursive_doubling");
	test_rebuild("two_level");
	test_chosen();
	return done_testing();
}
