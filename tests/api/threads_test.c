/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_test.c - several communicators, threads and backends in one process; one thread that
 * drives many ranks; an abort from another thread than the waiting one.
 */
#include "../lib/ranks.h"

enum { GROUPS = 8, ROUNDS = 30 };

/* ------------------------------------------- many threads make communicators at once -- */

struct maker {
	pthread_t id;
	const char *backend;
	int number;
	char text[RANKS_TEXT]; /* text of the first fault */
};

/* One thread drives all ranks of its own group. */
static int drive(coll_comm_t *comms, int nranks, int salt)
{
	int32_t x[RANKS_MAX], sum = 0;

	for (int r = 0; r < nranks; r++)
		sum += x[r] = salt + r;
	if (coll_group_start())
		return -1;
	for (int r = 0; r < nranks; r++)
		if (coll_allreduce(&x[r], &x[r], 1, COLL_INT32, COLL_SUM, comms[r], NULL))
			return -1;
	if (coll_group_end())
		return -1;
	for (int r = 0; r < nranks; r++)
		if (coll_sync(comms[r]))
			return -1;
	for (int r = 0; r < nranks; r++)
		if (x[r] != sum)
			return -1;
	return 0;
}

static void *make(void *arg)
{
	struct maker *m = arg;
	coll_comm_t comms[3];
	coll_config_t config;

	ranks_config(&config, m->backend);
	if (coll_comm_init_all(comms, 3, NULL, &config)) {
		snprintf(m->text, sizeof(m->text), "init: %s", coll_get_last_error(NULL));
		return NULL;
	}
	for (int i = 0; i < ROUNDS && !m->text[0]; i++)
		if (drive(comms, 3, m->number * 1000 + i))
			snprintf(m->text, sizeof(m->text), "round %d: %s", i,
				 coll_get_last_error(NULL));
	for (int r = 0; r < 3; r++)
		if (coll_comm_destroy(comms[r]) && !m->text[0])
			snprintf(m->text, sizeof(m->text), "destroy: %s",
				 coll_get_last_error(NULL));
	return NULL;
}

static void test_makers(const char *const *backends)
{
	struct maker makers[GROUPS];

	for (int i = 0; i < GROUPS; i++) {
		makers[i] = (struct maker){.backend = backends[i % 2], .number = i};
		if (pthread_create(&makers[i].id, NULL, make, &makers[i]))
			bail_out("cannot start a thread");
	}
	for (int i = 0; i < GROUPS; i++) {
		pthread_join(makers[i].id, NULL);
		ok(!makers[i].text[0], "thread %d of %d makes 3 ranks over %s: %s", i, GROUPS,
		   makers[i].backend, makers[i].text);
	}
}

/* ------------------------------------------------- one thread drives many ranks -- */

static void test_one_thread(const char *backend, int nranks)
{
	coll_comm_t comms[RANKS_MAX];
	coll_config_t config;
	float *x = malloc((size_t)nranks * 100000 * sizeof(*x));
	int good = 1;

	ranks_config(&config, backend);
	if (!x || coll_comm_init_all(comms, nranks, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
	for (int i = 0; i < ROUNDS; i++)
		good = good && !drive(comms, nranks, i);
	ok(good, "%s: one thread drives %d ranks: %s", backend, nranks, coll_get_last_error(NULL));

	for (int i = 0; i < nranks * 100000; i++)
		x[i] = (float)(i / 100000);
	coll_group_start();
	for (int r = 0; r < nranks; r++)
		good = good && !coll_allreduce(x + r * 100000, x + r * 100000, 100000, COLL_FLOAT32,
					       COLL_MAX, comms[r], NULL);
	coll_group_end();
	/* The thread may wait for the ranks in any order. */
	for (int r = nranks - 1; r >= 0; r--)
		good = good && !coll_sync(comms[r]);
	for (int i = 0; i < nranks * 100000; i++)
		good = good && x[i] == (float)(nranks - 1);
	ok(good, "%s: one thread waits for %d large ones in reverse order: %s", backend, nranks,
	   coll_get_last_error(NULL));
	for (int r = 0; r < nranks; r++)
		good = !coll_comm_destroy(comms[r]) && good;
	ok(good, "%s: and destroys them", backend);
	free(x);
}

/* --------------------------------------------- threads that share a communicator -- */

struct sharer {
	pthread_t id;
	coll_comm_t comm;
	_Atomic int *bad;
};

/* Any thread may query a communicator at any time. */
static void *ask(void *arg)
{
	struct sharer *s = arg;

	for (int i = 0; i < 300; i++) {
		int32_t n, rank;
		coll_result_t error;
		const char *name;

		if (coll_comm_count(s->comm, &n) || coll_comm_user_rank(s->comm, &rank) ||
		    coll_comm_backend(s->comm, &name) ||
		    coll_comm_get_async_error(s->comm, &error) || error)
			atomic_fetch_add(s->bad, 1);
	}
	return NULL;
}

static void run_shared(struct rank *r)
{
	_Atomic int bad = 0;
	struct sharer sharers[3];
	int32_t x;

	for (int i = 0; i < 3; i++) {
		sharers[i].comm = r->comm;
		sharers[i].bad = &bad;
		if (pthread_create(&sharers[i].id, NULL, ask, &sharers[i]))
			bail_out("cannot start a thread");
	}
	for (int i = 0; i < 200; i++) {
		x = r->rank;
		if (!rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r, coll_sync(r->comm), "sync"))
			break;
		if (x != r->nranks * (r->nranks - 1) / 2)
			rank_fail(r, "round %d gave %d", i, x);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(sharers[i].id, NULL);
	if (atomic_load(&bad))
		rank_fail(r, "%d questions were answered with errors", atomic_load(&bad));
}

/* --------------------------------------------- one process, two communicators per thread -- */

static void run_two(struct rank *r)
{
	coll_comm_t twin;
	int32_t a[50], b[50];

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	for (int i = 0; i < 50; i++) {
		/* Ranks may use different communicators in different orders. */
		coll_comm_t first = r->rank % 2 ? twin : r->comm;
		coll_comm_t second = r->rank % 2 ? r->comm : twin;
		int32_t *x = r->rank % 2 ? b : a, *y = r->rank % 2 ? a : b;

		a[i] = 1;
		b[i] = 2;
		if (!rank_did(r, coll_allreduce(&x[i], &x[i], 1, COLL_INT32, COLL_SUM, first, NULL),
			      "first") ||
		    !rank_did(r,
			      coll_allreduce(&y[i], &y[i], 1, COLL_INT32, COLL_SUM, second, NULL),
			      "second"))
			return;
	}
	if (rank_did(r, coll_sync(twin), "sync") && rank_did(r, coll_sync(r->comm), "sync"))
		for (int i = 0; i < 50; i++)
			if (a[i] != r->nranks || b[i] != 2 * r->nranks)
				rank_fail(r, "sums %d are %d and %d", i, a[i], b[i]);
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

/* ---------------------------------------------------------------------- abort -- */

struct waiter {
	pthread_t id;
	coll_comm_t comm;
	_Atomic int waiting;
	coll_result_t code;
	double ended;
	char text[RANKS_TEXT];
};

static void *wait_for_ever(void *arg)
{
	struct waiter *w = arg;
	int32_t x = 1;

	w->code = coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, w->comm, NULL);
	atomic_store(&w->waiting, 1);
	if (!w->code)
		w->code = coll_sync(w->comm);
	w->ended = ranks_now();
	snprintf(w->text, sizeof(w->text), "%s", coll_get_last_error(NULL));
	return NULL;
}

/* Rank 1 never calls; rank 0 waits for it until a third thread aborts. */
static void test_abort(const char *backend)
{
	struct waiter w = {.waiting = 0};
	coll_comm_t comms[2];
	coll_config_t config;
	coll_result_t error = 0;
	int32_t x = 0;
	double begun;

	ranks_config(&config, backend);
	if (coll_comm_init_all(comms, 2, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
	w.comm = comms[0];
	if (pthread_create(&w.id, NULL, wait_for_ever, &w))
		bail_out("cannot start a thread");
	while (!atomic_load(&w.waiting))
		ranks_sleep(0.001);
	ranks_sleep(0.2);
	begun = ranks_now();
	is_int(coll_comm_abort(comms[0]), 0, "%s: abort", backend);
	pthread_join(w.id, NULL);
	is_int(w.code, COLL_ERR_ABORTED, "%s: the wait ends with ABORTED (%s)", backend, w.text);
	ok(w.ended - begun < 3, "%s: within a second (%.3f s)", backend, w.ended - begun);
	is_int(coll_comm_abort(comms[0]), 0, "%s: abort again", backend);
	is_int(coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, comms[0], NULL), COLL_ERR_ABORTED,
	       "%s: later calls answer ABORTED", backend);
	begun = ranks_now();
	while (!error && ranks_now() < begun + 10 && !coll_comm_get_async_error(comms[1], &error))
		ranks_sleep(0.001);
	is_int(error, COLL_ERR_REMOTE, "%s: the peer gets REMOTE", backend);
	has_str(coll_get_last_error(comms[1]), "rank 0", "%s: that names the rank", backend);
	ok(!coll_comm_destroy(comms[0]) && !coll_comm_destroy(comms[1]), "%s: destroy", backend);
}

/* ------------------------------------------------------------------------- main -- */

static void test_runs(const char *backend)
{
	struct ranks_job job = {.backend = backend, .nranks = 4};

	job.fn = run_shared;
	ranks_ok(&job, "other threads ask questions meanwhile");
	job.fn = run_two;
	ranks_ok(&job, "two communicators, used in different orders");
}

int main(void)
{
	static const char *const those[] = {"simulated", "tcp"}, *const these[] = {"ucx", "tcp"};

	test_makers(those);
	test_one_thread("simulated", 1);
	test_one_thread("simulated", 8);
	test_one_thread("tcp", 8);
	test_runs("simulated");
	test_runs("tcp");
	test_abort("simulated");
	test_abort("tcp");
	if (ranks_can("ucx")) {
		test_makers(these);
		test_one_thread("ucx", 8);
		test_runs("ucx");
		test_abort("ucx");
	}
	return done_testing();
}
