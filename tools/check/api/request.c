/* SPDX-License-Identifier: BSD-3-Clause */
/* request.c - requests: when the operation is complete, waits for one of several requests, limits of time. */
#include "check/api/api.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include "lib/tool.h"

static int request_is(struct api_rank *r, int32_t x, const char *when)
{
	return x == r->nranks || api_fail(r, "%s the sum of ones is %d", when, x);
}

static int request_poll(struct api_rank *r, coll_request_t request)
{
	int64_t deadline = tool_now_ms() + r->c->timeout_ms;
	int32_t done = 0;

	while (!done) {
		if (!api_did(r, coll_test(request, &done), "coll_test"))
			return 0;
		if (!done && tool_now_ms() > deadline)
			return api_fail(r, "coll_test never reports the request as complete");
		sched_yield();
	}
	return 1;
}

/* Freeing a request does not end its operation; the library refuses to start a running request. */
static void request_states(struct api_rank *r)
{
	int32_t *x = api_buffer(r, sizeof(*x)), late = r->rank == r->nranks - 1;
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT32,
			    .sendbuf = x,
			    .recvbuf = x,
			    .count = 1};
	coll_request_t request;
	int32_t done = 1;

	*x = 1;
	if (!api_did(r, coll_request_init(r->comm, &args, &request), "coll_request_init") ||
	    (late && !api_await(r, 0, r->nranks - 1)) ||
	    !api_did(r, coll_request_start(request), "coll_request_start"))
		return;
	if (!late) {
		if (!api_did(r, coll_test(request, &done), "coll_test") ||
		    !api_answered(r, coll_request_start(request), COLL_ERR_INVALID_USAGE, NULL,
				  "starting a request under way"))
			return;
		if (done)
			api_fail(r, "coll_test reports the request as complete before the last "
				    "rank has begun");
	}
	atomic_fetch_add(&r->c->shared->number[0], 1);
	if (api_did(r, coll_request_free(request), "coll_request_free while under way") &&
	    api_did(r, coll_sync(r->comm), "coll_sync"))
		request_is(r, *x, "after the request was freed");
}

static int request_restart(struct api_rank *r, struct api_call *call)
{
	coll_request_t request;
	coll_result_t code = coll_request_init(r->comm, &call->o.args, &request);
	int good = 1;

	if (api_pass_over(r, code))
		return 1;
	if (!api_did(r, code, "coll_request_init"))
		return 0;
	for (int i = 0; i < 15 && good; i++) {
		if (oracle_call_again(&call->o))
			return api_fail(r, "the kit has no memory");
		api_call_fill(call);
		good = api_did(r, coll_request_start(request), "coll_request_start") &&
		       (i % 2 ? request_poll(r, request)
			      : api_did(r, coll_wait(request), "coll_wait")) &&
		       api_call_verify(call);
	}
	return api_did(r, coll_request_free(request), "coll_request_free") && good;
}

/* Prepares a request of every kind once and starts it many times. */
static void request_persistent(struct api_rank *r)
{
	struct api_call call;
	int good = 1;

	for (int k = 0; k < ORACLE_SLOTS && good; k++) {
		const int32_t kind = oracle_kinds[k];
		struct oracle_case c = {.kind = kind,
					.dtype = COLL_FLOAT32,
					.op = COLL_SUM,
					.root = kind % r->nranks,
					.place = kind % 2,
					.gaps = kind / 2 % 2,
					.count = (size_t)(kind % 3 * 700 + 5)};

		good = api_call_make(&call, r, &c) && request_restart(r, &call);
		api_call_free(&call);
	}
}

/* Several prepared requests run at once, sends and receives among them. */
static void request_several(struct api_rank *r)
{
	int32_t *out = api_buffer(r, sizeof(*out)), *in = api_buffer(r, sizeof(*in));
	int32_t *x = api_buffer(r, sizeof(*x)), left = (r->rank + r->nranks - 1) % r->nranks;
	coll_args_t args[3] = {
		{.kind = COLL_KIND_SEND, .root = (r->rank + 1) % r->nranks, .sendbuf = out},
		{.kind = COLL_KIND_RECV, .root = left, .recvbuf = in},
		{.kind = COLL_KIND_ALLREDUCE, .sendbuf = x, .recvbuf = x},
	};
	coll_request_t request[3];
	int good = 1;

	*out = r->rank;
	for (int i = 0; i < 3; i++) {
		args[i].size = sizeof(args[i]);
		args[i].dtype = COLL_INT32;
		args[i].count = 1;
		if (!api_did(r, coll_request_init(r->comm, &args[i], &request[i]),
			     "coll_request_init"))
			return;
	}
	for (int round = 0; round < 20 && good; round++) {
		*x = 1;
		*in = -1;
		coll_group_start();
		for (int i = 0; i < 3 && good; i++)
			good = api_did(r, coll_request_start(request[i]), "coll_request_start");
		good = api_did(r, coll_group_end(), "coll_group_end") && good;
		for (int i = 2; i >= 0 && good; i--)
			good = api_did(r, coll_wait(request[i]), "coll_wait");
		good = good && request_is(r, *x, "after coll_wait");
		if (good && *in != left)
			good = api_fail(r, "%d was received, not %d", *in, left);
	}
	for (int i = 0; i < 3; i++)
		api_did(r, coll_request_free(request[i]), "coll_request_free");
}

struct request_count {
	atomic_int calls, failures;
};

static void request_note(void *user, coll_result_t result)
{
	struct request_count *count = user;

	atomic_fetch_add(&count->failures, result != COLL_SUCCESS);
	atomic_fetch_add(&count->calls, 1);
}

/* Takes the requests in the order in which they end. */
static int request_take_any(struct api_rank *r, coll_request_t *request, int32_t **x)
{
	int32_t index = -1;

	if (!api_did(r, coll_wait_any(2, request, -1, &index), "coll_wait_any"))
		return 0;
	if (index < 0 || index > 1 || !request[index])
		return api_fail(r, "coll_wait_any gives index %d", index);
	if (!request_is(r, *x[index], "after coll_wait_any") ||
	    !api_did(r, coll_request_free(request[index]), "coll_request_free"))
		return 0;
	request[index] = NULL;
	return 1;
}

/* A thread sleeps until an operation of one of two communicators is complete. */
static void request_any(struct api_rank *r)
{
	enum { ROUNDS = 20 };
	coll_comm_t comm[2] = {r->comm, NULL};
	int32_t *x[2] = {api_buffer(r, sizeof(int32_t)), api_buffer(r, sizeof(int32_t))};
	struct request_count count = {0, 0};
	coll_request_t request[2];
	int good = api_did(r, coll_comm_dup(r->comm, &comm[1]), "coll_comm_dup");

	for (int round = 0; round < ROUNDS && good; round++) {
		for (int k = 0; k < 2 && good; k++) {
			const coll_args_t args = {.size = sizeof(args),
						  .kind = COLL_KIND_ALLREDUCE,
						  .dtype = COLL_INT32,
						  .sendbuf = x[k],
						  .recvbuf = x[k],
						  .count = 1};

			*x[k] = 1;
			good = api_did(r, coll_request_issue(comm[k], &args, &request[k]),
				       "coll_request_issue") &&
			       api_did(r,
				       coll_request_set_callback(request[k], request_note, &count),
				       "coll_request_set_callback");
		}
		if (round % 5 == r->rank % 5)
			api_sleep_ms(5);
		good = good && request_take_any(r, request, x) && request_take_any(r, request, x);
	}
	if (good && (count.calls != 2 * ROUNDS || count.failures))
		api_fail(r, "the program's function was called %d times, not %d, with %d errors",
			 count.calls, 2 * ROUNDS, count.failures);
	if (comm[1])
		api_did(r, coll_comm_destroy(comm[1]), "coll_comm_destroy");
}

/* An operation with a time limit ends, whatever its messages are doing. */
static void request_limited(struct api_rank *r)
{
	enum { COUNT = 300000 };
	float *x = api_buffer(r, COUNT * sizeof(*x));
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_FLOAT32,
				  .op = COLL_MAX,
				  .sendbuf = x,
				  .recvbuf = x,
				  .count = COUNT};
	coll_request_t request = NULL;
	coll_result_t code;

	if (!api_works(r) || !api_kit_barrier(r))
		return;
	if (r->rank != r->nranks - 1) {
		if (!api_did(r, coll_request_issue(r->comm, &args, &request),
			     "coll_request_issue") ||
		    !api_did(r, coll_request_set_timeout(request, 1000),
			     "coll_request_set_timeout"))
			return;
		code = coll_wait(request);
		if ((code != COLL_ERR_TIMEOUT && code != COLL_ERR_REMOTE) ||
		    (!strstr(coll_get_last_error(NULL), "limited its time") && !api_may_lack(r)))
			api_fail(r, "an operation of limited time ended with %d: %s", code,
				 code ? coll_get_last_error(NULL) : "");
		coll_request_free(request);
	}
	api_kit_barrier(r);
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan request_test_wait_plan = {.scenario = scenario_requests};
static const struct api_plan request_states_plan = {.rank = request_states};
static const struct api_plan request_persistent_plan = {.rank = request_persistent};
static const struct api_plan request_several_plan = {.rank = request_several};
static const struct api_plan request_any_plan = {.rank = request_any};
static const struct api_plan request_limited_plan = {.rank = request_limited, .flags = API_ROUGH};

const struct check check_api_request[] = {
	{"request-test-wait", "test and wait tell when an operation is complete",
	 "coll.h, coll_get_request", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &request_test_wait_plan},
	{"request-states", "a request under way is not started again; freed, it goes on",
	 "coll.h, coll_request_init", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS,
	 .ranks_min = 2, .run = api_run, .plan = &request_states_plan},
	{"request-persistent", "every collective is prepared once and started many times",
	 "coll.h, coll_request_init", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &request_persistent_plan},
	{"request-several", "several prepared operations are under way at once",
	 "coll.h, coll_request_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &request_several_plan},
	{"request-any", "a thread waits for the first of two communicators, and is called back",
	 "coll.h, coll_wait_any", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &request_any_plan},
	{"request-limited", "an operation of limited time ends although a rank is silent",
	 "coll.h, coll_request_set_timeout", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_COUNTERS, .ranks_min = 2, .ranks_max = 3, .run = api_run,
	 .plan = &request_limited_plan},
	{.name = NULL},
};
