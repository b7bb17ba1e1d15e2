/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_test.c - backends without a transport that take host memory: the backend does some calls, and the companion's
 * transport does the others.  Calls that use each other's results follow one another without a wait.  Runs over ucc if UCC is
 * installed, and over two stand-ins, one of them with events.
 */
#include "../lib/ranks.h"

enum { ROUNDS = 100, WORDS = 2000 };

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

/* --------------------------------------------------------------------------- requests -- */

static coll_request_t order_request(struct rank *r, int32_t kind, const void *in, void *out, int op)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = kind,
				  .dtype = COLL_INT64,
				  .op = op,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = 1};
	coll_request_t request = NULL;

	rank_did(r, coll_request_init(r->comm, &args, &request), "request_init");
	return request;
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

static const struct order_case {
	const char *name;
	void (*fn)(struct rank *r);
} cases[] = {
	{"sums by the backend and scans by the companion", order_sums_and_scans},
	{"a ring of messages between sums", order_ring},
	{"groups of messages and sums", order_groups},
	{"persistent requests", order_requests},
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
