/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_queue.c - events that are a position in a communicator's queue, or an event of the CUDA driver on a
 * stream of the program.
 */
#include "api/event.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/handle.h"
#include "comm/lane.h"
#include "comm/queue.h"
#include "watch/stall.h"
#include "compose/stream_order.h"
#include "comm/comm_wait.h"

enum { EVENT_QUEUE_POLL_US = 50 };

static int event_queue_make(struct event *e, struct comm *comm)
{
	(void)e;
	(void)comm;
	return COLL_SUCCESS;
}

static int event_queue_check(const struct event *e, const struct comm *comm)
{
	(void)e;
	(void)comm;
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- positions -- */

void event_note(struct event *e, const struct comm *comm)
{
	struct outcome *before = e->outcome;

	stream_event_unref(e->stream_event);
	e->stream_event = NULL;
	outcome_unref(e->host_outcome);
	e->host_outcome = NULL;
	e->outcome = comm ? outcome_ref(comm->outcome) : NULL;
	e->number = comm ? comm->issued : 0;
	if (comm && comm->error)
		e->number = OUTCOME_NEVER;
	outcome_unref(before);
}

struct outcome *event_outcome_of(struct event *e, uint64_t *number)
{
	struct outcome *outcome;

	pthread_mutex_lock(&e->lock);
	outcome = outcome_ref(e->outcome);
	*number = e->number;
	pthread_mutex_unlock(&e->lock);
	return outcome;
}

int event_outcome(const struct outcome *outcome, int lane, uint64_t number, int wait)
{
	int code = outcome_result(outcome, lane, number);

	while (wait && code == COLL_IN_PROGRESS) {
		clock_nap(100);
		code = outcome_result(outcome, lane, number);
	}
	return code;
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
	e->stream_event = event;
	e->timeout_us = comm->timeout_us;
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

/*
 * Takes a reference to the position: *stream, or the outcome and its number, or none of them.  The event must be
 * one of both; COLL_ERR_NO_MEMORY.
 */
static int event_queue_take(struct event *e, struct stream_event **stream, struct outcome **outcome,
			    uint64_t *number)
{
	int has;

	pthread_mutex_lock(&e->lock);
	has = e->stream_event != NULL;
	*stream = has ? stream_event_ref(e->stream_event) : NULL;
	*outcome = outcome_ref(e->outcome);
	*number = e->number;
	pthread_mutex_unlock(&e->lock);
	return has && !*stream ? error_set(COLL_ERR_NO_MEMORY, "no memory for an event")
			       : COLL_SUCCESS;
}

/* ------------------------------------------------------------------------ waiting -- */

int event_await(struct comm *comm, struct stream_event *stream, struct outcome *outcome, int lane,
		uint64_t number)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	const struct call call = call_of_library(comm, &args);
	struct op *op;
	const int code = op_make(comm, &call, &op);

	if (code) {
		outcome_unref(outcome);
		stream_event_unref(stream);
		return code;
	}
	op->awaited = outcome;
	op->awaited_lane = lane;
	op->awaited_number = number;
	op_enqueue(op, 0);
	op->stream_events = stream;
	queue_issued(comm);
	return COLL_SUCCESS;
}

/* Nothing is to be waited for in the same queue. */
static int event_queue_wait(struct event *e, struct comm *comm, coll_stream_t unused)
{
	int code = comm_error(comm);
	struct stream_event *stream = NULL;
	struct outcome *recorded = NULL;
	uint64_t number;

	(void)unused;
	if (!code)
		code = event_queue_take(e, &stream, &recorded, &number);
	if (code || (!stream && (!recorded || recorded == comm->outcome))) {
		outcome_unref(recorded);
		return code;
	}
	return event_await(comm, stream, recorded, LANE_FIRST, number);
}

int event_hold_for(const struct outcome *outcome, int lane, const struct caller_stream *stream,
		   uint64_t number)
{
	struct comm *comm = handle_pin(HANDLE_COMM, outcome->comm);
	int code = COLL_SUCCESS;

	if (!comm)
		return event_outcome(outcome, lane, number, 1);
	comm = lane_at(comm, lane);
	context_enter(comm->context);
	comm_check_aborted(comm, number);
	if (comm->finished < number)
		code = comm_error(comm);
	if (comm->finished < number && !code)
		code = stream_order_wait(comm, "coll_stream_wait_event", stream, number);
	if (comm->finished < number && !code)
		lane_note_held(comm, number);
	comm_leave(comm);
	return code;
}

static int event_queue_hold(struct event *e, const struct caller_stream *stream)
{
	struct stream_event *event;
	struct outcome *outcome;
	uint64_t number;
	int code = event_queue_take(e, &event, &outcome, &number);

	if (!code && event)
		code = caller_stream_check("coll_stream_wait_event", stream);
	if (!code && event)
		code = stream_event_wait(event, "coll_stream_wait_event", stream);
	else if (!code && outcome)
		code = event_hold_for(outcome, LANE_FIRST, stream, number);
	stream_event_unref(event);
	outcome_unref(outcome);
	return code;
}

/* ------------------------------------------------------------------------ polling -- */

int event_poll_comm(struct comm *comm, uint64_t number, int wait)
{
	int code = COLL_IN_PROGRESS;

	context_enter(comm->context);
	context_progress(comm->context);
	if (comm->finished < number && wait)
		code = comm_wait(comm, number);
	else if (comm->finished < number)
		stall_poll(comm);
	if (comm->finished >= number)
		code = COLL_SUCCESS;
	else if (comm->error)
		code = comm_error(comm);
	comm_leave(comm);
	return code;
}

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
	struct stream_event *event;
	int64_t timeout_us;
	struct outcome *outcome;
	struct comm *comm;
	uint64_t number;
	int code = event_queue_take(e, &event, &outcome, &number);

	pthread_mutex_lock(&e->lock);
	timeout_us = e->timeout_us;
	pthread_mutex_unlock(&e->lock);
	handle_unpin(handle);
	if (!code && event)
		code = event_queue_poll_stream(event, timeout_us, wait);
	stream_event_unref(event);
	if (code || !outcome) {
		outcome_unref(outcome);
		return code;
	}
	comm = handle_pin(HANDLE_COMM, outcome->comm);
	code = comm ? event_poll_comm(comm, number, wait)
		    : event_outcome(outcome, LANE_FIRST, number, wait);
	outcome_unref(outcome);
	return code;
}

static void event_queue_free(struct event *e)
{
	(void)e;
}

const struct event_impl event_queue = {
	.make = event_queue_make,
	.check = event_queue_check,
	.record = event_queue_record,
	.wait = event_queue_wait,
	.hold = event_queue_hold,
	.poll = event_queue_poll,
	.free = event_queue_free,
};
