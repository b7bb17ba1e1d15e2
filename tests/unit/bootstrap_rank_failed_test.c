/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_rank_failed_test.c - a rank enters an exchange with a failure: every rank gets its
 * code, its number and its text, whatever the other ranks exchange, and the next exchange works.
 */
#include "meet/tree.h"
#include "base/error.h"
#include "bootstrap_harness.h"

#include <pthread.h>

enum { RANKS = 4 };

/* The ranks that fail, their codes, and the result that all ranks must get. */
struct plan {
	const char *name;
	int code[RANKS]; /* 0: the rank exchanges bytes */
	int answer, told;
	size_t len; /* bytes of the other ranks' pieces */
	int long_text;
};

static const struct plan plans[] = {
	{"one of four", {0, COLL_ERR_NO_MEMORY}, COLL_ERR_NO_MEMORY, 1, 464, 0},
	{"the last", {0, 0, 0, COLL_ERR_SYSTEM}, COLL_ERR_SYSTEM, 3, 1, 0},
	{"rank 0", {COLL_ERR_DEVICE}, COLL_ERR_DEVICE, 0, 464, 0},
	{"rank 0, others with 3 MiB", {COLL_ERR_DEVICE}, COLL_ERR_DEVICE, 0, 3 << 20, 0},
	{"rank 2, others with 3 MiB", {0, 0, COLL_ERR_DEVICE}, COLL_ERR_DEVICE, 2, 3 << 20, 0},
	{"two", {0, 0, COLL_ERR_SYSTEM, COLL_ERR_CONFIG}, COLL_ERR_SYSTEM, 2, 8, 0},
	{"one because of another",
	 {COLL_ERR_REMOTE, 0, COLL_ERR_TIMEOUT},
	 COLL_ERR_TIMEOUT,
	 2,
	 8,
	 0},
	{"one that has the cause from another library",
	 {COLL_ERR_REMOTE, COLL_ERR_TIMEOUT, BOOTSTRAP_REMOTE, COLL_ERR_PEER_LOST},
	 COLL_ERR_REMOTE,
	 2,
	 8,
	 0},
	{"that and a better one",
	 {0, BOOTSTRAP_REMOTE, 0, COLL_ERR_DEVICE},
	 COLL_ERR_DEVICE,
	 3,
	 8,
	 0},
	{"two because of others", {0, COLL_ERR_REMOTE, COLL_ERR_REMOTE}, COLL_ERR_REMOTE, 1, 8, 0},
	{"all",
	 {COLL_ERR_ABI, COLL_ERR_SYSTEM, COLL_ERR_SYSTEM, COLL_ERR_REMOTE},
	 COLL_ERR_ABI,
	 0,
	 8,
	 0},
	{"one while the others exchange nothing", {0, COLL_ERR_PLUGIN}, COLL_ERR_PLUGIN, 1, 0, 0},
	{"one with more words than there is room for", {0, COLL_ERR_ABI}, COLL_ERR_ABI, 1, 9, 1},
	{"one that was aborted", {0, COLL_ERR_ABORTED}, COLL_ERR_REMOTE, 1, 8, 0},
	{"one that was aborted, and another",
	 {0, COLL_ERR_ABORTED, 0, COLL_ERR_NO_MEMORY},
	 COLL_ERR_NO_MEMORY,
	 3,
	 8,
	 0},
};

/* Makes the exchange; returns 0 if this rank gets the expected result. */
static int fail_once(struct bootstrap *b, const struct plan *plan)
{
	int rank = bootstrap_rank(b), code;
	char words[2048], expected[2100];
	char *in = calloc(1, plan->len + 1), *out = calloc(RANKS, plan->len + 1);

	memset(words, 'x', sizeof(words));
	words[sizeof(words) - 1] = '\0';
	if (!plan->long_text)
		snprintf(words, sizeof(words), "no luck on the %d. rank", rank);
	if (plan->code[rank])
		code = bootstrap_exchange_fail(b, plan->code[rank], words, LONG_MS);
	else
		code = bootstrap_exchange(b, in, out, plan->len, LONG_MS);
	free(in);
	free(out);
	/* Nobody has aborted the other ranks. */
	if (plan->code[rank] == COLL_ERR_ABORTED && code == COLL_ERR_ABORTED &&
	    bootstrap_rank_failed(b) && !strcmp(error_text(), words))
		return 0;
	if (code != plan->answer || !bootstrap_rank_failed(b))
		return error_set(COLL_ERR_INTERNAL, "got %d: %.200s", code,
				 code ? error_text() : "");
	if (plan->long_text)
		snprintf(expected, sizeof(expected), "rank %d: xxxxxxxx", plan->told);
	else
		snprintf(expected, sizeof(expected), "rank %d: no luck on the %d. rank", plan->told,
			 plan->told);
	if (plan->long_text ? strncmp(error_text(), expected, strlen(expected)) != 0
			    : strcmp(error_text(), expected) != 0)
		return error_set(COLL_ERR_INTERNAL, "was told: %.200s", error_text());
	return 0;
}

static int work(struct bootstrap *b, void *arg)
{
	int code = 0;

	for (int i = 0; code == 0 && i < 3; i++) {
		code = fail_once(b, arg);
		if (code == 0)
			code = check_meeting(b, NULL);
		if (code == 0 && bootstrap_rank_failed(b))
			code = error_set(COLL_ERR_INTERNAL, "the failure stays");
	}
	return code;
}

/* ------------------------------------------------------------------ ranks in processes -- */

static void test_tcp(const struct plan *plan)
{
	struct rank_child children[RANKS];
	char root[64];
	struct rank_args args = {
		.root = root, .nranks = RANKS, .timeout_ms = LONG_MS, .work = work};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	args.arg = (void *)(uintptr_t)plan;
	for (int r = 0; r < RANKS; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < RANKS; r++) {
		struct rank_result result = rank_collect(children[r]);

		is_int(result.code, 0, "over TCP, %s: rank %d %s", plan->name, r, result.text);
	}
}

/*
 * The other ranks have lost a rank that has not come, and know of a failure: they must report the
 * failure.
 */
static int work_missing(struct bootstrap *b, void *arg)
{
	char in[8] = "", out[8 * RANKS];

	(void)arg;
	switch (bootstrap_rank(b)) {
	case 1: return bootstrap_exchange_fail(b, COLL_ERR_DEVICE, "on fire", LONG_MS);
	case 2: pause_ms(1000); raise(SIGKILL);
	}
	return bootstrap_exchange(b, in, out, sizeof(in), LONG_MS);
}

static void test_missing(void)
{
	struct rank_child children[RANKS];
	char root[64];
	struct rank_args args = {
		.root = root, .nranks = RANKS, .timeout_ms = LONG_MS, .work = work_missing};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	for (int r = 0; r < RANKS; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < RANKS; r++) {
		struct rank_result result = rank_collect(children[r]);

		if (r == 2)
			continue;
		/* In a tree a rank below rank 2 hears no more than that its parent is dead. */
		if (tree_shape.flat == 1 && strstr(result.text, "rank 2 (pid "))
			continue;
		is_int(result.code, COLL_ERR_DEVICE, "rank 2 dies: rank %d gets rank 1's failure",
		       r);
		has_str(result.text, "on fire", "with its text");
	}
}

/* The other ranks wait elsewhere, and look now and then whether a rank has failed. */
static int work_looking(struct bootstrap *b, void *arg)
{
	int64_t end = clock_deadline(LONG_MS);

	(void)arg;
	if (bootstrap_rank(b) == 2)
		return bootstrap_exchange_fail(b, BOOTSTRAP_REMOTE, "no network", LONG_MS);
	while (!bootstrap_failure_waits(b)) {
		if (!clock_remaining(end))
			return error_set(COLL_ERR_INTERNAL, "nobody has told it");
		pause_ms(5);
	}
	return bootstrap_exchange_fail(b, COLL_ERR_REMOTE, "another rank failed", LONG_MS);
}

static void test_looking(void)
{
	struct rank_child children[RANKS];
	char root[64];
	struct rank_args args = {
		.root = root, .nranks = RANKS, .timeout_ms = LONG_MS, .work = work_looking};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	for (int r = 0; r < RANKS; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < RANKS; r++) {
		struct rank_result result = rank_collect(children[r]);

		is_int(result.code, COLL_ERR_REMOTE, "rank 2 fails: rank %d sees it", r);
		is_str(result.text, "rank 2: no network", "and hears why");
	}
}

/* Rank 1 has waited in vain, in its plugin, for rank 2, which does not come to the exchange either. */
static int work_in_vain(struct bootstrap *b, void *arg)
{
	char in[8] = "", out[8 * RANKS];

	(void)arg;
	switch (bootstrap_rank(b)) {
	case 1: return bootstrap_exchange_fail(b, COLL_ERR_TIMEOUT, "nobody is there", 300);
	case 2: pause_ms(LONG_MS);
	}
	return bootstrap_exchange(b, in, out, sizeof(in), 300);
}

static void test_in_vain(void)
{
	struct rank_child children[RANKS];
	char root[64];
	struct rank_args args = {
		.root = root, .nranks = RANKS, .timeout_ms = LONG_MS, .work = work_in_vain};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	for (int r = 0; r < RANKS; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < 2; r++) {
		struct rank_result result = rank_collect(children[r]);

		is_int(result.code, COLL_ERR_TIMEOUT, "rank 2 is stopped: rank %d", r);
		has_str(result.text, "rank 2 of 4 has not been heard from", "it is named");
		/* In a tree rank 1 may wait for those below it before it says so. */
		if (!r && tree_shape.flat != 1)
			has_str(result.text, "rank 1: nobody is there; ", "beside the failure");
	}
	kill(children[2].pid, SIGKILL);
	rank_collect(children[2]);
	rank_collect(children[3]);
}

/* ------------------------------------------------------------------ ranks in threads -- */

struct thread {
	pthread_t id;
	struct bootstrap *bootstrap;
	const struct plan *plan;
	int given;
	int code;
	char text[TEXT];
};

static int32_t exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	return bootstrap_exchange(user, in, out, len, timeout_ms);
}

static void *thread_work(void *arg)
{
	struct thread *t = arg;
	struct bootstrap *b = t->bootstrap;

	if (t->given)
		t->code = bootstrap_open_user(&b, exchange, t->bootstrap,
					      bootstrap_rank(t->bootstrap), RANKS, LONG_MS);
	if (t->code == 0)
		t->code = work(b, (void *)(uintptr_t)t->plan);
	snprintf(t->text, sizeof(t->text), "%s", t->code ? error_text() : "");
	if (t->given)
		bootstrap_close(b);
	bootstrap_close(t->bootstrap);
	return NULL;
}

static void test_threads(const struct plan *plan, int given, const char *how)
{
	struct thread threads[RANKS] = {0};
	struct bootstrap *bootstraps[RANKS];

	if (bootstrap_open_local(bootstraps, RANKS))
		bail_out("%s", error_text());
	for (int r = 0; r < RANKS; r++) {
		threads[r] =
			(struct thread){.bootstrap = bootstraps[r], .plan = plan, .given = given};
		if (pthread_create(&threads[r].id, NULL, thread_work, &threads[r]))
			bail_out("no thread");
	}
	for (int r = 0; r < RANKS; r++) {
		pthread_join(threads[r].id, NULL);
		is_int(threads[r].code, 0, "%s, %s: rank %d %s", how, plan->name, r,
		       threads[r].text);
	}
}

static void test_alone(void)
{
	struct bootstrap *b;
	char out[4];

	if (bootstrap_open_local(&b, 1))
		bail_out("%s", error_text());
	is_int(bootstrap_exchange_fail(b, COLL_ERR_SYSTEM, "alone", LONG_MS), COLL_ERR_SYSTEM,
	       "one rank alone");
	is_str(error_text(), "alone", "its text has no number");
	ok(bootstrap_rank_failed(b), "it is the failure of a rank");
	is_int(bootstrap_exchange(b, "abc", out, 4, LONG_MS), 0, "the next exchange works");
	bootstrap_close(b);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		test_tcp(&plans[i]);
		test_threads(&plans[i], 0, "in memory");
		test_threads(&plans[i], 1, "over the caller's exchange");
	}
	test_missing();
	test_looking();
	test_in_vain();
	test_alone();
	return done_testing();
}
