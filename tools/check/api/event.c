/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events and requests: which work must be complete when they are. */
#include "check/api/api.h"
#include <sched.h>
#include "lib/tool.h"

static int event_sum(struct api_rank *r, int32_t *x)
{
	return api_did(r, coll_allreduce(x, x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
		       "coll_allreduce");
}

static int event_is(struct api_rank *r, int32_t x, const char *when)
{
	return x == r->nranks || api_fail(r, "%s the sum of ones is %d", when, x);
}

/* ------------------------------------------------------------------------ events -- */

static int event_positions(struct api_rank *r, coll_event_t event)
{
	int32_t *x = api_buffer(r, sizeof(*x)), *y = api_buffer(r, sizeof(*y));
	coll_result_t state;

	*x = *y = 1;
	if (!api_did(r, coll_event_query(event), "coll_event_query of one never recorded") ||
	    !event_sum(r, x) ||
	    !api_did(r, coll_event_record(event, r->comm), "coll_event_record") || !event_sum(r, y))
		return 0;
	state = coll_event_query(event);
	if (state != COLL_SUCCESS && state != COLL_IN_PROGRESS)
		return api_did(r, state, "coll_event_query");
	if (!api_did(r, coll_event_synchronize(event), "coll_event_synchronize") ||
	    !event_is(r, *x, "after coll_event_synchronize") ||
	    !api_did(r, coll_event_query(event), "coll_event_query after synchronize"))
		return 0;
	return api_did(r, coll_comm_wait_event(r->comm, event), "coll_comm_wait_event") &&
	       api_did(r, coll_stream_wait_event(r->comm, NULL, event), "coll_stream_wait_event") &&
	       api_did(r, coll_event_record_on_stream(event, r->comm, NULL),
		       "coll_event_record_on_stream") &&
	       api_did(r, coll_event_query(event), "coll_event_query of one of this thread") &&
	       api_did(r, coll_sync(r->comm), "coll_sync") && event_is(r, *y, "after coll_sync");
}

static void event_order(struct api_rank *r)
{
	coll_event_t event;

	if (!api_did(r, coll_event_create(r->comm, &event), "coll_event_create"))
		return;
	for (int i = 0; i < 10; i++)
		if (!event_positions(r, event))
			break;
	api_did(r, coll_event_destroy(event), "coll_event_destroy");
}

/* An event must not complete before the work ahead of it; the last rank starts that work late. */
static int event_late(struct api_rank *r, coll_event_t event)
{
	int32_t *x = api_buffer(r, sizeof(*x));
	int late = r->rank == r->nranks - 1;

	*x = 1;
	if (late && !api_await(r, 0, r->nranks - 1))
		return 0;
	if (!event_sum(r, x) || !api_did(r, coll_event_record(event, r->comm), "coll_event_record"))
		return 0;
	if (!late && coll_event_query(event) != COLL_IN_PROGRESS)
		return api_fail(r, "an event is complete before the work ahead of it");
	atomic_fetch_add(&r->c->shared->number[0], 1);
	/* Without a stream the calling thread itself waits for the event. */
	return api_did(r, coll_stream_wait_event(r->comm, NULL, event), "coll_stream_wait_event") &&
	       event_is(r, *x, "after coll_stream_wait_event");
}

static void event_not_early(struct api_rank *r)
{
	coll_event_t event;

	/*
	 * The first call of a vendor's engine may block, because the engine connects to its peers.
	 */
	if ((api_may_lack(r) && !api_works(r)) ||
	    !api_did(r, coll_event_create(r->comm, &event), "coll_event_create"))
		return;
	event_late(r, event);
	api_did(r, coll_event_destroy(event), "coll_event_destroy");
}

/*
 * An operation issued after coll_comm_wait_event reads the result of the other communicator's
 * operation.
 */
static int event_chain(struct api_rank *r, coll_comm_t other, coll_event_t event)
{
	int32_t *x = api_buffer(r, sizeof(*x)), *y = api_buffer(r, sizeof(*y));

	*x = 1;
	if (!event_sum(r, x) ||
	    !api_did(r, coll_event_record(event, r->comm), "coll_event_record") ||
	    !api_did(r, coll_comm_wait_event(other, event), "coll_comm_wait_event") ||
	    !api_did(r, coll_allreduce(x, y, 1, COLL_INT32, COLL_MAX, other, NULL),
		     "coll_allreduce") ||
	    !api_did(r, coll_sync(other), "coll_sync"))
		return 0;
	return event_is(r, *y, "on the communicator that waited") &&
	       api_did(r, coll_sync(r->comm), "coll_sync");
}

static void event_across(struct api_rank *r)
{
	coll_event_t event;
	coll_comm_t other;

	if (!api_did(r, coll_comm_dup(r->comm, &other), "coll_comm_dup"))
		return;
	if (api_did(r, coll_event_create(r->comm, &event), "coll_event_create")) {
		for (int i = 0; i < 20; i++)
			if (!event_chain(r, other, event))
				break;
		api_did(r, coll_event_destroy(event), "coll_event_destroy");
	}
	api_did(r, coll_comm_destroy(other), "coll_comm_destroy");
}

/* ---------------------------------------------------------------------- requests -- */

static int event_poll(struct api_rank *r, coll_request_t request)
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

static void event_requests(struct api_rank *r)
{
	int32_t *x = api_buffer(r, 2 * sizeof(*x));
	coll_request_t request[2];

	for (int i = 0; i < 20; i++) {
		x[0] = x[1] = 1;
		if (!event_sum(r, &x[0]) ||
		    !api_did(r, coll_get_request(r->comm, &request[0]), "coll_get_request"))
			return;
		if (!event_sum(r, &x[1]) ||
		    !api_did(r, coll_get_request(r->comm, &request[1]), "coll_get_request"))
			return;
		if (!event_poll(r, request[0]) || !event_is(r, x[0], "after coll_test") ||
		    !api_did(r, coll_wait(request[1]), "coll_wait") ||
		    !event_is(r, x[1], "after coll_wait") ||
		    !api_did(r, coll_wait(request[0]), "coll_wait on a complete request"))
			return;
		for (int k = 0; k < 2; k++)
			if (!api_did(r, coll_request_free(request[k]), "coll_request_free"))
				return;
	}
}

/* Freeing a request does not end its operation; the library refuses to start a running request. */
static void event_request_states(struct api_rank *r)
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
		event_is(r, *x, "after the request was freed");
}

static int event_restart(struct api_rank *r, struct api_call *call)
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
		       (i % 2 ? event_poll(r, request)
			      : api_did(r, coll_wait(request), "coll_wait")) &&
		       api_call_verify(call);
	}
	return api_did(r, coll_request_free(request), "coll_request_free") && good;
}

/* Prepares a request of every kind once and starts it many times. */
static void event_persistent(struct api_rank *r)
{
	struct api_call call;
	int good = 1;

	for (int32_t kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_SCATTERV && good; kind++) {
		struct oracle_case c = {.kind = kind,
					.dtype = COLL_FLOAT32,
					.op = COLL_SUM,
					.root = kind % r->nranks,
					.place = kind % 2,
					.gaps = kind / 2 % 2,
					.count = (size_t)(kind % 3 * 700 + 5)};

		good = api_call_make(&call, r, &c) && event_restart(r, &call);
		api_call_free(&call);
	}
}

/* Several prepared requests run at once, sends and receives among them. */
static void event_several(struct api_rank *r)
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
		good = good && event_is(r, *x, "after coll_wait");
		if (good && *in != left)
			good = api_fail(r, "%d was received, not %d", *in, left);
	}
	for (int i = 0; i < 3; i++)
		api_did(r, coll_request_free(request[i]), "coll_request_free");
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan event_order_plan = {.rank = event_order};
static const struct api_plan event_not_early_plan = {.rank = event_not_early};
static const struct api_plan event_across_plan = {.rank = event_across};
static const struct api_plan event_requests_plan = {.rank = event_requests};
static const struct api_plan event_request_states_plan = {.rank = event_request_states};
static const struct api_plan event_persistent_plan = {.rank = event_persistent};
static const struct api_plan event_several_plan = {.rank = event_several};

const struct check check_api_event[] = {
	{"event-order", "an event is complete after the work before it",
	 "coll.h, coll_event_create", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &event_order_plan},
	{"event-not-early", "an event is not complete before the work ahead of it",
	 "coll.h, coll_event_create", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS,
	 .ranks_min = 2, .run = api_run, .plan = &event_not_early_plan},
	{"event-across", "a communicator waits for an event of another one",
	 "coll.h, coll_comm_wait_event", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &event_across_plan},
	{"request-test-wait", "test and wait tell when an operation is complete",
	 "coll.h, coll_get_request", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &event_requests_plan},
	{"request-states", "a request under way is not started again; freed, it goes on",
	 "coll.h, coll_request_init", CHECK_API, .ways = CHECK_EITHER, .needs = CHECK_COUNTERS,
	 .ranks_min = 2, .run = api_run, .plan = &event_request_states_plan},
	{"request-persistent", "every collective is prepared once and started many times",
	 "coll.h, coll_request_init", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &event_persistent_plan},
	{"request-several", "several prepared operations are under way at once",
	 "coll.h, coll_request_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &event_several_plan},
	{.name = NULL},
};
