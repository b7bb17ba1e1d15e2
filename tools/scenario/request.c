/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests: test and wait, and the fields of a call that is a request. */
#include "scenario/scenario.h"
#include <sched.h>
#include <time.h>

enum { REQUEST_SECONDS = 60 };

static int request_is(struct scenario_rank *r, const int32_t *x, const char *when)
{
	const int32_t sum = scenario_get(r, x);

	return sum == r->nranks || scenario_fail(r, "%s the sum of ones is %d", when, sum);
}

static int request_poll(struct scenario_rank *r, coll_request_t request)
{
	const time_t deadline = time(NULL) + REQUEST_SECONDS;
	int32_t done = 0;

	while (!done) {
		if (!scenario_did(r, coll_test(request, &done), "coll_test"))
			return 0;
		if (!done && time(NULL) > deadline)
			return scenario_fail(r, "coll_test never reports the request as complete");
		sched_yield();
	}
	return 1;
}

/* Issues two sums, and waits for the first by test and for the second by wait. */
static int request_two(struct scenario_rank *r, int32_t *const *x)
{
	coll_request_t request[2];

	for (int k = 0; k < 2; k++) {
		scenario_set(r, x[k], 1);
		if (!scenario_sum(r, r->comm, x[k]) ||
		    !scenario_did(r, coll_get_request(r->comm, &request[k]), "coll_get_request"))
			return 0;
	}
	if (!request_poll(r, request[0]) || !request_is(r, x[0], "after coll_test") ||
	    !scenario_did(r, coll_wait(request[1]), "coll_wait") ||
	    !request_is(r, x[1], "after coll_wait") ||
	    !scenario_did(r, coll_wait(request[0]), "coll_wait on a complete request"))
		return 0;
	return scenario_did(r, coll_request_free(request[0]), "coll_request_free") &&
	       scenario_did(r, coll_request_free(request[1]), "coll_request_free");
}

void scenario_requests(struct scenario_rank *r)
{
	int32_t *const x[2] = {scenario_buffer(r, sizeof(int32_t)),
			       scenario_buffer(r, sizeof(int32_t))};

	for (int i = 0; i < 20; i++)
		if (!request_two(r, x))
			return;
}

void scenario_barrier_fields(struct scenario_rank *r)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_BARRIER,
				  .dtype = COLL_OPAQUE + 24,
				  .op = COLL_AVG,
				  .root = 7,
				  .tag = 9,
				  .sendbuf = &args,
				  .recvbuf = r,
				  .count = 5};
	coll_request_t request = NULL;

	if (r->rank)
		scenario_did(r, coll_barrier(r->comm), "coll_barrier");
	else if (scenario_did(r, coll_request_issue(r->comm, &args, &request),
			      "coll_request_issue") &&
		 scenario_did(r, coll_wait(request), "coll_wait"))
		scenario_did(r, coll_request_free(request), "coll_request_free");
}
