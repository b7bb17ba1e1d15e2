/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_test.c - the lanes of a communicator: which operation is the newest one, and how both ended. */
#include "base/error.h"
#include "comm/lane.h"

#include "../lib/tap.h"

#include <stdlib.h>

/* Is the newest operation that of `lane` with this number? */
static void newest_is(const struct lane *lane, int lane_index, uint64_t number, const char *what)
{
	const struct issued newest = lane_newest(lane);

	ok(newest.lane_index == lane_index && newest.number == number, "%s: %llu", what,
	   (unsigned long long)newest.number);
}

/* Two threads call on host memory; each gets its number there, and notes it once it has the lock here. */
static void test_note(void)
{
	struct lane *lane = calloc(1, sizeof(*lane));
	struct comm *comm = calloc(1, sizeof(*comm));

	if (!lane || !comm)
		bail_out("no memory");
	lane->comm = comm;
	lane->issued = 3;
	newest_is(lane, LANE_FIRST, 3, "no call on host memory");
	lane_note_issued(lane, 6);
	lane_note_issued(lane, 5);
	newest_is(lane, LANE_HOST, 6, "the later call is noted first");
	lane->issued = 4;
	lane_note_issued(lane, 5);
	newest_is(lane, LANE_FIRST, 4, "a call on device memory follows it");
	lane_note_issued(lane, 7);
	newest_is(lane, LANE_HOST, 7, "then one on host memory");
	free(comm);
	free(lane);
}

static int fail(struct outcome *outcome, int code, const char *fmt, ...)
{
	va_list ap;
	int first;

	va_start(ap, fmt);
	first = outcome_fail(outcome, 0, code, fmt, ap);
	va_end(ap);
	return first;
}

/* Both lanes fail, each for a reason of its own, and end one after the other. */
static void test_outcome(void)
{
	struct lane *host = calloc(1, sizeof(*host));
	struct outcome *outcome = outcome_new(NULL);

	if (!host || !outcome)
		bail_out("no memory");
	ok(fail(outcome, COLL_ERR_PEER_LOST, "rank %d is gone", 3), "the first failure");
	ok(!fail(outcome, COLL_ERR_TIMEOUT, "nobody came"), "a second one");
	is_int(atomic_load(&outcome->code), COLL_ERR_PEER_LOST, "the first one stays");
	is_str(outcome->text, "rank 3 is gone", "with its text");
	is_int(outcome_result(outcome, LANE_HOST, 1), COLL_IN_PROGRESS, "no lane has ended");
	host->index = LANE_HOST;
	host->finished = 2;
	outcome_end(outcome, host);
	is_int(outcome_result(outcome, LANE_HOST, 2), COLL_SUCCESS, "what was done stays done");
	is_int(outcome_result(outcome, LANE_HOST, 3), COLL_ERR_PEER_LOST, "the rest has failed");
	is_str(error_text(), "rank 3 is gone", "for the first reason");
	is_int(outcome_result(outcome, LANE_HOST, OUTCOME_NEVER), COLL_ERR_PEER_LOST,
	       "as what came after the failure");
	is_int(outcome_result(outcome, LANE_FIRST, 1), COLL_IN_PROGRESS, "the other lane has not");
	outcome_unref(outcome);
	free(host);
}

int main(void)
{
	test_outcome();
	test_note();
	return done_testing();
}
