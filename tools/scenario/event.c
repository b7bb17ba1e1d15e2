/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events: the work that must be complete when they are. */
#include "scenario/scenario.h"

static int event_is(struct scenario_rank *r, const int32_t *x, const char *when)
{
	const int32_t sum = scenario_get(r, x);

	return sum == r->nranks || scenario_fail(r, "%s the sum of ones is %d", when, sum);
}

/* Records the event between two sums. */
static int event_between(struct scenario_rank *r, coll_event_t event, int32_t *x, int32_t *y)
{
	coll_result_t state;

	scenario_set(r, x, 1);
	scenario_set(r, y, 1);
	if (!scenario_did(r, coll_event_query(event), "coll_event_query before it is recorded") ||
	    !scenario_sum(r, r->comm, x) ||
	    !scenario_did(r, coll_event_record(event, r->comm), "coll_event_record") ||
	    !scenario_sum(r, r->comm, y))
		return 0;
	state = coll_event_query(event);
	if (state != COLL_SUCCESS && state != COLL_IN_PROGRESS)
		return scenario_did(r, state, "coll_event_query");
	return scenario_did(r, coll_event_synchronize(event), "coll_event_synchronize") &&
	       event_is(r, x, "after coll_event_synchronize") &&
	       scenario_did(r, coll_event_query(event), "coll_event_query after synchronize");
}

void scenario_events(struct scenario_rank *r)
{
	int32_t *x = scenario_buffer(r, sizeof(*x)), *y = scenario_buffer(r, sizeof(*y));
	coll_event_t event;
	int good = scenario_did(r, coll_event_create(r->comm, &event), "coll_event_create");

	if (!good)
		return;
	for (int i = 0; i < 10 && good; i++)
		good = event_between(r, event, x, y) &&
		       scenario_did(r, coll_comm_wait_event(r->comm, event),
				    "coll_comm_wait_event") &&
		       scenario_did(r, coll_stream_wait_event(r->comm, NULL, event),
				    "coll_stream_wait_event") &&
		       scenario_did(r, coll_event_record_on_stream(event, r->comm, NULL),
				    "coll_event_record_on_stream") &&
		       scenario_did(r, coll_event_query(event),
				    "coll_event_query of one of this thread") &&
		       scenario_sync(r) && event_is(r, y, "after coll_sync");
	scenario_did(r, coll_event_destroy(event), "coll_event_destroy");
}
