/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendrecv_test.c - send and receive: rings, tags, order, any source, messages to the own rank,
 * groups of many calls; requests, persistent requests and events.
 */
#include "../lib/ranks.h"

enum { TAG = 7, LARGE = (17 << 20) + 3 };

static unsigned char byte_of(int rank, size_t i)
{
	return (unsigned char)((size_t)rank * 31 + i * 7 + (i >> 8) * 13);
}

static void fill(unsigned char *x, int rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = byte_of(rank, i);
}

static int check(struct rank *r, const unsigned char *x, int from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] != byte_of(from, i))
			return rank_fail(r, "byte %zu of %zu from rank %d is wrong", i, n, from);
	return 1;
}

static int send_bytes(struct rank *r, const void *x, size_t n, int peer, uint32_t tag)
{
	return rank_did(r, coll_send(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "send");
}

static int recv_bytes(struct rank *r, void *x, size_t n, int peer, uint32_t tag)
{
	return rank_did(r, coll_recv(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "recv");
}

static int synced(struct rank *r)
{
	return rank_did(r, coll_sync(r->comm), "sync");
}

static int grouped(struct rank *r)
{
	return rank_did(r, coll_group_end(), "group_end") && synced(r);
}

/* Each rank sends to the right and receives from the left; a single rank sends to itself. */
static void run_ring(struct rank *r)
{
	static const size_t sizes[] = {0, 1, 7, 1000, 65537, 300000, LARGE};
	int right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	int last = ranks_small() || r->nranks > 4 ? 6 : 7;
	unsigned char *x = malloc(LARGE), *y = malloc(LARGE + 1);
	int good = x && y;

	for (int i = 0; i < last && good; i++) {
		fill(x, r->rank, sizes[i]);
		y[sizes[i]] = 0xa5;
		coll_group_start();
		good = send_bytes(r, x, sizes[i], right, TAG) &&
		       recv_bytes(r, y, sizes[i], left, TAG) && grouped(r) &&
		       check(r, y, left, sizes[i]) &&
		       (y[sizes[i]] == 0xa5 || rank_fail(r, "a guard byte was overwritten"));
	}
	free(x);
	free(y);
}

/* The calls are not in a group, so the parity of the rank decides which rank sends first. */
static void run_ping_pong(struct rank *r)
{
	int peer = r->rank ^ 1;
	unsigned char x[1000], y[1000];

	if (peer >= r->nranks)
		return;
	fill(x, r->rank, sizeof(x));
	for (int round = 0; round < 200; round++) {
		memset(y, 0, sizeof(y));
		if (r->rank < peer) {
			if (!send_bytes(r, x, sizeof(x), peer, 1) ||
			    !recv_bytes(r, y, sizeof(y), peer, 2))
				return;
		} else if (!recv_bytes(r, y, sizeof(y), peer, 1) ||
			   !send_bytes(r, x, sizeof(x), peer, 2)) {
			return;
		}
		if (!synced(r) || !check(r, y, peer, sizeof(y)))
			return;
	}
}

/*
 * Tags choose the message, and messages of one tag stay in order; the receiver takes the tags in
 * another order.
 */
static void run_tags(struct rank *r)
{
	enum { TAGS = 5, EACH = 4 };
	int32_t out[TAGS][EACH], in[TAGS][EACH];
	int peer = r->rank ^ 1, good = 1;

	if (peer >= r->nranks)
		return;
	coll_group_start();
	for (int k = 0; k < EACH; k++)
		for (int t = 0; t < TAGS; t++) {
			out[t][k] = r->rank * 1000 + t * 10 + k;
			good = good && rank_did(r,
						coll_send(&out[t][k], 1, COLL_INT32, peer,
							  0xfffffff0u + (uint32_t)t, r->comm, NULL),
						"send");
		}
	for (int t = TAGS - 1; t >= 0; t--)
		for (int k = 0; k < EACH; k++)
			good = good && rank_did(r,
						coll_recv(&in[t][k], 1, COLL_INT32, peer,
							  0xfffffff0u + (uint32_t)t, r->comm, NULL),
						"recv");
	if (!grouped(r) || !good)
		return;
	for (int t = 0; t < TAGS; t++)
		for (int k = 0; k < EACH; k++)
			if (in[t][k] != peer * 1000 + t * 10 + k)
				rank_fail(r, "message %d of tag %d is %d", k, t, in[t][k]);
}

/* Rank 0 receives one number from each other rank, in the order of arrival. */
static void run_any_source(struct rank *r)
{
	int32_t x = 1 << r->rank, sum = 0;

	if (r->rank) {
		if (rank_did(r, coll_send(&x, 1, COLL_INT32, 0, TAG, r->comm, NULL), "send"))
			synced(r);
		return;
	}
	for (int i = 1; i < r->nranks; i++) {
		if (!rank_did(r, coll_recv(&x, 1, COLL_INT32, COLL_ANY_SOURCE, TAG, r->comm, NULL),
			      "recv from any") ||
		    !synced(r))
			return;
		sum += x;
	}
	if (sum != (1 << r->nranks) - 2)
		rank_fail(r, "the sum of what came is %d", sum);
}

static void run_self(struct rank *r)
{
	unsigned char x[5000], y[5000];

	fill(x, r->rank, sizeof(x));
	coll_group_start();
	if (send_bytes(r, x, sizeof(x), r->rank, 3) && recv_bytes(r, y, sizeof(y), r->rank, 3) &&
	    grouped(r))
		check(r, y, r->rank, sizeof(y));
}

/* Groups of a receive and a send: the send is the last to end now and then, and other groups have its memory after it. */
static void run_pairs(struct rank *r)
{
	unsigned char x[4093], y[4093];

	fill(x, r->rank, sizeof(x));
	for (int round = 0; round < 150; round++) {
		const int self = round % 3 == 1;
		const int to = self ? r->rank : (r->rank + 1) % r->nranks;
		const int from = self ? r->rank : (r->rank + r->nranks - 1) % r->nranks;

		coll_group_start();
		if (!recv_bytes(r, y, sizeof(y), round % 2 ? COLL_ANY_SOURCE : from, TAG) ||
		    !send_bytes(r, x, sizeof(x), to, TAG) || !grouped(r) ||
		    !rank_did(r, coll_barrier(r->comm), "barrier") || !check(r, y, from, sizeof(y)))
			return;
	}
}

/* Every rank sends to every rank in one group, together with a collective. */
static void run_all_pairs(struct rank *r)
{
	int32_t out[RANKS_MAX], in[RANKS_MAX], sum = r->rank;
	int good = 1;

	coll_group_start();
	for (int p = 0; p < r->nranks && good; p++) {
		out[p] = r->rank * 100 + p;
		good = rank_did(r, coll_recv(&in[p], 1, COLL_INT32, p, 0, r->comm, NULL), "recv") &&
		       rank_did(r, coll_send(&out[p], 1, COLL_INT32, p, 0, r->comm, NULL), "send");
	}
	good = good &&
	       rank_did(r, coll_allreduce(&sum, &sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			"allreduce");
	if (!grouped(r) || !good)
		return;
	for (int p = 0; p < r->nranks; p++)
		if (in[p] != p * 100 + r->rank)
			rank_fail(r, "from rank %d came %d", p, in[p]);
	if (sum != r->nranks * (r->nranks - 1) / 2)
		rank_fail(r, "the sum is %d", sum);
}

/* -------------------------------------------------------- requests and events -- */

static void run_requests(struct rank *r)
{
	coll_request_t request;
	int32_t x = r->rank, done = 0;
	double deadline = ranks_now() + 60;

	if (!rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		      "allreduce") ||
	    !rank_did(r, coll_get_request(r->comm, &request), "get_request"))
		return;
	while (!done && ranks_now() < deadline)
		if (!rank_did(r, coll_test(request, &done), "test"))
			return;
	if (!done || x != r->nranks * (r->nranks - 1) / 2)
		rank_fail(r, "done is %d, the sum is %d", done, x);
	if (rank_did(r, coll_wait(request), "wait for what is complete"))
		rank_did(r, coll_request_free(request), "request_free");
}

static void run_persistent(struct rank *r)
{
	double x, y;
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_FLOAT64,
			    .op = COLL_MAX,
			    .sendbuf = &x,
			    .recvbuf = &y,
			    .count = 1};
	coll_request_t request;

	if (!rank_did(r, coll_request_init(r->comm, &args, &request), "request_init"))
		return;
	for (int i = 0; i < 20; i++) {
		x = r->rank + i;
		y = -1;
		if (!rank_did(r, coll_request_start(request), "request_start") ||
		    !rank_did(r, coll_wait(request), "wait"))
			return;
		if (y != r->nranks - 1 + i)
			rank_fail(r, "start %d gave %g", i, y);
	}
	rank_did(r, coll_request_free(request), "request_free");
}

static void run_events(struct rank *r)
{
	coll_event_t event;
	int32_t x = 1, y = 1;
	coll_result_t state;

	if (!rank_did(r, coll_event_create(r->comm, &event), "event_create") ||
	    !rank_did(r, coll_event_query(event), "an event never recorded is complete") ||
	    !rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "sum") ||
	    !rank_did(r, coll_event_record(event, r->comm), "event_record") ||
	    !rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "sum"))
		return;
	state = coll_event_query(event);
	if (state != COLL_SUCCESS && state != COLL_IN_PROGRESS)
		rank_fail(r, "event_query: %d", state);
	if (!rank_did(r, coll_event_synchronize(event), "event_synchronize"))
		return;
	if (x != r->nranks)
		rank_fail(r, "the event was complete before the sum: %d", x);
	if (rank_did(r, coll_comm_wait_event(r->comm, event), "comm_wait_event") &&
	    rank_did(r, coll_stream_wait_event(r->comm, NULL, event), "stream_wait_event") &&
	    rank_did(r, coll_event_record_on_stream(event, r->comm, NULL), "record_on_stream") &&
	    rank_did(r, coll_event_query(event), "an event of the thread is complete") &&
	    synced(r) && y != r->nranks)
		rank_fail(r, "the second sum is %d", y);
	rank_did(r, coll_event_destroy(event), "event_destroy");
}

static void run_split(struct rank *r)
{
	coll_comm_t half, twin;
	int32_t n, me, x = 1, y = 1, expected = (r->nranks + 1 - r->rank % 2) / 2;

	/* Splits odd from even ranks, in reverse order. */
	if (!rank_did(r, coll_comm_split(r->comm, r->rank % 2, -r->rank, &half, NULL), "split") ||
	    !rank_did(r, coll_comm_count(half, &n), "count") ||
	    !rank_did(r, coll_comm_user_rank(half, &me), "user_rank"))
		return;
	if (n != expected || me != expected - 1 - r->rank / 2)
		rank_fail(r, "rank %d of %d in its half", me, n);
	if (!rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, half, NULL),
		      "allreduce") ||
	    !rank_did(r, coll_sync(half), "sync") ||
	    !rank_did(r, coll_comm_dup(r->comm, &twin), "dup") ||
	    !rank_did(r, coll_allreduce(&y, &y, 1, COLL_INT32, COLL_SUM, twin, NULL),
		      "allreduce") ||
	    !rank_did(r, coll_sync(twin), "sync"))
		return;
	if (x != expected || y != r->nranks)
		rank_fail(r, "sums are %d and %d", x, y);
	rank_did(r, coll_comm_destroy(half), "destroy");
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

static void run_split_nocolor(struct rank *r)
{
	coll_comm_t part = r->comm;
	int color = r->rank ? 5 : COLL_SPLIT_NOCOLOR;

	if (!rank_did(r, coll_comm_split(r->comm, color, 0, &part, NULL), "split"))
		return;
	if ((part == NULL) != (r->rank == 0))
		rank_fail(r, "rank %d has communicator %p", r->rank, (void *)part);
	if (part)
		rank_did(r, coll_comm_destroy(part), "destroy");
}

/* ------------------------------------------------------------------------- main -- */

static const struct {
	const char *name;
	void (*fn)(struct rank *r);
} runs[] = {
	{"a ring of messages of every size", run_ring},
	{"ping-pong without a group", run_ping_pong},
	{"tags choose, order within a tag is kept", run_tags},
	{"receive from any source", run_any_source},
	{"messages to oneself", run_self},
	{"groups of a receive and a send", run_pairs},
	{"all pairs beside a collective in one group", run_all_pairs},
	{"requests: test and wait", run_requests},
	{"a persistent request", run_persistent},
	{"events", run_events},
	{"split by colour and key, dup", run_split},
	{"split without colour", run_split_nocolor},
};

static void test_backend(const char *backend)
{
	static const int nranks[] = {1, 2, 3, 5, 9};

	for (int n = 0; n < 5; n++)
		for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
			struct ranks_job job = {.backend = backend,
						.nranks = nranks[n],
						.processes = strcmp(backend, "simulated") &&
							     nranks[n] == 3,
						.fn = runs[i].fn};

			ranks_ok(&job, "%s", runs[i].name);
		}
}

int main(void)
{
	alarm(1800);
	test_backend("simulated");
	test_backend("tcp");
	if (ranks_can("ucx"))
		test_backend("ucx");
	return done_testing();
}
