/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events_test.c - the events that an observer gets over each backend: of calls, groups, persistent requests, messages,
 * steps, waits, derived communicators and failures.  The observer audit checks their order on each rank.
 */
#include "audit.h"

#include <malloc.h>

enum { EVENTS_COUNT = 1000, EVENTS_GROUP = 5, EVENTS_REPEATS = 3, EVENTS_SHORT = 50 };
enum { EVENTS_MANY = 40, EVENTS_LONG = 16 << 10 }; /* calls, and their elements of 4 bytes */

static int64_t events_sum(int nranks)
{
	return (int64_t)nranks * (nranks + 1) / 2;
}

/* Issued: 1 + EVENTS_GROUP + EVENTS_REPEATS + 1 calls. */
static void events_calls(struct rank *r)
{
	int64_t x[EVENTS_COUNT], y[EVENTS_GROUP];
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .sendbuf = x,
				  .recvbuf = x,
				  .count = 1,
				  .dtype = COLL_INT64,
				  .op = COLL_MAX};
	coll_request_t request;

	for (int i = 0; i < EVENTS_COUNT; i++)
		x[i] = r->rank + 1;
	rank_did(r, coll_allreduce(x, x, EVENTS_COUNT, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, x[EVENTS_COUNT - 1], events_sum(r->nranks), "sum");
	rank_did(r, coll_group_start(), "group_start");
	for (int i = 0; i < EVENTS_GROUP; i++) {
		y[i] = r->rank + 1;
		rank_did(r, coll_allreduce(&y[i], &y[i], 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce of a group");
	}
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, y[EVENTS_GROUP - 1], events_sum(r->nranks), "sum of a group");
	rank_did(r, coll_request_init(r->comm, &args, &request), "request_init");
	for (int i = 0; i < EVENTS_REPEATS; i++) {
		rank_did(r, coll_request_start(request), "start");
		rank_did(r, coll_wait(request), "wait");
	}
	rank_did(r, coll_request_free(request), "request_free");
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
}

static void events_messages(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	int32_t out = r->rank, in = -1;
	coll_request_t recv = rank_irecv(r, &in, 1, COLL_ANY_SOURCE, 7);
	coll_request_t send = rank_isend(r, &out, 1, next, 7);

	rank_ends(r, recv, COLL_SUCCESS, "irecv");
	rank_ends(r, send, COLL_SUCCESS, "isend");
	rank_is(r, in, before, "message");
}

static void events_derived(struct rank *r)
{
	coll_comm_t half, copy;

	rank_did(r, coll_comm_split(r->comm, r->rank % 2, r->rank, &half, NULL), "split");
	rank_did(r, coll_comm_dup(r->comm, &copy), "dup");
	sums_to(r, half, 1, (r->nranks + (r->rank + 1) % 2) / 2, "the half");
	sums_to(r, copy, 1, r->nranks, "the copy");
	rank_did(r, coll_comm_destroy(half), "destroy");
	rank_did(r, coll_comm_destroy(copy), "destroy");
}

static void events_all(struct rank *r)
{
	events_calls(r);
	events_messages(r);
	events_derived(r);
}

/* The counts that follow from the calls. */
static void events_check(const char *what, int nranks)
{
	const long calls = 2 + EVENTS_GROUP + EVENTS_REPEATS;
	int bad = 0;

	for (int r = 0; r < nranks; r++) {
		const long issued = audit_count("audit", r, "call_issued");
		const int good = audit_count("audit", r, "comm_begin") == 3 &&
				 audit_count("audit", r, "comm_end") == 3 &&
				 audit_count("audit", r, "derived") == 2 && issued >= calls + 2 &&
				 audit_count("audit", r, "call_begin") == issued &&
				 audit_count("audit", r, "call_end") == issued &&
				 audit_count("audit", r, "failed_calls") == 0 &&
				 audit_count("audit", r, "failure_begin") == 0 &&
				 audit_count("audit", r, "message_issued") == 2 &&
				 audit_count("audit", r, "message_end") == 2 &&
				 audit_count("audit", r, "step_begin") ==
					 audit_count("audit", r, "step_end") &&
				 (nranks == 1 || audit_count("audit", r, "step_end") >= calls) &&
				 audit_count("audit", r, "wait_begin") ==
					 audit_count("audit", r, "wait_end");

		bad += !good;
		if (!good)
			diag("rank %d: %ld calls issued, %ld begun, %ld ended, %ld messages", r,
			     issued, audit_count("audit", r, "call_begin"),
			     audit_count("audit", r, "call_end"),
			     audit_count("audit", r, "message_end"));
	}
	ok(!bad, "%s: each call and message has its events", what);
}

static void events_over(const char *backend, int processes, int nranks)
{
	const struct ranks_job job = {
		.backend = backend, .nranks = nranks, .processes = processes, .fn = events_all};
	char what[64];

	snprintf(what, sizeof(what), "%s, %d %s", backend, nranks,
		 processes ? "processes" : "threads");
	ranks_ok(&job, "calls with an observer");
	audit_ok("audit", nranks, what);
	events_check(what, nranks);
	audit_forget(nranks);
}

/* ------------------------------------------------------------------------ failures -- */

/* Rank 0 calls something else. */
static void events_fail(struct rank *r)
{
	int32_t x = 1;

	if (r->rank)
		(void)coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	else
		(void)coll_broadcast(&x, &x, 1, COLL_INT32, 0, r->comm, NULL);
	(void)coll_barrier(r->comm);
	if (!coll_sync(r->comm))
		rank_fail(r, "no failure");
}

static void events_failing(const char *backend, int processes, int nranks)
{
	const struct ranks_job job = {
		.backend = backend, .nranks = nranks, .processes = processes, .fn = events_fail};
	int bad = 0;

	ranks_ok(&job, "calls that do not fit");
	audit_ok("audit", nranks, "a failure");
	for (int r = 0; r < nranks; r++)
		bad += audit_count("audit", r, "failure_begin") != 1 ||
		       audit_count("audit", r, "failed_calls") < 1 ||
		       audit_count("audit", r, "call_issued") !=
			       audit_count("audit", r, "call_end");
	ok(!bad, "%s: one failure, and each call ends", backend);
	audit_forget(nranks);
}

/* A thread of the library moves the communicator. */
static void events_by_thread(void)
{
	setenv("COLL_PROGRESS", "thread", 1);
	events_over("tcp", 0, 3);
	unsetenv("COLL_PROGRESS");
}

static void events_two(void)
{
	const struct ranks_job job = {
		.backend = "tcp", .nranks = 2, .processes = 1, .fn = events_all};
	int bad = 0;

	audit_begin(" audit,audit, audit2,audit ,audit2,audit2");
	ranks_ok(&job, "two observers");
	audit_ok("audit", 2, "the first of two");
	audit_ok("audit2", 2, "the second of two");
	for (int r = 0; r < 2; r++)
		bad += audit_count("audit", r, "step_end") !=
			       audit_count("audit2", r, "step_end") ||
		       audit_count("audit", r, "call_end") != audit_count("audit2", r, "call_end");
	ok(!bad, "both get the same events");
	audit_forget(2);
}

/* One of two observers wants no steps when it opens. */
static void events_narrowed(void)
{
	const struct ranks_job job = {
		.backend = "tcp", .nranks = 2, .processes = 1, .fn = events_all};
	int bad = 0;

	audit_begin("audit,audit2");
	setenv("COLL_AUDIT_STEPS", "no", 1);
	ranks_ok(&job, "an observer that wants less when it opens");
	unsetenv("COLL_AUDIT_STEPS");
	audit_ok("audit", 2, "the observer that wants no steps");
	audit_ok("audit2", 2, "the observer beside it");
	for (int r = 0; r < 2; r++)
		bad += audit_count("audit", r, "step_begin") != 0 ||
		       audit_count("audit", r, "step_end") != 0 ||
		       audit_count("audit2", r, "step_end") < 1 ||
		       audit_count("audit", r, "call_end") != audit_count("audit2", r, "call_end");
	ok(!bad, "it gets no steps, and the other observer does");
	audit_forget(2);
}

/* So many calls that differ that the plan of one call serves another, of another type. */
static void events_mixed(struct rank *r)
{
	int64_t x[EVENTS_SHORT] = {0};

	for (int i = 0; i < EVENTS_SHORT; i++) {
		rank_did(r,
			 coll_allreduce(x, x, (size_t)i + 1, i % 3 ? COLL_INT64 : COLL_INT32,
					COLL_MAX, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(r->comm), "sync");
	}
}

static void events_steps_alone(void)
{
	const struct ranks_job job = {
		.backend = "tcp", .nranks = 2, .processes = 1, .fn = events_mixed};

	audit_begin("audit");
	setenv("COLL_AUDIT_CALLS", "no", 1);
	ranks_ok(&job, "an observer that wants steps alone");
	unsetenv("COLL_AUDIT_CALLS");
	audit_ok("audit", 2, "steps alone");
	ok(audit_count("audit", 0, "step_end") >= EVENTS_SHORT &&
		   audit_count("audit", 0, "call_issued") == 0,
	   "it gets the steps of each call, and no call");
	audit_forget(2);
}

static void events_short(struct rank *r)
{
	int32_t x = 1;

	events_all(r);
	for (int i = 0; i < EVENTS_SHORT; i++) {
		rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_MAX, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(r->comm), "sync");
	}
}

/* The terse observer gets fewer events than the observer beside it, and learns the same from them. */
static void events_terse(void)
{
	const struct ranks_job job = {
		.backend = "tcp", .nranks = 2, .processes = 1, .fn = events_short};
	int bad = 0;

	audit_begin("audit,terse");
	ranks_ok(&job, "a terse observer");
	audit_ok("audit", 2, "the observer beside the terse one");
	audit_ok("terse", 2, "the terse observer");
	for (int r = 0; r < 2; r++) {
		const long steps = audit_count("audit", r, "step_end");

		bad += audit_count("audit", r, "step_begin") != steps ||
		       audit_count("terse", r, "step_end") != steps ||
		       audit_count("terse", r, "step_begin") > steps - 2 * EVENTS_SHORT ||
		       audit_count("terse", r, "call_issued") >
			       audit_count("audit", r, "call_issued") - EVENTS_SHORT + 1 ||
		       audit_count("terse", r, "call_begin") !=
			       audit_count("audit", r, "call_begin") ||
		       audit_count("terse", r, "call_end") != audit_count("audit", r, "call_end");
	}
	ok(!bad, "it gets each BEGIN and END but those of short steps, and no ISSUED of calls that "
		 "begin at once");
	audit_forget(2);
}

/* The backend both sums by itself, and declines products, which are composed. */
static void events_declined(struct rank *r)
{
	int32_t x = r->rank + 1, sum = 0, product = 0;

	rank_did(r, coll_allreduce(&x, &sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "sum");
	rank_did(r, coll_allreduce(&x, &product, 1, COLL_INT32, COLL_PROD, r->comm, NULL),
		 "product");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, sum, 3, "sum");
	rank_is(r, product, 2, "product");
}

static void events_of_both(void)
{
	const struct ranks_job job = {.backend = "both", .nranks = 2, .fn = events_declined};
	int bad = 0;

	audit_begin("audit");
	ranks_ok(&job, "a backend that declines calls");
	audit_ok("audit", 2, "both");
	for (int r = 0; r < 2; r++)
		bad += audit_count("audit", r, "native") != 1 ||
		       audit_count("audit", r, "step_end") < 1;
	ok(!bad, "only the call that the backend did is 'native'");
	audit_forget(2);
}

/* A group of allreduces, and a message from rank 0 to rank 1. */
struct events_many {
	int elements; /* of each allreduce */
	int behind; /* rank 0 sends behind the allreduces, and rank 1 receives before its group; else both begin the group so */
};

static void events_message(struct rank *r, int32_t *message)
{
	if (r->rank == 0)
		rank_did(r, coll_send(message, 1, COLL_INT32, 1, 0, r->comm, NULL), "send");
	else if (r->rank == 1)
		rank_did(r, coll_recv(message, 1, COLL_INT32, 0, 0, r->comm, NULL), "recv");
}

static void events_many(struct rank *r)
{
	static int32_t x[EVENTS_MANY][EVENTS_LONG], y[EVENTS_MANY][EVENTS_LONG];
	const struct events_many *many = r->user;
	const int n = many->elements;
	int32_t message = r->rank ? 0 : 7;

	if (many->behind && r->rank == 1)
		events_message(r, &message);
	rank_did(r, coll_group_start(), "group_start");
	if (!many->behind)
		events_message(r, &message);
	for (int i = 0; i < EVENTS_MANY; i++) {
		for (int e = 0; e < n; e++)
			x[i][e] = r->rank + i + e;
		rank_did(r,
			 coll_allreduce(x[i], y[i], (size_t)n, COLL_INT32, COLL_SUM, r->comm, NULL),
			 "allreduce");
	}
	if (many->behind && r->rank == 0)
		events_message(r, &message);
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < EVENTS_MANY; i++)
		for (int e = 0; e < n; e += 100)
			rank_is(r, y[i][e], r->nranks * (i + e) + 3, "sum");
	rank_is(r, r->rank < 2 ? message : 7, 7, "message");
}

/* Returns the most calls that any rank had under way at a time. */
static long events_beside(int elements, int behind)
{
	struct events_many many = {.elements = elements, .behind = behind};
	const struct ranks_job job = {
		.backend = "tcp", .nranks = 3, .processes = 1, .fn = events_many, .user = &many};
	long most = 0;

	ranks_ok(&job, "a group of calls of %d elements%s", elements,
		 behind ? ", and a message behind them for a rank that receives it before" : "");
	audit_ok("audit", job.nranks, "the calls of a group");
	for (int r = 0; r < job.nranks; r++)
		if (audit_count("audit", r, "beside") > most)
			most = audit_count("audit", r, "beside");
	audit_forget(job.nranks);
	return most;
}

/* Four calls of 64 KiB have 256 KiB; the message of rank 1 is under way, too. */
static void events_in_turns(void)
{
	long most;

	if (!ranks_on_one_processor())
		return;
	audit_begin("audit");
	most = events_beside(EVENTS_LONG, 0);
	ok(most >= 2 && most <= 5,
	   "ranks that take turns on a processor run few long calls at once: %ld", most);
	most = events_beside(1, 0);
	ok(most > EVENTS_MANY / 2, "and any number of short ones: %ld", most);
	events_beside(EVENTS_LONG, 1);
}

int main(void)
{
	mallopt(M_PERTURB, 85); /* who reads memory that was freed does not find what was there */
	plugin_dir_begin();
	ranks_plugins(".libs", "tests/plugins/.libs");
	audit_begin("audit");
	ranks_over_backends(events_over, 3);
	events_failing("simulated", 0, 2);
	events_failing("tcp", 1, 3);
	events_by_thread();
	events_two();
	events_narrowed();
	events_steps_alone();
	events_terse();
	events_of_both();
	events_in_turns();
	plugin_dir_end();
	return done_testing();
}
