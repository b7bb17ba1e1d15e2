/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendrecv_test.c - send and receive: rings, tags, order, any source, messages to the own rank,
 * groups of many calls; requests, persistent requests and events.
 */
#include "../lib/scenarios.h"

enum { TAG = 7, PAIR = 4093 };

/* Groups of a receive and a send: the send is the last to end now and then, and other groups have its memory after it. */
static void run_pairs(struct scenario_rank *s)
{
	unsigned char *x = scenario_buffer(s, PAIR), *y = scenario_buffer(s, PAIR);

	scenario_bytes_set(s, x, s->rank, 0, PAIR);
	for (int round = 0; round < 150; round++) {
		const int self = round % 3 == 1;
		const int to = self ? s->rank : (s->rank + 1) % s->nranks;
		const int from = self ? s->rank : (s->rank + s->nranks - 1) % s->nranks;

		coll_group_start();
		if (!scenario_did(s,
				  coll_recv(y, PAIR, COLL_UINT8, round % 2 ? COLL_ANY_SOURCE : from,
					    TAG, s->comm, NULL),
				  "recv") ||
		    !scenario_did(s, coll_send(x, PAIR, COLL_UINT8, to, TAG, s->comm, NULL),
				  "send") ||
		    !scenario_group_sync(s) || !scenario_did(s, coll_barrier(s->comm), "barrier") ||
		    !scenario_bytes_are(s, y, from, 0, PAIR))
			return;
	}
}

static void run_persistent(struct scenario_rank *s)
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

	if (!scenario_did(s, coll_request_init(s->comm, &args, &request), "request_init"))
		return;
	for (int i = 0; i < 20; i++) {
		x = s->rank + i;
		y = -1;
		if (!scenario_did(s, coll_request_start(request), "request_start") ||
		    !scenario_did(s, coll_wait(request), "wait"))
			return;
		if (y != s->nranks - 1 + i)
			scenario_fail(s, "start %d gave %g", i, y);
	}
	scenario_did(s, coll_request_free(request), "request_free");
}

static void run_split(struct scenario_rank *s)
{
	scenario_split(s);
	scenario_dup(s);
}

/* ------------------------------------------------------------------------- main -- */

static const struct {
	const char *name;
	scenario_fn fn;
} runs[] = {
	{"a ring of messages of every size", scenario_ring},
	{"ping-pong without a group", scenario_ping_pong},
	{"tags choose, order within a tag is kept", scenario_tags},
	{"messages of one tag and of several sizes stay in order", scenario_order},
	{"receive from any source", scenario_any_source},
	{"messages to oneself", scenario_self},
	{"groups of a receive and a send", run_pairs},
	{"all pairs beside a collective in one group", scenario_all_pairs},
	{"requests: test and wait", scenario_requests},
	{"a persistent request", run_persistent},
	{"events", scenario_events},
	{"split by colour and key, dup", run_split},
	{"split without colour", scenario_split_no_colour},
	{"a duplicate of a duplicate", scenario_dup_of_dup},
	{"two communicators in one group", scenario_two_comms},
};

static void test_backend(const char *backend)
{
	static const int nranks[] = {1, 2, 3, 5, 9};

	for (int n = 0; n < 5; n++)
		for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
			struct ranks_job job = {.backend = backend,
						.nranks = nranks[n],
						.processes = strcmp(backend, "simulated") &&
							     nranks[n] == 3};

			scenario_ok(&job, runs[i].fn, runs[i].name);
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
