/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * derived_test.c - derived communicators: split to any depth, dup, shrink after ranks have died;
 * batches of many calls; one thread that drives all ranks and splits for them; a wait for an event
 * of another communicator.
 */
#include "../lib/scenarios.h"

#include <dirent.h>

/* ------------------------------------------------------------------------ helpers -- */

/* Number of open sockets of this process. */
static int sockets(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	char path[300], target[64];
	int n = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		n += len > 7 && !memcmp(target, "socket:", 7);
	}
	closedir(dir);
	return n;
}

/* -------------------------------------------------------------------------- split -- */

enum { DEPTH = 16 };

/*
 * Splits into halves until each part has one rank, each level from the level before.
 * `parents_first` selects the order of destruction.
 */
static void run_halves(struct rank *r, int parents_first)
{
	coll_comm_t level[DEPTH] = {r->comm};
	int depth = 0, me = r->rank, n = r->nranks, first = 0, good = 1;

	while (good && n > 1) {
		int half = n / 2, upper = me >= half;

		good = rank_did(r,
				coll_comm_split(level[depth], upper, me, &level[depth + 1], NULL),
				"split");
		depth += good;
		first += upper ? half : 0;
		me -= upper ? half : 0;
		n = upper ? n - half : half;
		good = good && is_rank(r, level[depth], me, n) &&
		       sums_to(r, level[depth], r->rank, (int64_t)n * first + n * (n - 1) / 2,
			       "a part");
	}
	/*
	 * All communicators still work, in any order; at each level all ranks of a part use the
	 * same order.
	 */
	good = good && sums_to(r, r->comm, 1, r->nranks, "the whole afterwards");
	for (int i = 1; i <= depth; i++)
		rank_did(r, coll_comm_destroy(level[parents_first ? i : depth + 1 - i]), "destroy");
	if (good)
		sums_to(r, r->comm, 2, 2 * r->nranks, "the whole at the end");
}

static void run_children_first(struct rank *r)
{
	run_halves(r, 0);
}

static void run_parents_first(struct rank *r)
{
	run_halves(r, 1);
}

/* Colours far apart, keys that reverse the order, ranks without colour, equal keys. */
static void run_colours(struct rank *r)
{
	static const int colours[] = {INT32_MAX, 0, COLL_SPLIT_NOCOLOR};
	int colour = r->rank % 3, before = r->rank / 3, members = (r->nranks - colour + 2) / 3;
	coll_comm_t part = r->comm;

	if (!rank_did(r,
		      coll_comm_split(r->comm, colours[colour], colour ? 7 : INT32_MAX - r->rank,
				      &part, NULL),
		      "split"))
		return;
	if (colour == 2) {
		if (part)
			rank_fail(r, "a communicator without a colour");
		return;
	}
	is_rank(r, part, colour ? before : members - 1 - before, members);
	sums_to(r, part, 1, members, "a colour");
	rank_did(r, coll_comm_destroy(part), "destroy");
}

/* The parts work at the same time as the whole communicator, over the same connections. */
static void run_beside(struct rank *r)
{
	coll_comm_t half = NULL, twin = NULL;
	int64_t x[3] = {1, 1, 1}, y[3] = {0, 0, 0};
	int n = (r->nranks + 1 - r->rank % 2) / 2, before = sockets();

	if (!rank_did(r, coll_comm_split(r->comm, r->rank % 2, 0, &half, NULL), "split") ||
	    !rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	/* Odd ranks call in another order, because communicators are independent. */
	for (int i = 0; i < 3; i++) {
		coll_comm_t comms[] = {r->comm, half, twin};
		int c = r->rank % 2 ? 2 - i : i;

		rank_did(r, coll_allreduce(&x[c], &y[c], 1, COLL_INT64, COLL_SUM, comms[c], NULL),
			 "allreduce");
	}
	if (rank_did(r, coll_sync(half), "sync") && rank_did(r, coll_sync(r->comm), "sync") &&
	    rank_did(r, coll_sync(twin), "sync") &&
	    (y[0] != r->nranks || y[1] != n || y[2] != r->nranks))
		rank_fail(r, "sums are %d, %d, %d", (int)y[0], (int)y[1], (int)y[2]);
	if (r->user && sockets() > before)
		rank_fail(r, "%d sockets before, %d after a split", before, sockets());
	rank_did(r, coll_comm_destroy(half), "destroy");
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

/* ------------------------------------------------------------------------- shrink -- */

static void run_shrink(struct rank *r)
{
	int32_t gone[RANKS_MAX], n = 0;
	coll_comm_t rest = NULL, smaller = NULL;

	for (int p = 0; p < r->nranks; p += 2)
		gone[n++] = p;
	if (r->rank % 2) {
		if (!rank_did(r, coll_comm_shrink(r->comm, gone, n, &rest, NULL, 0), "shrink"))
			return;
		is_rank(r, rest, r->rank / 2, r->nranks / 2);
		sums_to(r, rest, 1, r->nranks / 2, "those left");
		if (r->nranks / 2 > 1 && r->rank > 1) {
			int32_t zero = 0;

			if (rank_did(r, coll_comm_shrink(rest, &zero, 1, &smaller, NULL, 0),
				     "shrink again")) {
				sums_to(r, smaller, 1, r->nranks / 2 - 1, "those left of those");
				rank_did(r, coll_comm_destroy(smaller), "destroy");
			}
		}
	}
	/* No rank has failed: shrink returns all ranks. */
	sums_to(r, r->comm, 1, r->nranks, "all of them");
	if (rest)
		rank_did(r, coll_comm_destroy(rest), "destroy");
}

/* A rank dies; the others notice, shrink without it and go on. */
static void run_death(struct rank *r)
{
	int32_t dead = 1;
	int64_t x = 1, y = 0;
	coll_comm_t rest;

	if (r->rank == dead)
		_exit(0);
	if (coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL) == COLL_SUCCESS &&
	    coll_sync(r->comm) == COLL_SUCCESS) {
		rank_fail(r, "a sum with a dead rank");
		return;
	}
	if (!rank_did(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), "shrink"))
		return;
	is_rank(r, rest, r->rank - (r->rank > dead), r->nranks - 1);
	sums_to(r, rest, r->rank, r->nranks * (r->nranks - 1) / 2 - dead, "the survivors");
	rank_did(r, coll_comm_destroy(rest), "destroy");
}

/* ------------------------------------------------------------------------- groups -- */

enum { TENSORS = 40, LONGEST = 3000 };

/* Sums many tensors of different sizes in one batch. */
static void run_tensors(struct rank *r)
{
	int32_t(*x)[LONGEST] = calloc(TENSORS, sizeof(*x));

	if (!x)
		bail_out("no memory");
	for (int t = 0; t < TENSORS; t++)
		for (int i = 0; i < LONGEST; i++)
			x[t][i] = r->rank + t;
	rank_did(r, coll_group_start(), "group_start");
	for (int t = 0; t < TENSORS; t++)
		rank_did(r,
			 coll_allreduce(x[t], x[t], (size_t)(t * t * 2 % LONGEST), COLL_INT32,
					COLL_SUM, r->comm, NULL),
			 "allreduce");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int t = 0; t < TENSORS; t++)
		for (int i = 0; i < LONGEST; i++) {
			int sum = r->nranks * t + r->nranks * (r->nranks - 1) / 2;
			int want = i < t * t * 2 % LONGEST ? sum : r->rank + t;

			if (x[t][i] != want) {
				rank_fail(r, "tensor %d, element %d: %d, not %d", t, i, x[t][i],
					  want);
				t = TENSORS;
				break;
			}
		}
	free(x);
}

/* Each of the long messages needs its receiver's progress. */
static void run_exchange(struct rank *r)
{
	scenario_run(r, scenario_all_pairs_long);
}

/* ------------------------------------------------------------------------- events -- */

/*
 * Rank 0 makes `twin` wait for a sum on the whole communicator, which the other ranks join late.
 * So on no rank can the sum of twin be complete before they join.
 */
static void run_wait_event(struct rank *r)
{
	int64_t x = 1, y = 0, z = 0;
	coll_comm_t twin = NULL;
	coll_event_t event, last;
	int good = rank_did(r, coll_comm_dup(r->comm, &twin), "dup") &&
		   rank_did(r, coll_event_create(r->comm, &event), "event_create") &&
		   rank_did(r, coll_event_create(r->comm, &last), "event_create");

	if (!good)
		return;
	if (r->rank == 0) {
		rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "A");
		rank_did(r, coll_event_record(event, r->comm), "event_record");
		rank_did(r, coll_comm_wait_event(twin, event), "comm_wait_event");
	}
	rank_did(r, coll_allreduce(&x, &z, 1, COLL_INT64, COLL_SUM, twin, NULL), "B");
	rank_did(r, coll_event_record(last, twin), "event_record");
	if (r->rank > 0) {
		for (int i = 0; i < 50; i++, ranks_sleep(0.001))
			if (coll_event_query(last) != COLL_IN_PROGRESS)
				rank_fail(r, "B is complete before A has begun");
		rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "A");
	}
	rank_did(r, coll_event_synchronize(last), "event_synchronize");
	if (r->rank == 0)
		rank_did(r, coll_event_query(event), "A is complete when B is");
	rank_did(r, coll_sync(r->comm), "sync");
	if (y != r->nranks || z != r->nranks)
		rank_fail(r, "sums are %d and %d", (int)y, (int)z);
	/* An event stays valid after the communicator on which it was recorded is destroyed. */
	rank_did(r, coll_comm_destroy(twin), "destroy");
	rank_did(r, coll_event_query(last), "event_query");
	rank_did(r, coll_event_destroy(last), "event_destroy");
	rank_did(r, coll_event_destroy(event), "event_destroy");
}

/* ------------------------------------------------------------ one thread, all ranks -- */

/* Computes a sum over each of these communicators, all in one batch. */
static int drive(coll_comm_t *comms, int n, const int64_t *want)
{
	int64_t x[RANKS_MAX], y[RANKS_MAX] = {0};
	int bad = coll_group_start() != 0;

	for (int r = 0; r < n; r++) {
		x[r] = r + 1;
		bad += coll_allreduce(&x[r], &y[r], 1, COLL_INT64, COLL_SUM, comms[r], NULL) != 0;
	}
	bad += coll_group_end() != 0;
	for (int r = 0; r < n; r++)
		bad += coll_sync(comms[r]) != 0 || y[r] != want[r];
	return !bad;
}

struct worker {
	pthread_t thread;
	coll_comm_t comm;
	int64_t want;
	int good;
};

static void *worker(void *arg)
{
	struct worker *w = arg;

	w->good = 1;
	for (int i = 0; i < 100 && w->good; i++)
		w->good = drive(&w->comm, 1, (const int64_t[]){w->want});
	w->good &= coll_comm_destroy(w->comm) == COLL_SUCCESS;
	return NULL;
}

/* Each rank's half goes to a thread of its own. */
static int hand_out(coll_comm_t *halves, int n)
{
	struct worker w[RANKS_MAX];
	int good = 1;

	for (int r = 0; r < n; r++) {
		w[r] = (struct worker){.comm = halves[r], .want = (n + 1 - r % 2) / 2};
		if (pthread_create(&w[r].thread, NULL, worker, &w[r]))
			bail_out("cannot start a thread");
	}
	for (int r = 0; r < n; r++) {
		pthread_join(w[r].thread, NULL);
		good &= w[r].good;
	}
	return good;
}

static void test_one_thread(const char *backend, int n)
{
	coll_comm_t comms[RANKS_MAX], halves[RANKS_MAX];
	int64_t all[RANKS_MAX] = {0}, half[RANKS_MAX] = {0};
	coll_config_t config;
	int bad = 0;

	ranks_config(&config, backend);
	if (!is_int(coll_comm_init_all(comms, n, NULL, &config), 0, "%s: one thread has %d ranks",
		    backend, n))
		return;
	for (int r = 0; r < n; r++) {
		all[r] = n * (n + 1) / 2;
		for (int p = r % 2; p < n; p += 2)
			half[r] += p + 1;
	}
	ok(drive(comms, n, all), "it drives them all");
	bad += coll_group_start() != 0;
	for (int r = 0; r < n; r++)
		bad += coll_comm_split(comms[r], r % 2, r, &halves[r], NULL) != 0;
	is_int(bad + (coll_group_end() != 0), 0, "and splits for all: %s",
	       bad ? coll_get_last_error(NULL) : "");
	ok(drive(halves, n, half), "drives the halves");
	ok(hand_out(halves, n), "hands them to threads of their own");
	ok(drive(comms, n, all), "and drives the whole again");
	for (int r = 0; r < n; r++)
		bad += coll_comm_destroy(comms[r]) != 0;
	is_int(bad, 0, "destroy");
}

/* ------------------------------------------------------------------------- main -- */

static const struct {
	const char *name;
	void (*fn)(struct rank *r);
} runs[] = {
	{"halves of halves, destroyed from the smallest", run_children_first},
	{"halves of halves, destroyed from the largest", run_parents_first},
	{"colours and keys of every kind", run_colours},
	{"parts beside the whole", run_beside},
	{"shrink without a fault", run_shrink},
	{"many tensors in one batch", run_tensors},
	{"everybody with everybody", run_exchange},
	{"an event of another communicator", run_wait_event},
};

static void test_runs(const char *backend, int processes, int nranks)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		ranks_ok(&(struct ranks_job){backend, nranks, processes, runs[i].fn,
					     processes ? (void *)1 : NULL},
			 "%s", runs[i].name);
}

static void test_between_processes(const char *backend)
{
	test_runs(backend, 1, 4);
	for (int n = 3; n <= 5; n++)
		ranks_ok(&(struct ranks_job){backend, n, 1, run_death, NULL},
			 "shrink past a dead rank");
	test_runs(backend, 0, 3);
	test_one_thread(backend, 3);
}

int main(void)
{
	static const char *const progress[] = {"caller", "thread"};

	for (int i = 0; i < 2; i++) {
		setenv("COLL_PROGRESS", progress[i], 1);
		for (int n = 2; n <= 7; n += 1 + ranks_small()) {
			test_runs("simulated", 0, n);
			test_one_thread("simulated", n);
		}
		test_between_processes("tcp");
		if (ranks_can("ucx"))
			test_between_processes("ucx");
	}
	return done_testing();
}
