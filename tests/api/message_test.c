/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_test.c - messages outside the order of the operations: they meet whatever the order of the calls,
 * matching by source and tag, shorter and longer messages, their own errors, probe and cancel.
 */
#include "../lib/scenarios.h"

#include <malloc.h>

enum { FAR_S = 60, LARGE = 300001, LAST_TAG = -2 }; /* the last of unsigned tags */

/* What the threads of a job share. */
struct shared {
	_Atomic int phase;
};

/* The next step of another thread has begun. */
static int reaches(struct rank *r, int phase)
{
	const struct shared *shared = r->user;

	return rank_reaches(r, &shared->phase, phase, 1);
}

static void begins(struct rank *r, int phase)
{
	struct shared *shared = r->user;

	atomic_store(&shared->phase, phase);
}

static int lives(struct rank *r)
{
	return sums_to(r, r->comm, 1, r->nranks, "the communicator lives");
}

static int has_status(struct rank *r, coll_request_t request, int source, int tag, uint64_t bytes,
		      int error)
{
	coll_status_t s = {.size = sizeof(s)};

	return rank_did(r, coll_request_get_status(request, &s), "status") &&
	       rank_is(r, s.source, source, "source") && rank_is(r, s.tag, tag, "tag") &&
	       rank_is(r, (int64_t)s.bytes, (int64_t)bytes, "bytes") &&
	       rank_is(r, s.error, error, "error");
}

/* ---------------------------------------------------------- the order of the calls -- */

/* A receive stays open across collectives, an ordered receive would hold them. */
static void stays_open(struct rank *r)
{
	int peer = r->rank ^ 1, done = 7;
	int32_t x = 100 + r->rank, y = -1;
	coll_request_t in = rank_irecv(r, &y, 1, peer, 3), out;

	lives(r);
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_test(in, &done), "test");
	rank_is(r, done, 0, "nobody has sent yet");
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_group_start(), "group");
	out = rank_isend(r, &x, 1, peer, 3);
	rank_ends(r, in, COLL_SUCCESS, "a group does not hold a message");
	rank_did(r, coll_group_end(), "group");
	rank_ends(r, out, COLL_SUCCESS, "send");
	rank_is(r, y, 100 + peer, "message");
}

/* Half of the receives are posted before the messages come, some of which are long. */
static void keeps_order(struct rank *r)
{
	enum { N = 60, ROOM = 30000 };
	int32_t *x = calloc((size_t)N * ROOM, sizeof(*x));
	coll_request_t requests[N];

	for (int i = 0; x && i < N / 2 && r->rank == 0; i++)
		requests[i] = rank_irecv(r, x + (size_t)i * ROOM, ROOM, i % 3 ? 1 : COLL_ANY_SOURCE,
					 i % 2 ? 5 : COLL_ANY_TAG);
	rank_did(r, coll_barrier(r->comm), "barrier");
	for (int i = 0; x && i < N && r->rank == 1; i++) {
		x[(size_t)i * ROOM] = i;
		requests[i] = rank_isend(r, x + (size_t)i * ROOM, i % 7 ? 1 : ROOM, 0, 5);
	}
	for (int i = N / 2; x && i < N && r->rank == 0; i++) {
		if (i == N / 2 + 5)
			ranks_sleep(0.01); /* others may come before */
		requests[i] = rank_irecv(r, x + (size_t)i * ROOM, ROOM, i % 3 ? 1 : COLL_ANY_SOURCE,
					 i % 2 ? 5 : COLL_ANY_TAG);
	}
	for (int i = 0; x && i < N && r->rank < 2; i++) {
		rank_ends(r, requests[i], COLL_SUCCESS, "message");
		rank_is(r, x[(size_t)i * ROOM], i, "number of the message");
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	free(x);
}

static void chooses_tags(struct rank *r)
{
	enum { TAGS = 6, EACH = 3 };
	static const int tags[TAGS] = {0, 1, 70000, INT32_MAX, INT32_MIN, LAST_TAG};
	int32_t x[TAGS][EACH];
	coll_request_t requests[TAGS][EACH];

	for (int k = 0; k < EACH && r->rank == 1; k++)
		for (int t = 0; t < TAGS; t++) {
			x[t][k] = 10 * t + k;
			requests[t][k] = rank_isend(r, &x[t][k], 1, 0, tags[t]);
		}
	for (int t = TAGS - 1; t >= 0 && r->rank == 0; t--)
		for (int k = 0; k < EACH; k++)
			requests[t][k] = rank_irecv(r, &x[t][k], 1, 1, tags[t]);
	for (int t = 0; t < TAGS && r->rank < 2; t++)
		for (int k = 0; k < EACH; k++) {
			rank_is(r, coll_wait(requests[t][k]), COLL_SUCCESS, "message");
			rank_is(r, x[t][k], 10 * t + k, "the message of its tag");
			has_status(r, requests[t][k], 1, tags[t], 4, COLL_SUCCESS);
			coll_request_free(requests[t][k]);
		}
}

/* Messages of the operations, of another communicator and of these calls never match each other. */
static void are_apart(struct rank *r)
{
	int32_t x[3] = {1, 2, 3}, y[3] = {0, 0, 0};
	coll_comm_t twin = NULL;
	coll_request_t first = NULL, second = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	if (r->rank == 1) {
		first = rank_isend(r, &x[0], 1, 0, 7);
		rank_did(r, coll_isend(&x[1], 1, COLL_INT32, 0, 7, twin, &second), "isend");
		rank_did(r, coll_send(&x[2], 1, COLL_INT32, 0, 7, r->comm, NULL), "send");
		rank_did(r, coll_sync(r->comm), "sync");
	} else if (r->rank == 0) {
		rank_did(r, coll_recv(&y[2], 1, COLL_INT32, 1, 7, r->comm, NULL), "recv");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_did(r,
			 coll_irecv(&y[1], 1, COLL_INT32, COLL_ANY_SOURCE, COLL_ANY_TAG, twin,
				    &second),
			 "irecv");
		first = rank_irecv(r, &y[0], 1, 1, 7);
	}
	if (r->rank < 2) {
		rank_ends(r, second, COLL_SUCCESS, "on the twin");
		rank_ends(r, first, COLL_SUCCESS, "on the communicator");
	}
	if (r->rank == 0)
		rank_is(r, 100 * y[0] + 10 * y[1] + y[2], 123, "each its own");
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

static void writes_to_itself(struct rank *r)
{
	int32_t x = r->rank + 5, y = 0;
	coll_request_t in = rank_irecv(r, &y, 1, r->rank, 1),
		       out = rank_isend(r, &x, 1, r->rank, 1);

	has_status(r, in, r->rank, 1, 4, COLL_SUCCESS);
	rank_ends(r, out, COLL_SUCCESS, "send");
	rank_ends(r, in, COLL_SUCCESS, "receive");
	rank_is(r, y, x, "message");
}

/* Memory of the C library that is in use. */
static size_t memory_in_use(void)
{
	const struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* Messages that have come take no memory, however many there were. */
static void leaves_nothing(struct rank *r)
{
	enum { SOME = 100, MANY = 20000, LITTLE = 65536 };
	size_t before = 0, after;
	int32_t x = 1, y = 0;

	for (int i = 0; i < SOME + MANY && !r->failure[0]; i++) {
		coll_request_t in, out;

		if (i == SOME)
			before = memory_in_use();
		in = i % 2 ? NULL : rank_irecv(r, &y, 1, r->rank, i);
		out = rank_isend(r, &x, 1, r->rank, i);
		rank_ends(r, in ? in : rank_irecv(r, &y, 1, r->rank, i), COLL_SUCCESS, "receive");
		rank_ends(r, out, COLL_SUCCESS, "send");
	}
	after = memory_in_use();
	if (after > before + LITTLE)
		rank_fail(r, "%d messages have left %zu bytes", MANY, after - before);
}

/* Nor do messages that were too long, and of which the first bytes had come when they met their receive. */
static void drops_misfits(struct rank *r)
{
	enum { MESSAGES = 8, LENGTH = 16 << 20 };
	char *x = calloc(1, LENGTH);
	coll_status_t s = {.size = sizeof(s)};
	coll_request_t request = NULL;
	size_t before;

	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	before = memory_in_use();
	for (int i = 0; x && i < MESSAGES && !r->failure[0]; i++) {
		if (r->rank) {
			rank_did(r, coll_isend(x, LENGTH, COLL_INT8, 0, i, r->comm, &request),
				 "isend");
			rank_ends(r, request, COLL_SUCCESS, "send");
			continue;
		}
		rank_did(r, coll_probe(1, i, r->comm, &s), "probe");
		rank_did(r, coll_irecv(x, 1, COLL_INT8, 1, i, r->comm, &request), "irecv");
		rank_ends(r, request, COLL_ERR_MISMATCH, "a message that is too long");
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	if (!r->rank && memory_in_use() > before + LENGTH)
		rank_fail(r, "%d messages have left %zu bytes", MESSAGES, memory_in_use() - before);
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	free(x);
}

/* ------------------------------------------------------------- any, status, length -- */

static void misfit(struct rank *r, int32_t *x, size_t room, int tag, size_t sent)
{
	coll_request_t request = rank_irecv(r, x, room, 1, tag);

	x[0] = -5;
	if (tag % 2)
		begins(r, tag);
	rank_is(r, coll_wait(request), COLL_ERR_MISMATCH, "a message that is too long");
	rank_says(r, "with tag", "the text");
	rank_says(r, "room for", "the text");
	has_status(r, request, 1, tag, sent * 4, COLL_ERR_MISMATCH);
	rank_is(r, x[0], -5, "the buffer is unchanged");
	coll_request_free(request);
}

/* Messages that are too long or of another type: of odd tags the receive is first, of even tags the message. */
static void survives_misfits(struct rank *r)
{
	enum { SIZES = 4 };
	static const size_t sizes[SIZES] = {2, 2, LARGE, LARGE};
	static const double d[2] = {1, 2};
	int32_t *x = calloc(LARGE, sizeof(*x)), y = 3;
	coll_request_t out = NULL;
	coll_status_t s = {.size = sizeof(s)};

	for (int i = 0; x && i < SIZES && r->rank < 2; i++) {
		if (r->rank == 0 && i % 2 == 0)
			rank_did(r, coll_probe(1, i, r->comm, &s), "probe");
		if (r->rank == 0)
			misfit(r, x, sizes[i] - 1, i, sizes[i]);
		if (r->rank == 1 && (i % 2 == 0 || reaches(r, i)))
			rank_ends(r, rank_isend(r, x, sizes[i], 0, i), COLL_SUCCESS, "send");
	}
	if (r->rank == 1) {
		rank_did(r, coll_isend(d, 1, COLL_FLOAT64, 0, 9, r->comm, &out), "isend");
		rank_ends(r, out, COLL_SUCCESS, "send of another type");
		rank_did(r, coll_isend(d, 0, COLL_FLOAT64, 0, 9, r->comm, &out), "isend");
		rank_ends(r, out, COLL_SUCCESS, "send of no elements");
	} else if (r->rank == 0 && x) {
		out = rank_irecv(r, x, 2, 1, 9);
		rank_is(r, coll_wait(out), COLL_ERR_MISMATCH, "another type");
		rank_says(r, "float64", "the text");
		coll_request_free(out);
		rank_ends(r, rank_irecv(r, &y, 1, 1, 9), COLL_SUCCESS, "no elements have no type");
		rank_is(r, y, 3, "nothing was received");
	}
	lives(r);
	free(x);
}

/* ---------------------------------------------------------------------- completion -- */

static void has_many(struct rank *r)
{
	enum { MANY = 400 };
	int32_t x[MANY], y[MANY], indices[2 * MANY], count = 0, left = 2 * MANY;
	coll_request_t requests[2 * MANY];
	int peer = r->rank ^ 1;

	for (int i = 0; i < MANY; i++) {
		x[i] = 1000 * r->rank + i;
		y[i] = -1;
		requests[i] = rank_irecv(r, &y[i], 1, peer, MANY - 1 - i);
	}
	for (int i = 0; i < MANY; i++)
		requests[MANY + i] = rank_isend(r, &x[i], 1, peer, i);
	while (left && rank_did(r, coll_wait_some(2 * MANY, requests, -1, indices, &count), "some"))
		for (int i = 0; i < count; i++, left--) {
			coll_request_free(requests[indices[i]]);
			requests[indices[i]] = NULL;
		}
	for (int i = 0; i < MANY; i++)
		rank_is(r, y[i], 1000 * peer + MANY - 1 - i, "message");
}

struct heard {
	_Atomic int count;
	int result;
};

static void hear(void *user, coll_result_t result)
{
	struct heard *heard = user;

	heard->result = result;
	atomic_fetch_add(&heard->count, 1);
}

static void calls_back(struct rank *r)
{
	struct heard heard = {0};
	int32_t x = 4, y = 0;
	coll_request_t request;

	if (r->rank == 1) {
		reaches(r, 1);
		rank_ends(r, rank_isend(r, &x, 1, 0, 0), COLL_SUCCESS, "send");
	} else if (r->rank == 0) {
		request = rank_irecv(r, &y, 1, 1, 0);
		rank_did(r, coll_request_set_callback(request, hear, &heard), "callback");
		rank_did(r, coll_request_free(request), "free before the end");
		rank_is(r, heard.count, 0, "no message yet");
		begins(r, 1);
	}
	lives(r);
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank == 0) {
		rank_is(r, heard.count, 1, "called once");
		rank_is(r, heard.result, COLL_SUCCESS, "result");
		rank_is(r, y, 4, "message");
	}
}

/* A callback that calls the library: each call is refused, and waits for nothing. */
struct wrong {
	coll_comm_t comm;
	_Atomic int count;
	int code[2];
	char text[RANKS_TEXT];
};

static void call_wrongly(void *user, coll_result_t result)
{
	struct wrong *wrong = user;
	int32_t rank;

	(void)result;
	wrong->code[0] = coll_comm_user_rank(wrong->comm, &rank);
	snprintf(wrong->text, sizeof(wrong->text), "%s", coll_get_last_error(NULL));
	wrong->code[1] = coll_barrier(wrong->comm);
	atomic_fetch_add(&wrong->count, 1);
}

static void calls_back_wrongly(struct rank *r)
{
	struct wrong wrong = {.comm = r->comm};
	int32_t x = 4, y = 0, rank = -1;
	coll_request_t request = r->rank ? rank_isend(r, &x, 1, 0, 0) : rank_irecv(r, &y, 1, 1, 0);

	rank_did(r, coll_request_set_callback(request, call_wrongly, &wrong), "callback");
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, wrong.count, 1, "called once");
	rank_is(r, wrong.code[0], COLL_ERR_INVALID_ARGUMENT, "a question within it");
	rank_is(r, wrong.code[1], COLL_ERR_INVALID_ARGUMENT, "a collective within it");
	if (strcmp(wrong.text,
		   "coll_comm_user_rank: comm is used in the callback of a request, which must "
		   "not call the library: let it set a flag, post a semaphore or write "
		   "to an eventfd"))
		rank_fail(r, "text: %s", wrong.text);
	rank_did(r, coll_comm_user_rank(r->comm, &rank), "after it");
	rank_is(r, rank, r->rank, "the handle is good again");
}

/* More sends than the library looks at in a call: all are reported, and nobody waits for one of them. */
static void calls_back_often(struct rank *r)
{
	enum { N = 300, LENGTH = 5000 };
	int32_t *x = calloc(LENGTH, sizeof(*x)), *y = calloc(LENGTH, sizeof(*y));
	double deadline = ranks_now() + FAR_S;
	struct heard heard = {0};
	coll_result_t error;

	for (int i = 0; x && y && i < N; i++) {
		coll_request_t out = rank_isend(r, x, LENGTH, r->rank ^ 1, i);

		rank_did(r, coll_request_set_callback(out, hear, &heard), "callback");
		rank_did(r, coll_request_free(out), "free");
	}
	for (int i = 0; x && y && i < N; i++)
		rank_ends(r, rank_irecv(r, y, LENGTH, r->rank ^ 1, i), COLL_SUCCESS, "receive");
	while (atomic_load(&heard.count) < N && ranks_now() < deadline) {
		if (!getenv("COLL_PROGRESS")) /* else the library's own thread moves the messages */
			coll_comm_get_async_error(r->comm, &error);
		ranks_sleep(0.001);
	}
	rank_is(r, heard.count, N, "each send is reported");
	rank_did(r, coll_barrier(r->comm), "barrier");
	free(x);
	free(y);
}

/* Of a receive to which nothing comes only the request ends. */
static void is_limited(struct rank *r)
{
	int32_t x = 6, y = 0;
	coll_request_t request;
	double begun;

	if (r->rank == 0) {
		request = rank_irecv(r, &y, 1, 1, 5);
		rank_is(r, coll_wait_for(request, 60), COLL_IN_PROGRESS, "no message");
		begun = ranks_now();
		rank_did(r, coll_request_set_timeout(request, 50), "limit");
		rank_is(r, coll_wait(request), COLL_ERR_TIMEOUT, "the limit");
		rank_is(r, ranks_now() - begun > 0.049, 1, "it counts from the call that set it");
		rank_says(r, "timed out", "the text");
		rank_says(r, "coll_irecv of 1 int32 from rank 1 with tag 5", "the text");
		has_status(r, request, -1, -1, 0, COLL_ERR_TIMEOUT);
		coll_request_free(request);
		begins(r, 1);
		rank_ends(r, rank_irecv(r, &y, 1, 1, 5), COLL_SUCCESS, "the next receive");
		rank_is(r, y, 6, "message");
	} else if (r->rank == 1 && reaches(r, 1)) {
		rank_ends(r, rank_isend(r, &x, 1, 0, 5), COLL_SUCCESS, "send");
	}
	lives(r);
}

/*
 * Rank 1 makes no calls.  The limit of a receive ends first, and only its request; then that of a send whose bytes are
 * still under way, and with it the communicator.
 */
static void is_limited_twice(struct rank *r)
{
	enum { LENGTH = 32 << 20, SHORT_MS = 50, LONG_MS = 400, MOST_MS = 10000 };
	const struct shared *shared = r->user;
	const double deadline = ranks_now() + FAR_S;
	coll_request_t in, out;
	coll_result_t error = COLL_SUCCESS;
	char *x;
	int32_t y;

	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	while (r->rank && atomic_load(&shared->phase) < 1 && ranks_now() < deadline)
		ranks_sleep(0.001);
	x = r->rank ? NULL : calloc(1, LENGTH);
	if (!x)
		return;
	in = rank_irecv(r, &y, 1, 1, 5);
	rank_did(r, coll_isend(x, LENGTH, COLL_INT8, 1, 6, r->comm, &out), "isend");
	rank_did(r, coll_request_set_timeout(out, LONG_MS), "limit of the send");
	rank_did(r, coll_request_set_timeout(in, SHORT_MS), "limit of the receive");
	rank_is(r, coll_wait(in), COLL_ERR_TIMEOUT, "the receive");
	rank_is(r, coll_wait_for(out, MOST_MS), COLL_ERR_TIMEOUT, "the send");
	rank_says(r, "its bytes are still under way", "the text");
	rank_did(r, coll_comm_get_async_error(r->comm, &error), "error");
	rank_is(r, error, COLL_ERR_TIMEOUT, "the communicator");
	coll_request_free(in);
	coll_request_free(out);
	begins(r, 1);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	free(x);
}

/* ------------------------------------------------------------------------ failures -- */

static void times_out(struct rank *r)
{
	coll_request_t request;
	coll_result_t error = 0;
	int32_t y = 0, done = 0;
	double begun = ranks_now();

	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, 200), "200 ms");
		request = rank_irecv(r, &y, 1, 1, LAST_TAG);
		while (ranks_now() < begun + 0.5)
			rank_did(r, coll_test(request, &done), "a test does not time out");
		rank_is(r, coll_wait_for(request, 300), COLL_IN_PROGRESS,
			"nor does a limited wait");
		rank_is(r, coll_wait(request), COLL_ERR_TIMEOUT, "the communicator's timeout");
		rank_says(r, "coll_irecv of 1 int32 from rank 1 with tag 4294967294 timed out",
			  "the text");
		rank_says(r, "still needs data from: rank 1", "the text");
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "error");
		rank_is(r, error, COLL_ERR_TIMEOUT, "the communicator has failed");
		coll_request_free(request);
		begins(r, 1);
	}
	reaches(r, 1);
}

static void is_aborted(struct rank *r)
{
	struct heard heard = {0};
	int32_t *x = calloc(LARGE, sizeof(*x)), y = 0;
	coll_request_t request = rank_irecv(r, &y, 1, r->rank ^ 1, 8), out = NULL, none = NULL;

	rank_did(r, coll_request_set_callback(request, hear, &heard), "callback");
	if (r->rank)
		begins(r, 1);
	else if (reaches(r, 1)) {
		out = rank_isend(r, x, LARGE, 1, 9); /* it may be under way for ever */
		rank_did(r, coll_comm_abort(r->comm), "abort");
		rank_is(r, heard.count, 1, "the abort ended it");
		rank_is(r, coll_isend(x, 1, COLL_INT32, 1, 1, r->comm, &none), COLL_ERR_ABORTED,
			"later");
		coll_request_free(out);
	}
	rank_is(r, coll_wait(request), r->rank ? COLL_ERR_REMOTE : COLL_ERR_ABORTED, "wait");
	rank_says(r, "aborted", "the text");
	rank_is(r, heard.result, r->rank ? COLL_ERR_REMOTE : COLL_ERR_ABORTED, "callback");
	coll_request_free(request);
	free(x);
}

/* Rank 1 leaves; the message that it sent before is received. */
static void is_left(struct rank *r)
{
	int32_t x[3] = {1, 2, 3};
	coll_request_t from = NULL, any = NULL, to = NULL;
	coll_comm_t twin = NULL;
	coll_result_t error = 0;
	coll_status_t s = {.size = sizeof(s)};

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	if (r->rank == 0) {
		rank_is(r, coll_probe(1, 4, twin, &s), COLL_ERR_PEER_LOST,
			"probe of the rank that leaves");
		rank_says(r, "rank 1 destroyed its communicator while rank 0 waited in coll_probe",
			  "its text");
		rank_is(r, coll_probe(COLL_ANY_SOURCE, 5, twin, &s), COLL_ERR_PEER_LOST,
			"probe of any rank");
		rank_did(r, coll_probe(1, 6, twin, &s), "probe of a message from before");
		coll_irecv(&x[0], 1, COLL_INT32, 1, 4, twin, &from);
		coll_irecv(&x[1], 1, COLL_INT32, COLL_ANY_SOURCE, 5, twin, &any);
		rank_is(r, coll_wait(from), COLL_ERR_PEER_LOST, "from the rank that left");
		rank_says(r, "rank 1 destroyed its communicator", "the text");
		rank_is(r, coll_wait(any), COLL_ERR_PEER_LOST, "from any rank");
		coll_request_free(from);
		rank_did(r, coll_irecv(&x[2], 1, COLL_INT32, 1, 6, twin, &from), "irecv");
		rank_ends(r, from, COLL_SUCCESS, "a message from before");
		rank_is(r, x[2], 30, "message");
		rank_did(r, coll_isend(x, 1, COLL_INT32, 1, 4, twin, &to), "isend");
		rank_ends(r, to, COLL_ERR_PEER_LOST, "to the rank that left");
		rank_did(r, coll_comm_get_async_error(twin, &error), "error");
		rank_is(r, error, COLL_SUCCESS, "no failure of the communicator");
		coll_request_free(any);
	} else {
		x[0] = 30;
		rank_did(r, coll_isend(x, 1, COLL_INT32, 0, 6, twin, &to), "isend");
		rank_ends(r, to, COLL_SUCCESS, "send");
	}
	rank_did(r, coll_comm_destroy(twin), "destroy");
	lives(r);
}

/* Open receives end, sends arrive, and what nobody received is dropped. */
static void is_destroyed(struct rank *r)
{
	struct heard heard = {0};
	int32_t *x = calloc(LARGE, sizeof(*x)), y = 0;
	coll_request_t request = NULL, out = NULL;
	coll_comm_t twin = NULL;

	if (!x || !rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	rank_did(r, coll_irecv(&y, 1, COLL_INT32, r->rank ^ 1, 4, twin, &request), "irecv");
	rank_did(r, coll_request_set_callback(request, hear, &heard), "callback");
	rank_did(r, coll_isend(x, LARGE, COLL_INT32, r->rank ^ 1, 5, twin, &out), "isend");
	rank_did(r, coll_request_free(out), "free");
	rank_did(r, coll_comm_destroy(twin), "destroy");
	rank_is(r, heard.count, 1, "the receive ended");
	rank_is(r, heard.result == COLL_ERR_ABORTED || heard.result == COLL_ERR_PEER_LOST, 1,
		"result");
	rank_is(r, coll_wait(request), COLL_ERR_INVALID_ARGUMENT, "the communicator is gone");
	rank_did(r, coll_request_free(request), "free");
	lives(r);
	free(x);
}

/* ------------------------------------------------------------------ cancel and probe -- */

static void is_cancelled(struct rank *r)
{
	int32_t x = 7, y[2] = {0, 0};
	coll_request_t request, out, sum;

	if (r->rank == 0) {
		request = rank_irecv(r, &y[0], 1, 1, 2);
		rank_did(r, coll_request_cancel(request), "cancel");
		rank_is(r, coll_wait(request), COLL_ERR_ABORTED, "wait");
		rank_says(r, "cancelled", "the text");
		has_status(r, request, -1, -1, 0, COLL_ERR_ABORTED);
		rank_is(r, coll_request_cancel(request), COLL_ERR_INVALID_USAGE, "once more");
		coll_request_free(request);
		begins(r, 1);
		request = rank_irecv(r, &y[1], 1, 1, 2);
		rank_ends(r, request, COLL_SUCCESS, "the next receive has the message");
		rank_is(r, y[0], 0, "not the cancelled one");
		rank_is(r, y[1], 7, "message");
	} else if (r->rank == 1 && reaches(r, 1)) {
		out = rank_isend(r, &x, 1, 0, 2);
		rank_is(r, coll_request_cancel(out), COLL_ERR_INVALID_USAGE, "a send");
		rank_ends(r, out, COLL_SUCCESS, "send");
	}
	lives(r);
	rank_did(r, coll_get_request(r->comm, &sum), "request");
	rank_is(r, coll_request_cancel(sum), COLL_ERR_INVALID_USAGE, "an operation");
	coll_request_free(sum);
}

static void is_probed(struct rank *r)
{
	int32_t x[5] = {1, 2, 3, 4, 5}, found = 7;
	coll_status_t s = {.size = sizeof(s), .tag = -7};

	if (r->rank == 1 && reaches(r, 1)) {
		rank_ends(r, rank_isend(r, x, 5, 0, 11), COLL_SUCCESS, "send");
		rank_ends(r, rank_isend(r, x, 3, 0, 12), COLL_SUCCESS, "send");
	}
	if (r->rank == 0) {
		rank_did(r, coll_iprobe(COLL_ANY_SOURCE, COLL_ANY_TAG, r->comm, &found, &s),
			 "probe");
		rank_is(r, found, 0, "nothing was sent");
		rank_is(r, s.tag, -7, "the status is unchanged");
		begins(r, 1);
		rank_did(r, coll_probe(1, 12, r->comm, &s), "probe");
		rank_is(r, s.tag, 12, "tag");
		rank_is(r, (int64_t)s.bytes, 12, "length");
		rank_did(r, coll_probe(COLL_ANY_SOURCE, COLL_ANY_TAG, r->comm, &s), "probe");
		rank_is(r, s.source, 1, "source");
		rank_is(r, s.tag, 11, "the first message");
		rank_is(r, s.dtype, COLL_INT32, "type");
		rank_ends(r, rank_irecv(r, x, s.bytes / 4, 1, 11), COLL_SUCCESS, "receive");
		rank_did(r, coll_iprobe(1, COLL_ANY_TAG, r->comm, &found, &s), "probe");
		rank_is(r, found, 1, "the other message");
		rank_is(r, s.tag, 12, "its tag");
		rank_ends(r, rank_irecv(r, x, 5, COLL_ANY_SOURCE, COLL_ANY_TAG), COLL_SUCCESS,
			  "receive");
		rank_did(r, coll_iprobe(1, COLL_ANY_TAG, r->comm, &found, &s), "probe");
		rank_is(r, found, 0, "nothing is left");
	}
	lives(r);
}

/* The program's status may be of an older size or of a newer one: nothing behind either is written. */
static void other_sizes(struct rank *r)
{
	struct {
		coll_status_t s;
		int64_t newer;
	} status = {{.tag = -7, .bytes = 77, .error = 78, .dtype = 79}, 80};
	coll_request_t request;

	rank_did(r, coll_isend(NULL, 0, COLL_INT32, r->rank, 3, r->comm, &request), "isend");
	rank_did(r, coll_wait(request), "wait");
	status.s.size = offsetof(coll_status_t, bytes);
	rank_did(r, coll_request_get_status(request, &status.s), "an older status");
	rank_is(r, status.s.tag, 3, "the tag");
	rank_is(r, status.s.bytes == 77 && status.s.error == 78 && status.s.dtype == 79, 1,
		"what an older program has not is left alone");
	status.s.size = sizeof(status);
	rank_did(r, coll_request_get_status(request, &status.s), "a newer status");
	rank_is(r, (int64_t)status.s.bytes, 0, "the length");
	rank_is(r, status.newer, 80, "what this library does not know is left alone");
	coll_request_free(request);
	lives(r);
}

/* --------------------------------------------------------------------- arguments -- */

static void refuses(struct rank *r)
{
	const coll_result_t bad = COLL_ERR_INVALID_ARGUMENT;
	coll_status_t s = {.size = sizeof(s)}, small = {.size = 4};
	int32_t x = 0, found;
	coll_request_t request = (coll_request_t)&x;

	rank_is(r, coll_isend(&x, 1, COLL_INT32, -1, 0, r->comm, &request), bad, "send to any");
	rank_is(r, request == NULL, 1, "no request");
	rank_is(r, coll_isend(&x, 1, COLL_INT32, r->nranks, 0, r->comm, &request), bad, "peer");
	rank_is(r, coll_isend(&x, 1, COLL_INT32, 0, COLL_ANY_TAG, r->comm, &request), bad,
		"any tag");
	rank_says(r, "tag is COLL_ANY_TAG", "the text");
	rank_is(r, coll_irecv(&x, 1, COLL_INT32, -2, 0, r->comm, &request), bad, "peer -2");
	rank_is(r, coll_irecv(&x, 1, 99, 0, 0, r->comm, &request), bad, "type");
	rank_is(r, coll_irecv(NULL, 1, COLL_INT32, 0, 0, r->comm, &request), bad, "recvbuf");
	rank_is(r, coll_isend(NULL, 1, COLL_INT32, 0, 0, r->comm, &request), bad, "sendbuf");
	rank_is(r, coll_isend(&x, SIZE_MAX, COLL_INT32, 0, 0, r->comm, &request), bad, "count");
	rank_is(r, coll_isend(&x, 1, COLL_INT32, 0, 0, r->comm, NULL), bad, "request");
	rank_is(r, coll_isend(&x, 1, COLL_INT32, 0, 0, NULL, &request), bad, "comm");
	rank_is(r, coll_probe(0, 0, r->comm, NULL), bad, "no status");
	rank_is(r, coll_iprobe(0, 0, r->comm, NULL, &s), bad, "no found");
	rank_is(r, coll_iprobe(0, 0, r->comm, &found, &small), bad, "a status without its size");
	rank_is(r, coll_request_get_status(NULL, &s), bad, "no request");
	rank_is(r, coll_request_cancel(NULL), bad, "no request");
	lives(r);
	rank_did(r, coll_get_request(r->comm, &request), "request");
	rank_is(r, coll_request_get_status(request, &s), COLL_ERR_INVALID_USAGE, "an operation's");
	coll_request_free(request);
}

/* ------------------------------------------------------------------- lost ranks -- */

/* The rank that waits for a message of a rank that dies hears of it. */
static void loses(struct rank *r)
{
	int32_t x = 0;
	coll_request_t request;
	coll_result_t code;

	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank == 1) {
		ranks_sleep(0.05);
		raise(SIGKILL);
	}
	request = rank_irecv(r, &x, 1, 1, 3);
	code = coll_wait(request);
	rank_is(r, code, COLL_ERR_PEER_LOST, "wait");
	coll_request_free(request);
}

static void test_lost(const char *backend)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct ranks_job job = {.backend = backend, .nranks = 3, .processes = 1, .fn = loses};

	ranks_run_processes(&job, shared);
	for (int r = 0; r < 3; r++)
		if (r == 1)
			has_str(shared->failure[r], "status 0x9", "%s: rank 1 is dead", backend);
		else
			is_str(shared->failure[r], "", "%s: rank %d loses rank 1", backend, r);
}

/* ------------------------------------------------------------------------- main -- */

static void run(const char *backend, int nranks, void (*fn)(struct rank *), const char *name)
{
	static struct shared shared;
	struct ranks_job job = {.backend = backend, .nranks = nranks, .fn = fn, .user = &shared};

	atomic_store(&shared.phase, -2);
	ranks_ok(&job, "%s", name);
}

static void run_scenario(const char *backend, int nranks, scenario_fn fn, const char *name)
{
	scenario_ok(&(struct ranks_job){.backend = backend, .nranks = nranks}, fn, name);
}

static void run_all(const char *backend)
{
	run_scenario(backend, 2, scenario_outside, "both receive, then send");
	run_scenario(backend, 3, scenario_outside, "a ring that receives, then sends");
	run(backend, 2, stays_open, "a receive stays open across collectives");
	run(backend, 3, keeps_order, "order of messages with one tag");
	run(backend, 2, chooses_tags, "tags choose");
	run(backend, 3, are_apart, "apart from operations and other communicators");
	run(backend, 1, writes_to_itself, "messages to oneself");
	run(backend, 1, leaves_nothing, "many messages, one after the other");
	run_scenario(backend, 4, scenario_any, "any source, any tag, the status, shorter messages");
	run(backend, 2, survives_misfits, "messages that do not fit");
	run(backend, 2, drops_misfits, "the memory of messages that do not fit");
	run(backend, 2, has_many, "many at once");
	run(backend, 2, calls_back, "callbacks");
	run(backend, 2, calls_back_wrongly, "a callback that calls the library");
	run(backend, 2, calls_back_often, "many callbacks");
	run(backend, 3, is_limited, "a receive of limited time");
	run(backend, 2, times_out, "the communicator's timeout");
	run(backend, 2, is_aborted, "abort");
	run(backend, 2, is_left, "a rank that leaves");
	run(backend, 2, is_destroyed, "destroy");
	run(backend, 2, is_cancelled, "cancel");
	run(backend, 2, is_probed, "probe");
	run(backend, 2, refuses, "wrong arguments");
	run(backend, 2, other_sizes, "a status of another size");
}

/* Ranks in processes, so that a rank which makes no calls moves no data. */
static void run_process(const char *backend)
{
	struct ranks_job job = {.backend = backend,
				.nranks = 2,
				.processes = 1,
				.fn = is_limited_twice,
				.user = ranks_memory(sizeof(struct shared))};

	ranks_ok(&job, "a receive and a send of limited time");
}

/* The library's own thread moves the messages. */
static void run_thread(const char *backend)
{
	setenv("COLL_PROGRESS", "thread", 1);
	run_scenario(backend, 3, scenario_outside, "with a progress thread: a ring");
	run(backend, 2, is_probed, "with a progress thread: probe");
	run(backend, 2, has_many, "with a progress thread: many at once");
	run(backend, 2, calls_back_often, "with a progress thread: many callbacks");
	run(backend, 2, is_destroyed, "with a progress thread: destroy");
	unsetenv("COLL_PROGRESS");
}

int main(void)
{
	test_lost("tcp");
	if (ranks_can("ucx"))
		test_lost("ucx");
	run_process("tcp");
	if (ranks_can("ucx"))
		run_process("ucx");
	run_all("simulated");
	run_all("tcp");
	if (ranks_can("ucx"))
		run_all("ucx");
	run_thread("tcp");
	return done_testing();
}
