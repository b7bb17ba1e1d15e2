/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events: the work that must be complete when they are. */
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

/* Checks that an event does not complete before the work ahead of it, which the last rank starts late. */
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

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan event_order_plan = {.scenario = scenario_events};
static const struct api_plan event_not_early_plan = {.rank = event_not_early};
static const struct api_plan event_across_plan = {.rank = event_across};

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
	{.name = NULL},
};
