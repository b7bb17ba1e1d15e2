/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_queue.c - events that are a position in a communicator's queue, or an event of the CUDA driver on a
 * stream of the program.
 */
#include "event/event.h"
#include "event/lane_order.h"
#include "event/place.h"
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
	*at = (struct event_at){NULL};
}

/* An event that is recorded after the failure carries the failure. */
static uint64_t event_number(const struct comm *lane)
{
	return lane->error ? OUTCOME_NEVER : lane->issued;
}

void event_note(struct event *e, struct comm *comm)
{
	struct comm *host = comm ? lane_host(comm) : NULL;

	event_drop(&e->at);
	if (!comm)
		return;
	e->at.outcome = outcome_ref(comm->outcome);
	e->at.number[LANE_FIRST] = event_number(comm);
	if (!host || !comm->lanes->host_issued)
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
static int event_queue_record_stream(struct event *e, struct comm *comm, coll_stream_t stream)
{
	const char *what = "coll_event_record_on_stream";
	struct stream_event *spare = NULL, *event = NULL;
	struct caller_stream found;
	int code = stream_order_find(comm, what, stream, NULL, &found);

	context_leave(comm->context); /* the driver may block the thread: see stream_order.h */
	if (!code)
		code = caller_stream_check(what, &found);
	if (!code)
		code = stream_event_record(&spare, what, &found, &event);
	stream_events_free(&spare);
	context_enter(comm->context);
	if (code)
		return code;
	pthread_mutex_lock(&e->lock);
	event_note(e, NULL);
	e->at.stream = event;
	e->at.timeout_us = comm->timeout_us;
	pthread_mutex_unlock(&e->lock);
	return COLL_SUCCESS;
}

static int event_queue_record(struct event *e, struct comm *comm, coll_stream_t stream)
{
	if (stream)
		return event_queue_record_stream(e, comm, stream);
	pthread_mutex_lock(&e->lock);
	event_note(e, comm);
	pthread_mutex_unlock(&e->lock);
	return comm_error(comm);
}

/* ------------------------------------------------------------------------ waiting -- */

int event_wait_on_host(struct comm *comm, const struct event_at *at)
{
	const struct place first = event_place(at, LANE_FIRST), host = event_place(at, LANE_HOST);
	int code = COLL_SUCCESS;

	if (lane_host(comm))
		code = lane_order_add(comm, &first, at->stream);
	if (!code && lane_host(comm))
		code = lane_order_add(comm, &host, NULL);
	return code;
}

/* An operation of the communicator waits for a lane of the event; a lane does not wait for itself. */
static int event_queue_await(struct comm *comm, struct event_at *at, int lane)
{
	const struct place place = event_place(at, lane);
	struct stream_event *stream = lane == LANE_FIRST ? at->stream : NULL;

	if (!stream && (!place.number || (place.outcome == comm->outcome && lane == comm->lane)))
		return COLL_SUCCESS;
	if (stream)
		at->stream = NULL; /* the operation takes it over */
	outcome_ref(place.outcome);
	return await_issue(comm, &place, stream);
}

static int event_queue_wait(struct event *e, struct comm *comm, coll_stream_t unused)
{
	struct event_at at;
	int code = comm_error(comm);

	(void)unused;
	if (!code)
		code = event_take(e, &at);
	if (code)
		return code;
	code = event_wait_on_host(comm, &at);
	for (int lane = LANE_FIRST; !code && lane < LANES; lane++)
		code = event_queue_await(comm, &at, lane);
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
	for (int lane = LANE_FIRST; !code && lane < LANES; lane++) {
		const struct place place = event_place(&at, lane);

		if (place.number)
			code = place_hold(&place, NULL, stream);
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
	for (int lane = LANE_FIRST; !code && at.outcome && lane < LANES; lane++) {
		const struct place place = event_place(&at, lane);

		if (lane == LANE_FIRST || place.number)
			code = place_result(&place, NULL, wait);
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
