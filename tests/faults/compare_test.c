/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare_test.c - ranks that call different things over a backend whose own functions do not compare them:
 * when the library finds out, and both calls in the text.
 *
 * The ranks are threads over coll_both: its allreduce waits for all ranks, its broadcast for none.
 */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"

#include <stdatomic.h>

enum { RANKS = 3, EVERY = 1024, MANY = 10000 };

/* Each rank's error; "" after success. */
struct outcome {
	coll_result_t code[RANKS];
	char text[RANKS][RANKS_TEXT];
};

static void note(struct rank *r, coll_result_t code)
{
	struct outcome *outcome = r->user;

	if (!code)
		code = coll_sync(r->comm);
	outcome->code[r->rank] = code;
	snprintf(outcome->text[r->rank], RANKS_TEXT, "%s", code ? coll_get_last_error(NULL) : "");
}

/* Runs a function on all ranks, which ask each other after 0.2 s. */
static void run(void (*fn)(struct rank *r), struct outcome *outcome)
{
	struct ranks_job job = {"both", RANKS, 0, fn, outcome};
	double begin = ranks_now();

	memset(outcome, 0, sizeof(*outcome));
	ranks_ok(&job, "ends");
	ok(ranks_now() - begin < 60, "long before the timeout");
}

/* Every rank fails, and the text of one has all three words. */
static void expect_mismatch(const struct outcome *outcome, const char *what, const char *word,
			    const char *second, const char *third)
{
	int found = 0, failed = 0;

	for (int r = 0; r < RANKS; r++) {
		failed += outcome->code[r] == COLL_ERR_MISMATCH;
		found += strstr(outcome->text[r], word) && strstr(outcome->text[r], second) &&
			 strstr(outcome->text[r], third);
	}
	if (!ok(found && failed == RANKS, "%s", what))
		for (int r = 0; r < RANKS; r++)
			diag("rank %d: %d %s", r, outcome->code[r], outcome->text[r]);
}

static void expect_success(const struct outcome *outcome, const char *what)
{
	int good = 1;

	for (int r = 0; r < RANKS; r++)
		good &= !outcome->code[r];
	if (!ok(good, "%s", what))
		for (int r = 0; r < RANKS; r++)
			diag("rank %d: %d %s", r, outcome->code[r], outcome->text[r]);
}

/* The lines that the library logs while a function runs on all ranks. */
static const char *run_logged(void (*fn)(struct rank *r), struct outcome *outcome)
{
	log_begin();
	run(fn, outcome);
	log_end();
	return log_text();
}

/* ------------------------------------------------------------------------- the calls -- */

static coll_result_t broadcast(struct rank *r, int root)
{
	static int32_t x;

	return coll_broadcast(&x, &x, 1, COLL_INT32, root, r->comm, NULL);
}

static coll_result_t sum(struct rank *r, size_t n)
{
	static _Thread_local int32_t x[8], y[8];

	return coll_allreduce(x, y, n, COLL_INT32, COLL_SUM, r->comm, NULL);
}

static coll_result_t broadcasts(struct rank *r, int n)
{
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; !code && i < n; i++)
		code = broadcast(r, 0);
	return code;
}

/* Calls until an error, or for long. */
static coll_result_t call_on(struct rank *r, int n)
{
	double end = ranks_now() + 30;
	coll_result_t code = COLL_SUCCESS;

	while (!code && ranks_now() < end) {
		code = broadcasts(r, n);
		ranks_sleep(0.001);
	}
	return code;
}

/* ------------------------------------------------------------------ calls that wait -- */

static void other_counts(struct rank *r)
{
	note(r, sum(r, r->rank == 1 ? 5 : 4));
}

/* Rank 1 has another root long before; then ranks 0 and 1 wait for rank 2. */
static void other_root_before(struct rank *r)
{
	coll_result_t code = broadcasts(r, 116);

	if (!code)
		code = broadcast(r, r->rank == 1);
	if (!code)
		code = broadcasts(r, 300);
	if (r->rank == 2)
		ranks_sleep(2);
	if (!code)
		code = sum(r, 1);
	note(r, code);
}

/* Rank 1 leaves a call out, and all wait in their next sum. */
static void one_less(struct rank *r)
{
	coll_result_t code = broadcasts(r, 100);

	if (!code && r->rank != 1)
		code = coll_broadcast(NULL, NULL, 0, COLL_FLOAT64, 2, r->comm, NULL);
	if (!code)
		code = broadcasts(r, 200);
	if (!code)
		code = sum(r, r->rank == 1 ? 2 : 1);
	note(r, code);
}

/* Rank 1 calls once more, when the others have destroyed their communicators. */
static void one_more(struct rank *r)
{
	coll_result_t code = sum(r, 1);

	if (!code && r->rank == 1)
		code = coll_sync(r->comm);
	if (!code && r->rank == 1)
		code = sum(r, 1);
	note(r, code);
}

static void test_waits(void)
{
	struct outcome outcome;

	run(other_counts, &outcome);
	expect_mismatch(&outcome, "ranks that wait with other counts", "allreduce of 4 int32",
			"allreduce of 5 int32", "collective number 1,");
	run(other_root_before, &outcome);
	expect_mismatch(&outcome, "another root 300 calls before the wait", "with root 0",
			"with root 1", "collective number 117,");
	run(one_less, &outcome);
	expect_mismatch(&outcome, "a call left out 200 calls before the wait",
			"broadcast of 0 float64 with root 2", "broadcast of 1 int32 with root 0",
			"collective number 101,");
	run(one_more, &outcome);
	if (!ok(outcome.code[1] == COLL_ERR_PEER_LOST &&
			strstr(outcome.text[1], "destroyed its communicator while rank 1 still"),
		"a call that the others will never make"))
		diag("%d %s", outcome.code[1], outcome.text[1]);
}

/* ------------------------------------------------------------------ calls that end -- */

/* Nobody waits. */
static void other_roots(struct rank *r)
{
	coll_result_t code = broadcasts(r, EVERY + 4);

	if (!code)
		code = broadcast(r, r->rank == 1);
	note(r, code ? code : call_on(r, 20));
}

/* Rank 0 is far ahead of the others, which begin when it has made its calls, and compare when they are there. */
static void far_ahead(struct rank *r)
{
	static atomic_int ahead;
	coll_result_t code;

	if (r->rank && !rank_reaches(r, &ahead, 1, 0))
		return;
	code = broadcasts(r, 9);
	if (!code)
		code = broadcast(r, r->rank == 0);
	if (!code)
		code = broadcasts(r, 9 * EVERY);
	atomic_store(&ahead, 1);
	note(r, code ? code : call_on(r, 1));
}

static void test_ends(void)
{
	struct outcome outcome;

	run(other_roots, &outcome);
	expect_mismatch(&outcome, "another root, and nobody waits", "with root 0", "with root 1",
			"collective number 1029,");
	run(far_ahead, &outcome);
	expect_mismatch(&outcome, "another root so long ago that nobody knows it",
			"collectives of rank", "are others than those of rank",
			"same calls in the same order");
}

/* ------------------------------------------------------------------- equal calls -- */

/* Functions of the backend, messages, groups and messages between two ranks, in one order. */
static void equal(struct rank *r)
{
	float x = 1, y;
	int32_t from = r->rank, to;
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; !code && i < MANY / 4; i++) {
		if (i % 10 == 0)
			code = coll_group_start();
		if (!code)
			code = broadcasts(r, 1);
		if (!code && r->rank < 2 && i % 10 == 0)
			code = r->rank ? coll_recv(&to, 1, COLL_INT32, 0, 1, r->comm, NULL)
				       : coll_send(&from, 1, COLL_INT32, 1, 1, r->comm, NULL);
		if (!code)
			code = coll_allreduce(&x, &y, 1, COLL_FLOAT32, COLL_SUM, r->comm, NULL);
		if (!code)
			code = sum(r, (size_t)i % 8);
		if (!code && i % 10 == 0)
			code = coll_group_end();
		if (!code)
			code = i % 50 ? broadcasts(r, 1) : coll_barrier(r->comm);
		if (!code && i % 50 == 0)
			code = coll_sync(r->comm);
	}
	note(r, code);
}

/* Rank 1 comes late. */
static void late(struct rank *r)
{
	coll_result_t code = sum(r, 2);

	if (!code)
		code = coll_sync(r->comm);
	if (r->rank == 1)
		ranks_sleep(1.3);
	if (!code)
		code = sum(r, 1);
	note(r, code);
}

static void test_equal(void)
{
	struct outcome outcome;
	const char *text = run_logged(equal, &outcome);

	expect_success(&outcome, "equal calls are no error");
	if (!ok(!strstr(text, "called"), "and no warning says that calls differ"))
		diag("%s", text);
	text = run_logged(late, &outcome);
	expect_success(&outcome, "a late rank is no error");
	if (!ok(strstr(text, "waits in allreduce of 1 int32 (sum), and nothing has moved") &&
			strstr(text, "rank 1 does not answer"),
		"a warning says who is behind"))
		diag("%s", text);
}

int main(void)
{
	ranks_plugins("tests/plugins/.libs", NULL);
	setenv("COLL_STALL_AFTER", "0.2s", 1);
	if (!ranks_can("both"))
		return done_testing();
	test_waits();
	test_ends();
	test_equal();
	return done_testing();
}
