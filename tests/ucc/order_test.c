/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_test.c - backends without a transport that take host memory: the backend does some calls, and the companion's
 * transport does the others.  Calls that use each other's results follow one another without a wait.  Runs over ucc if UCC is
 * installed, and over two stand-ins, one of them with events.
 */
#include "../lib/ranks.h"

enum { ROUNDS = 100, WORDS = 2000, LATE_ROUNDS = 5, AHEAD = 300, POLL_S = 20 };

/* The last rank lets the others wait, whose calls of the backend are under way meanwhile. */
static int order_is_late(const struct rank *r)
{
	if (r->rank < r->nranks - 1)
		return 0;
	ranks_sleep(0.02);
	return 1;
}

/* -------------------------------------------------------------------------- sequences -- */

/* The sum over all ranks by the backend, the sum of the ranks up to this rank by the companion, and again, without a wait. */
static void order_sums_and_scans(struct rank *r)
{
	enum { LINKS = 5 };
	int64_t x[WORDS], y[WORDS], want = 1;

	for (int i = 0; i < LINKS; i++)
		want *= (int64_t)r->nranks * r->nranks;
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < WORDS; i++)
			x[i] = 1;
		for (int i = 0; i < LINKS; i++) {
			rank_did(r,
				 coll_allreduce(x, y, WORDS, COLL_INT64, COLL_SUM, r->comm, NULL),
				 "allreduce");
			rank_did(r, coll_scan(y, x, WORDS, COLL_INT64, COLL_SUM, r->comm, NULL),
				 "scan");
			rank_did(r,
				 coll_broadcast(x, x, WORDS, COLL_INT64, r->nranks - 1, r->comm,
						NULL),
				 "broadcast");
		}
		rank_did(r, coll_sync(r->comm), "sync");
		for (int i = 0; i < WORDS; i++)
			if (!rank_is(r, x[i], want, "the sum of sums"))
				return;
	}
}

/* A ring of messages between reductions that use them. */
static void order_ring(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, last = (r->rank + r->nranks - 1) % r->nranks;
	int64_t x = r->rank, y = -1, sum = -1;

	for (int round = 0; round < ROUNDS; round++) {
		rank_did(r, coll_group_start(), "group_start");
		rank_did(r, coll_send(&x, 1, COLL_INT64, next, 0, r->comm, NULL), "send");
		rank_did(r, coll_recv(&y, 1, COLL_INT64, last, 0, r->comm, NULL), "recv");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_allreduce(&y, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_allreduce(&y, &x, 1, COLL_INT64, COLL_MAX, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_is(r, y, round ? r->nranks - 1 : last, "the message");
		rank_is(r, sum,
			round ? (int64_t)(r->nranks - 1) * r->nranks
			      : (int64_t)r->nranks * (r->nranks - 1) / 2,
			"the sum of the messages");
		rank_is(r, x, r->nranks - 1, "the largest message");
	}
}

/*
 * Rank 0 broadcasts far ahead of the other ranks, so that much of its data has not left yet when its calls are complete.  Then
 * it waits for a message of the last rank, or ends at once.
 */
static void order_ahead(struct rank *r, int waits)
{
	int64_t x[WORDS], y = r->rank;
	const int last = r->nranks - 1;

	for (int i = 0; i < AHEAD; i++) {
		if (r->rank && !i)
			ranks_sleep(0.05);
		for (int w = 0; w < WORDS; w++)
			x[w] = r->rank ? -1 : i;
		rank_did(r, coll_broadcast(x, x, WORDS, COLL_INT64, 0, r->comm, NULL), "broadcast");
		rank_did(r, coll_sync(r->comm), "sync");
		if (!rank_is(r, x[WORDS - 1], i, "the broadcast"))
			return;
	}
	if (!waits)
		return;
	if (r->rank == 0)
		rank_did(r, coll_recv(&y, 1, COLL_INT64, last, 0, r->comm, NULL), "recv");
	else if (r->rank == last)
		rank_did(r, coll_send(&y, 1, COLL_INT64, 0, 0, r->comm, NULL), "send");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, y, r->rank ? r->rank : last, "the message");
}

static void order_ahead_and_waits(struct rank *r)
{
	order_ahead(r, 1);
}

static void order_ahead_and_ends(struct rank *r)
{
	order_ahead(r, 0);
}

/* ----------------------------------------------------------------------------- groups -- */

/* In a group the ranks may issue messages and collectives in any order among each other. */
static void order_groups(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, last = (r->rank + r->nranks - 1) % r->nranks;
	int64_t x = r->rank, y = -1, sum = r->rank, all = -1, scan = -1;

	for (int round = 0; round < ROUNDS; round++) {
		y = all = scan = -1;
		rank_did(r, coll_group_start(), "group_start");
		if (r->rank % 2)
			rank_did(r, coll_recv(&y, 1, COLL_INT64, last, 0, r->comm, NULL), "recv");
		rank_did(r, coll_allreduce(&sum, &all, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_send(&x, 1, COLL_INT64, next, 0, r->comm, NULL), "send");
		if (r->rank % 2 == 0)
			rank_did(r, coll_recv(&y, 1, COLL_INT64, last, 0, r->comm, NULL), "recv");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_scan(&y, &scan, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "scan");
		rank_did(r, coll_allreduce(&scan, &scan, 1, COLL_INT64, COLL_MAX, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_is(r, y, last, "the message");
		rank_is(r, all, (int64_t)r->nranks * (r->nranks - 1) / 2, "the sum");
		rank_is(r, scan, (int64_t)r->nranks * (r->nranks - 1) / 2, "the scan's maximum");
	}
}

/*
 * A ring of all ranks but the late one: each receives, then sends the sum of an earlier call, which is under way.  `sums`: the
 * group begins with another sum.
 */
static void order_group_behind(struct rank *r, int sums)
{
	const int ring = r->nranks - 1;
	int64_t x, sum, other, y;

	for (int round = 0; round < LATE_ROUNDS; round++) {
		const int late = order_is_late(r);

		x = r->rank;
		sum = other = y = -1;
		rank_did(r, coll_allreduce(&x, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_group_start(), "group_start");
		if (sums)
			rank_did(r,
				 coll_allreduce(&x, &other, 1, COLL_INT64, COLL_MAX, r->comm, NULL),
				 "allreduce");
		if (!late) {
			rank_did(r,
				 coll_recv(&y, 1, COLL_INT64, (r->rank + ring - 1) % ring, 0,
					   r->comm, NULL),
				 "recv");
			rank_did(r,
				 coll_send(&sum, 1, COLL_INT64, (r->rank + 1) % ring, 0, r->comm,
					   NULL),
				 "send");
		}
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_is(r, sum, (int64_t)r->nranks * (r->nranks - 1) / 2, "the sum");
		rank_is(r, other, sums ? r->nranks - 1 : -1, "the largest rank");
		rank_is(r, y, late ? -1 : sum, "the message");
	}
}

static void order_messages_behind(struct rank *r)
{
	order_group_behind(r, 0);
}

static void order_sum_and_messages_behind(struct rank *r)
{
	order_group_behind(r, 1);
}

/* -------------------------------------------------------------- groups of two threads -- */

/* What the thread of a second group on the communicator of a rank shares with the rank's own thread. */
struct order_second {
	coll_comm_t comm;
	coll_result_t code;
	int64_t sum;
	_Atomic int step; /* 1: begin; 2: the group has its call; 3: end */
};

static void order_await_step(struct order_second *s, int step)
{
	while (s->step < step)
		ranks_sleep(0.0001);
}

static void *order_second_group(void *arg)
{
	struct order_second *s = arg;

	order_await_step(s, 1);
	s->code = coll_group_start();
	if (!s->code)
		s->code = coll_allreduce(&s->sum, &s->sum, 1, COLL_INT64, COLL_SUM, s->comm, NULL);
	s->step = 2;
	order_await_step(s, 3);
	if (!s->code)
		s->code = coll_group_end();
	return NULL;
}

/* A ring of messages between whose calls another thread begins a group, which ends after the ring. */
static void order_two_groups(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, last = (r->rank + r->nranks - 1) % r->nranks;
	struct order_second s = {.comm = r->comm, .sum = 1};
	int64_t x = r->rank, y = -1;
	coll_request_t request = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, order_second_group, &s)) {
		rank_fail(r, "no thread");
		return;
	}
	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_recv(&y, 1, COLL_INT64, last, 0, r->comm, NULL), "recv");
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	s.step = 1;
	order_await_step(&s, 2);
	rank_did(r, coll_send(&x, 1, COLL_INT64, next, 0, r->comm, NULL), "send");
	rank_did(r, coll_group_end(), "group_end");
	rank_ends(r, request, COLL_SUCCESS, "the message");
	s.step = 3;
	pthread_join(thread, NULL);
	rank_did(r, s.code, "the second group");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, y, last, "the message");
	rank_is(r, s.sum, r->nranks, "the sum");
}

/* ------------------------------------------------------------------------------ events -- */

/* The calls behind an event wait for another communicator's scan, whichever lane does them. */
static void order_events(struct rank *r)
{
	int64_t x = 1, y = -1, sum = -1, scan = -1;
	coll_comm_t other = NULL;
	coll_event_t event = NULL;

	rank_did(r, coll_comm_dup(r->comm, &other), "dup");
	rank_did(r, coll_event_create(other, &event), "event_create");
	for (int round = 0; round < LATE_ROUNDS; round++) {
		y = sum = scan = -1;
		order_is_late(r);
		rank_did(r, coll_scan(&x, &y, 1, COLL_INT64, COLL_SUM, other, NULL), "scan");
		rank_did(r, coll_event_record(event, other), "event_record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
		rank_did(r, coll_allreduce(&y, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_scan(&y, &scan, 1, COLL_INT64, COLL_MAX, r->comm, NULL), "scan");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_is(r, sum, (int64_t)r->nranks * (r->nranks + 1) / 2, "the sum");
		rank_is(r, scan, r->rank + 1, "the scan");
	}
	rank_did(r, coll_event_destroy(event), "event_destroy");
	rank_did(r, coll_comm_destroy(other), "destroy");
}

/* --------------------------------------------------------------------------- requests -- */

static coll_request_t order_request_of(struct rank *r, coll_args_t args)
{
	coll_request_t request = NULL;

	args.size = sizeof(args);
	args.dtype = COLL_INT64;
	args.count = 1;
	rank_did(r, coll_request_init(r->comm, &args, &request), "request_init");
	return request;
}

static coll_request_t order_request(struct rank *r, int32_t kind, const void *in, void *out, int op)
{
	return order_request_of(
		r, (coll_args_t){.kind = kind, .sendbuf = in, .recvbuf = out, .op = op});
}

static void order_requests(struct rank *r)
{
	int64_t x = 1, y = -1, z = -1;
	coll_request_t sum = order_request(r, COLL_KIND_ALLREDUCE, &x, &y, COLL_SUM);
	coll_request_t scan = order_request(r, COLL_KIND_SCAN, &y, &z, COLL_SUM);
	coll_request_t max = order_request(r, COLL_KIND_ALLREDUCE, &z, &x, COLL_MAX);

	for (int round = 0; round < ROUNDS; round++) {
		x = 1;
		rank_did(r, coll_request_start(sum), "start");
		rank_did(r, coll_request_start(scan), "start");
		rank_did(r, coll_request_start(max), "start");
		rank_did(r, coll_wait(max), "wait");
		rank_is(r, z, (int64_t)r->nranks * (r->rank + 1), "the scan");
		rank_is(r, x, (int64_t)r->nranks * r->nranks, "the maximum");
		rank_did(r, coll_wait(scan), "wait");
		rank_did(r, coll_wait(sum), "wait");
	}
	rank_did(r, coll_request_free(sum), "free");
	rank_did(r, coll_request_free(scan), "free");
	rank_did(r, coll_request_free(max), "free");
}

/* The same ring as that of order_group_behind. */
static void order_requests_behind(struct rank *r)
{
	const int ring = r->nranks - 1, late = r->rank == ring;
	int64_t x = r->rank, sum = -1, y = -1;
	coll_request_t recv = NULL, send = NULL;

	if (!late) {
		recv = order_request_of(r, (coll_args_t){.kind = COLL_KIND_RECV,
							 .recvbuf = &y,
							 .root = (r->rank + ring - 1) % ring});
		send = order_request_of(r, (coll_args_t){.kind = COLL_KIND_SEND,
							 .sendbuf = &sum,
							 .root = (r->rank + 1) % ring});
	}
	for (int round = 0; round < LATE_ROUNDS; round++) {
		order_is_late(r);
		rank_did(r, coll_allreduce(&x, &sum, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_group_start(), "group_start");
		rank_did(r, late ? 0 : coll_request_start(recv), "start");
		rank_did(r, late ? 0 : coll_request_start(send), "start");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_sync(r->comm), "sync");
		rank_is(r, y, late ? -1 : sum, "the message");
		sum = -1;
	}
	rank_did(r, late ? 0 : coll_request_free(recv), "free");
	rank_did(r, late ? 0 : coll_request_free(send), "free");
}

/* A request that the program only asks for moves all that it waits for, in both lanes.  `some`: asks by coll_wait_some. */
static void order_poll(struct rank *r, coll_request_t request, int some)
{
	const double end = ranks_now() + POLL_S;
	int32_t done = 0, index;
	coll_result_t code = COLL_SUCCESS;

	while (!done && ranks_now() < end && (!code || (some && code == COLL_IN_PROGRESS)))
		code = some ? coll_wait_some(1, &request, 0, &index, &done)
			    : coll_test(request, &done);
	if (!done)
		rank_fail(r, "the request has not ended in %d s: %d (%s)", POLL_S, code,
			  coll_get_last_error(NULL));
}

static void order_polls(struct rank *r)
{
	int64_t x = 1, y = -1, z = -1, w = -1;
	const int64_t all = (int64_t)r->nranks * (r->nranks + 1) / 2;
	coll_request_t scan = order_request(r, COLL_KIND_SCAN, &x, &y, COLL_SUM);
	coll_request_t sum = order_request(r, COLL_KIND_ALLREDUCE, &y, &z, COLL_SUM);
	coll_request_t last = order_request(r, COLL_KIND_SCAN, &z, &w, COLL_SUM);

	for (int round = 0; round < 2 * LATE_ROUNDS; round++) {
		y = z = w = -1;
		order_is_late(r);
		rank_did(r, coll_request_start(scan), "start");
		rank_did(r, coll_request_start(sum), "start");
		rank_did(r, coll_request_start(last), "start");
		order_poll(r, last, round % 2);
		rank_is(r, z, all, "the sum of the scan");
		rank_is(r, w, all * (r->rank + 1), "the scan of the sum");
		rank_did(r, coll_sync(r->comm), "sync");
	}
	rank_did(r, coll_request_free(scan), "free");
	rank_did(r, coll_request_free(sum), "free");
	rank_did(r, coll_request_free(last), "free");
}

static const struct order_case {
	const char *name;
	void (*fn)(struct rank *r);
} cases[] = {
	{"sums by the backend and scans by the companion", order_sums_and_scans},
	{"a ring of messages between sums", order_ring},
	{"a rank that is ahead waits for a message", order_ahead_and_waits},
	{"a rank that is ahead ends", order_ahead_and_ends},
	{"groups of messages and sums", order_groups},
	{"a group of messages behind a sum", order_messages_behind},
	{"a group of a sum and messages behind a sum", order_sum_and_messages_behind},
	{"groups of two threads", order_two_groups},
	{"an event of another communicator", order_events},
	{"persistent requests", order_requests},
	{"a group of persistent requests behind a sum", order_requests_behind},
	{"persistent requests for which a program only asks", order_polls},
};

static void order_all(const char *backend, int processes)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int n = 2; n <= 4; n++) {
			const struct ranks_job job = {.backend = backend,
						      .nranks = n,
						      .processes = processes,
						      .fn = cases[i].fn};

			ranks_ok(&job, "%s", cases[i].name);
		}
}

int main(void)
{
	ranks_plugins(".libs", "tests/plugins/.libs");
	/* Processes first: UCC cannot be used by a child of a process that has used it. */
	if (ranks_can("ucc")) {
		order_all("ucc", 1);
		order_all("ucc", 0);
	}
	order_all("bare", 0);
	order_all("engine", 0);
	return done_testing();
}
