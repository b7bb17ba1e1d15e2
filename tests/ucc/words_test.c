/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words_test.c - the texts about ranks that wait for each other, where the backend takes host memory and the companion does the
 * other calls: they name who does a call, and no kind of memory.
 */
#include "../lib/ranks.h"

enum { TIMEOUT_MS = 700 };

static int sum(struct rank *r)
{
	int64_t x = 1;

	return coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL) || coll_sync(r->comm);
}

static int scan(struct rank *r)
{
	int64_t x = 1;

	return coll_scan(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL) || coll_sync(r->comm);
}

static void fails(struct rank *r, int failed, const char *piece)
{
	const char *text = coll_get_last_error(r->comm);

	if (!failed || !strstr(text, piece) || strstr(text, "memory") || strstr(text, "?"))
		rank_fail(r, "no '%s', or wrong words: %s", piece, text);
}

/* Rank 0 waits in a call of the backend, and the others in a call of the companion. */
static void crosses(struct rank *r)
{
	rank_did(r, sum(r), "sum");
	rank_did(r, scan(r), "scan");
	rank_did(r, coll_comm_set_timeout(r->comm, 10000), "set_timeout");
	fails(r, r->rank ? scan(r) : sum(r), "of those by the backend");
	fails(r, 1, "of those over the companion");
	fails(r, 1, "in the same order");
}

/* The newest operation of the backend's lane is a wait for the scan: the text names the sum before it. */
static void times_out(struct rank *r)
{
	coll_request_t request;
	int32_t x;

	rank_did(r, sum(r), "sum");
	rank_did(r, scan(r), "scan");
	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, TIMEOUT_MS), "set_timeout");
		request = rank_irecv(r, &x, 1, 1, 5);
		fails(r, coll_wait(request),
		      "rank 0 itself last called allreduce of 1 int64 (sum) as collective number 1 "
		      "of those by the backend");
		rank_did(r, coll_request_free(request), "free");
	} else {
		fails(r, scan(r), "");
	}
}

int main(void)
{
	ranks_plugins(".libs", "tests/plugins/.libs");
	setenv("COLL_STALL_AFTER", "200ms", 1);
	for (int n = 2; n <= 4; n++) {
		const struct ranks_job crossing = {.backend = "bare", .nranks = n, .fn = crosses};
		const struct ranks_job timeout = {.backend = "bare", .nranks = n, .fn = times_out};

		ranks_ok(&crossing, "a call of the companion, and one of the backend");
		ranks_ok(&timeout, "a message that does not come");
	}
	return done_testing();
}
