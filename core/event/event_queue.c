/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_queue.c - events that are a position in a communicator's queue, or an event of the CUDA driver on a
 * stream of the program.
 */
#include "event/event.h"
#include "event/lane_order.h"
#include "event/order_point.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/handle.h"
#include "compose/await.h"
#include "compose/stream_order.h"

enum { EVENT_QUEUE_POLL_US = 50 };

/* ---------------------------------------------------------------------- positions -- */

void event_drop(struct event_at *at)
{
	outcome_unref(at->outcome);
	stream_event_unref(at->stream);
	*at = (struct event_at){0};
}

/* An event that is recorded after the failure carries the failure. */
static uint64_t event_number(const struct lane *lane)
{
	return lane->error ? OUTCOME_NEVER : lane->issued;
}

void event_note(struct event *e, struct lane *lane)
{
	struct lane *host = lane ? lane_host(lane) : NULL;

	event_drop(&e->at);
	if (!lane)
		return;
	e->at.outcome = outcome_ref(lane->comm->outcome);
	e->at.number[LANE_FIRST] = event_number(lane);
	if (!host || !lane->comm->host_issued)
		return;
	context_enter(host->context);
	e->at.number[LANE_HOST] = event_number(host);
	context_leave(host->context);
}

int event_take(struct event *e, struct event_at *at)
{
	int failed;

	pthread_mutex_lock(&e->lock);
	*at = e->at;
	outcome_ref(at->outcome);
	at->stream = e->at.stream ? stream_event_ref(e->at.stream) : NULL;
	failed = e->at.stream && !at->stream;
	pthread_mutex_unlock(&e->lock);
	if (!failed)
		return COLL_SUCCESS;
	event_drop(at);
	return error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
}

/* ---------------------------------------------------------------------- recording -- */

/* Work that waits for the old position keeps a reference to the old event. */
static int event_queue_record_stream(struct event *e, struct lane *lane, coll_stream_t stream)
{
	const char *what = "coll_event_record_on_stream";
	struct stream_event *spare = NULL, *event = NULL;
	struct caller_stream found;
	int code = stream_order_find(lane, what, stream, NULL, &found);

	context_leave(lane->context); /* the driver may block the thread: see stream_order.h */
	if (!code)
		code = caller_stream_check(what, &found);
	if (!code)
		code = stream_event_record(&spare, what, &found, &event);
	stream_events_free(&spare);
	context_enter(lane->context);
	if (code)
		return code;
	pthread_mutex_lock(&e->lock);
	event_note(e, NULL);
	e->at.stream = event;
	e->at.timeout_us = lane->comm->timeout_us;
	pthread_mutex_unlock(&e->lock);
	return COLL_SUCCESS;
}

static int event_queue_record(struct event *e, struct lane *lane, coll_stream_t stream)
{
	if (stream)
		return event_queue_record_stream(e, lane, stream);
	pthread_mutex_lock(&e->lock);
	event_note(e, lane);
	pthread_mutex_unlock(&e->lock);
	return comm_error(lane);
}

/* ------------------------------------------------------------------------ waiting -- */

int event_wait_on_host(struct lane *lane, const struct event_at *at)
{
	const struct order_point first = event_point(at, LANE_FIRST),
				 host = event_point(at, LANE_HOST);
	int code = COLL_SUCCESS;

	if (lane_host(lane))
		code = lane_order_add(lane, &first, at->stream);
	if (!code && lane_host(lane))
		code = lane_order_add(lane, &host, NULL);
	return code;
}

/* An operation of the communicator waits for a lane of the event; a lane does not wait for itself. */
static int event_queue_await(struct lane *lane, struct event_at *at, int lane_index)
{
	const struct order_point point = event_point(at, lane_index);
	struct stream_event *stream = lane_index == LANE_FIRST ? at->stream : NULL;
	int code;

	if (!stream &&
	    (!point.number || (point.outcome == lane->comm->outcome && lane_index == lane->index)))
		return COLL_SUCCESS;
	outcome_ref(point.outcome);
	code = await_issue(lane, &point, stream);
	if (code)
		outcome_unref(point.outcome);
	else if (stream)
		at->stream = NULL; /* the operation has taken it over */
	return code;
}

static int event_queue_wait(struct event *e, struct lane *lane, coll_stream_t unused)
{
	struct event_at at;
	int code = comm_error(lane);

	(void)unused;
	if (!code)
		code = event_take(e, &at);
	if (code)
		return code;
	code = event_wait_on_host(lane, &at);
	for (int lane_index = LANE_FIRST; !code && lane_index < LANES; lane_index++)
		code = event_queue_await(lane, &at, lane_index);
	event_drop(&at);
	return code;
}

static int event_queue_hold(struct event *e, const struct caller_stream *stream)
{
	struct event_at at;
	int code = event_take(e, &at);

	if (!code && at.stream)
		code = caller_stream_check("coll_stream_wait_event", stream);
	if (!code && at.stream)
		code = stream_event_wait(at.stream, "coll_stream_wait_event", stream);
	for (int lane_index = LANE_FIRST; !code && lane_index < LANES; lane_index++) {
		const struct order_point point = event_point(&at, lane_index);

		if (point.number)
			code = order_point_hold(&point, NULL, stream);
	}
	event_drop(&at);
	return code;
}

/* ------------------------------------------------------------------------ polling -- */

static int event_queue_poll_stream(const struct stream_event *event, int64_t timeout_us, int wait)
{
	const int64_t end = clock_now_us() + timeout_us;
	int code = stream_event_query(event);

	while (wait && code == COLL_IN_PROGRESS && clock_now_us() < end) {
		clock_nap(EVENT_QUEUE_POLL_US);
		code = stream_event_query(event);
	}
	if (wait && code == COLL_IN_PROGRESS)
		return error_set(
			COLL_ERR_TIMEOUT,
			"timed out: the event's stream has not reached the event after %.3g s",
			(double)timeout_us / 1e6);
	return code;
}

static int event_queue_poll(coll_event_t handle, struct event *e, int wait)
{
	struct event_at at;
	int code = event_take(e, &at);

	handle_unpin(handle);
	if (!code && at.stream)
		code = event_queue_poll_stream(at.stream, at.timeout_us, wait);
	for (int lane_index = LANE_FIRST; !code && at.outcome && lane_index < LANES; lane_index++) {
		const struct order_point point = event_point(&at, lane_index);

		if (lane_index == LANE_FIRST || point.number)
			code = order_point_result(&point, NULL, wait);
	}
	event_drop(&at);
	return code;
}

const struct event_impl event_queue = {
	.record = event_queue_record,
	.wait = event_queue_wait,
	.hold = event_queue_hold,
	.poll = event_queue_poll,
};
