/* SPDX-License-Identifier: BSD-3-Clause */
/* event_stream.c - events that are objects of a backend with device streams. */
#include "event/event.h"
#include "event/lane_order.h"
#include "event/order_point.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/handle.h"
#include "native/native.h"
#include "comm/lane.h"
#include "comm/queue.h"
#include "watch/stall.h"
#include "comm/comm_wait.h"
#include "transport/traffic.h"

/* A waiting thread polls the event so often before it sleeps inside the backend. */
enum { EVENT_STREAM_POLLS = 64 };

/* A thread that waits for a stream of the program sees to the other ranks so often. */
enum { EVENT_STREAM_SLICE_US = 50000 };

static const coll_native_t *event_stream_slots(const struct event *e)
{
	return e->context->plugin->backend.native;
}

static int event_stream_make(struct event *e, struct lane *lane)
{
	struct context *context = lane->context;
	coll_error_t err;
	int code;

	error_clear(&err);
	code = context->plugin->backend.native->event_create(context->ep, &e->native, &err);
	if (code)
		return error_take(code, &err);
	e->context = context;
	context_ref(context);
	return COLL_SUCCESS;
}

/* Has the open group of this thread calls on host memory of the communicator? */
static int event_stream_host_is_deferred(const struct lane *lane)
{
	struct lane *host = lane_host(lane);
	int deferred;

	if (!host || !group_current())
		return 0;
	context_enter(host->context);
	deferred = lane_is_deferred(host, host->issued);
	context_leave(host->context);
	return deferred;
}

/* Hands all issued operations to the backend; an error if an open group defers some. */
static int event_stream_flush(struct lane *lane)
{
	int deferred = event_stream_host_is_deferred(lane);

	queue_run(lane);
	if (deferred || lane->queue.waiting)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "the communicator has operations that begin with "
				 "coll_group_end: use its events before or after the group");
	return comm_error(lane);
}

/*
 * For the host lane.  An event of a stream that is being captured is known to the backend only: calls on host memory do not
 * wait for it, as after an error.
 */
static int event_stream_record_host(struct event *e, struct lane *lane, coll_stream_t stream)
{
	const char *what = "coll_event_record_on_stream";
	struct stream_event *spare = NULL;
	struct caller_stream found;
	int code;

	if (!stream)
		native_want_marker(lane);
	if (!stream)
		return COLL_SUCCESS;
	code = caller_stream_find(what, stream, &lane->traffic->home, NULL, &found);
	if (!code)
		code = caller_stream_check_capture(what, &found);
	if (code == COLL_ERR_INVALID_USAGE)
		return COLL_SUCCESS;
	if (!code)
		code = stream_event_record(&spare, what, &found, &e->at.stream);
	stream_events_free(&spare);
	return code;
}

static int event_stream_record(struct event *e, struct lane *lane, coll_stream_t stream)
{
	coll_error_t err;
	int code = event_stream_flush(lane), host_code = COLL_SUCCESS;

	error_clear(&err);
	if (code && !lane->error)
		return code;
	pthread_mutex_lock(&e->lock);
	if (!code)
		code = event_stream_slots(e)->event_record(lane->context->ep, e->native, stream,
							   &err);
	if (!code) {
		e->on_stream = 1;
		event_note(e, stream ? NULL : lane);
		e->at.recorder = stream ? lane->comm->handle : NULL;
		if (lane_host(lane))
			host_code = event_stream_record_host(e, lane, stream);
	}
	pthread_mutex_unlock(&e->lock);
	if (!lane->error)
		code = native_refused(lane, code, &err);
	if (!lane->error)
		return code ? code : host_code;
	pthread_mutex_lock(&e->lock);
	e->on_stream = 0;
	event_note(e, lane);
	pthread_mutex_unlock(&e->lock);
	return comm_error(lane);
}

/* The communicator waits for operations that a destroyed communicator has dropped: it fails too. */
static int event_stream_check_outcome(const struct event_at *at, struct lane *lane)
{
	const int code = at->outcome
				 ? outcome_result(at->outcome, LANE_FIRST, at->number[LANE_FIRST])
				 : COLL_SUCCESS;
	struct rank_name name;

	if (code && code != COLL_IN_PROGRESS)
		comm_fail(lane, 0, code, "%s waits for an event of a communicator that failed: %s",
			  comm_own_name(lane, &name), at->outcome->text);
	return comm_error(lane);
}

/* Waits for the operations of a host lane; and the host lane of the communicator waits for the event. */
static int event_stream_wait_host(const struct event_at *at, struct lane *lane,
				  coll_stream_t stream)
{
	const struct order_point host = event_point(at, LANE_HOST);
	struct caller_stream found;
	int code = COLL_SUCCESS;

	if (host.number && stream)
		code = caller_stream_find("coll_stream_wait_event", stream, &lane->traffic->home,
					  NULL, &found);
	if (!code && host.number)
		code = stream ? order_point_hold(&host, lane, &found)
			      : lane_order_hold(lane, &host);
	return code || stream ? code : event_wait_on_host(lane, at);
}

static int event_stream_wait_at(struct event *e, const struct event_at *at, struct lane *lane,
				coll_stream_t stream)
{
	coll_error_t err;
	int code = event_stream_flush(lane);

	error_clear(&err);
	if (!code && !stream)
		code = event_stream_check_outcome(at, lane);
	if (!code && !stream)
		code = native_mark_wanted(lane);
	if (code)
		return code;
	pthread_mutex_lock(&e->lock);
	if (e->on_stream)
		code = event_stream_slots(e)->event_wait(lane->context->ep, e->native, stream,
							 &err);
	pthread_mutex_unlock(&e->lock);
	if (code)
		return native_refused(lane, code, &err);
	return lane_host(lane) ? event_stream_wait_host(at, lane, stream) : COLL_SUCCESS;
}

static int event_stream_wait(struct event *e, struct lane *lane, coll_stream_t stream)
{
	struct event_at at;
	int code = event_take(e, &at);

	if (code)
		return code;
	code = event_stream_wait_at(e, &at, lane, stream);
	event_drop(&at);
	return code;
}

/* lane: of the communicator that recorded the event, whose lock is held; NULL: the lock of the event's context is held. */
struct event_stream_query {
	struct event *event;
	struct event_at at;
	struct lane *lane;
	int rounds, code, late;
	int64_t busy_us;  /* of lane: the last time at which it had operations under way */
	int64_t begun_us; /* of a wait for a stream of the program; 0: it has not begun */
	int64_t timeout_us;
	char behind[512]; /* of a wait that has timed out: the ranks, as stall_name_behind */
	coll_error_t err;
};

/* The stream of a communicator without operations waits for streams of the program, for `timeout` at most. */
static void event_stream_look_at_time(struct event_stream_query *q)
{
	const int64_t now = clock_now_us();

	if (native_busy(q->lane))
		q->busy_us = now;
	q->late = now - q->busy_us >= q->lane->comm->timeout_us;
}

/* The backend's slots for an event take the endpoint that has made it. */
static int event_stream_complete(void *arg)
{
	struct event_stream_query *q = arg;
	struct event *e = q->event;
	struct context *own = e->context;
	const int other = q->lane && q->lane->context != own;
	coll_error_t err;

	error_clear(&err);
	if (other && !lock_try(&own->lock)) {
		q->code = COLL_IN_PROGRESS;
		return 0;
	}
	pthread_mutex_lock(&e->lock);
	q->code = e->on_stream ? event_stream_slots(e)->event_query(own->ep, e->native, &q->err)
			       : COLL_SUCCESS;
	/* The next query reports the same error. */
	if (q->code == COLL_IN_PROGRESS && q->rounds++ > EVENT_STREAM_POLLS)
		event_stream_slots(e)->event_synchronize(own->ep, e->native, 1, &err);
	pthread_mutex_unlock(&e->lock);
	if (other)
		lock_release(&own->lock);
	return q->code != COLL_IN_PROGRESS;
}

static int event_stream_is_over(void *arg)
{
	struct event_stream_query *q = arg;
	const struct lane *lane = q->lane;

	if (event_stream_complete(q) || lane->error || atomic_load(&lane->comm->aborted))
		return 1;
	if (q->rounds > EVENT_STREAM_POLLS)
		event_stream_look_at_time(q);
	return q->late;
}

/*
 * An event of a communicator: the wait is one for its operations.  The stream passes the event also after the backend has
 * dropped the operations before it, so the communicator tells how they ended.
 */
static void event_stream_poll_comm(struct event_stream_query *q, int wait)
{
	const uint64_t number = q->at.number[LANE_FIRST];
	struct lane *lane = q->lane;

	context_enter(lane->context);
	context_progress(lane->context);
	q->busy_us = clock_now_us();
	if (!event_stream_complete(q) && wait)
		(void)comm_wait_until(&(struct comm_wait){.lane = lane}, event_stream_is_over, q);
	else if (q->code == COLL_IN_PROGRESS)
		stall_poll(lane);
	if (q->code != COLL_IN_PROGRESS && lane->finished < number && native_may_be_aborted(lane))
		lane_check(lane);
	lane_check_aborted(lane, q->code == COLL_IN_PROGRESS ? UINT64_MAX : number);
	if (lane->error && (lane->finished < number || q->code == COLL_IN_PROGRESS)) {
		if (wait)
			lane_flush(lane);
		q->code = comm_error(lane);
	} else if (q->code && q->code != COLL_IN_PROGRESS) {
		error_take(q->code, &q->err);
	}
	comm_leave(lane);
}

/*
 * The stream has not come to the event, and the communicator has no operation: it waits for one on host memory, say a call
 * that stages device memory, or for a stream of the program.
 */
static int event_stream_is_held(struct event_stream_query *q)
{
	struct context *context = q->lane->context;
	int held;

	context_enter(context);
	context_progress(context);
	held = !event_stream_complete(q) && !native_busy(q->lane) && !q->lane->error;
	context_leave(context);
	return held;
}

/* How long the wait for a stream of the program may still last. */
static int64_t event_stream_left(struct event_stream_query *q)
{
	const int64_t now = clock_now_us();
	int64_t left;

	if (!q->begun_us)
		q->begun_us = now;
	if (q->lane) /* the program may have changed it */
		q->timeout_us = q->lane->comm->timeout_us;
	left = q->timeout_us - (now - q->begun_us);
	return left > 0 ? left : 0;
}

static int event_stream_leaves_comm(void *arg)
{
	const struct event_stream_query *q = arg;

	return event_stream_complete(arg) || atomic_load(&q->lane->comm->aborted);
}

/*
 * An event of a stream of the program, which tells how far the stream is.  It may wait for operations of the communicator, so
 * the other ranks are asked meanwhile.  Another thread that destroys the communicator must not wait for the stream: then
 * q->lane becomes NULL, and the event has yet to come.
 */
static void event_stream_poll_recorder(struct event_stream_query *q, int wait)
{
	struct lane *lane = q->lane;
	struct wait_told told = {0};
	int64_t left;
	int leaves;

	context_enter(lane->context);
	context_progress(lane->context);
	lane->stream_waits++;
	while (!event_stream_leaves_comm(q) && (left = event_stream_left(q)) > 0) {
		(void)stall_ask_outside(lane);
		if (!wait)
			break;
		if (!told.lane)
			wait_tell_begin(&told, lane, 0, 0);
		context_wait(lane->context, event_stream_leaves_comm, q,
			     left < EVENT_STREAM_SLICE_US ? left : EVENT_STREAM_SLICE_US);
	}
	wait_tell_end(&told);
	leaves = q->code == COLL_IN_PROGRESS && atomic_load(&lane->comm->aborted);
	if (q->code == COLL_IN_PROGRESS && wait && !leaves)
		stall_name_behind(lane, q->behind, sizeof(q->behind));
	else if (q->code && q->code != COLL_IN_PROGRESS)
		error_take(q->code, &q->err);
	lane->stream_waits--;
	comm_leave(lane);
	if (leaves)
		q->lane = NULL;
}

/* An event of a communicator that has ended, or ends. */
static void event_stream_poll_stream(struct event_stream_query *q, int wait)
{
	const struct order_point first = event_point(&q->at, LANE_FIRST);
	struct context *context = q->event->context;

	context_enter(context);
	context_progress(context);
	if (!event_stream_complete(q) && wait)
		context_wait(context, event_stream_complete, q, event_stream_left(q));
	context_leave(context);
	if (!q->code && first.outcome)
		q->code = order_point_result(&first, NULL, wait);
	else if (q->code && q->code != COLL_IN_PROGRESS)
		error_take(q->code, &q->err);
}

/* A later failure does not change the result. */
static void event_stream_forget(struct event *e, const struct event_at *at)
{
	pthread_mutex_lock(&e->lock);
	if (e->at.outcome == at->outcome && e->at.number[LANE_FIRST] == at->number[LANE_FIRST])
		e->at.number[LANE_FIRST] = 0;
	pthread_mutex_unlock(&e->lock);
}

static int event_stream_poll_host(const struct event_stream_query *q, struct lane *pinned, int wait)
{
	const struct order_point host = event_point(&q->at, LANE_HOST);

	return host.number ? order_point_result(&host, pinned, wait) : COLL_SUCCESS;
}

/* An event of a communicator, or of calls on host memory for which its stream waits. */
static void event_stream_poll_outcome(struct event_stream_query *q, int wait)
{
	const int host_code =
		event_stream_is_held(q) ? event_stream_poll_host(q, q->lane, wait) : 0;

	q->timeout_us = q->lane->comm->timeout_us;
	if (!host_code) {
		event_stream_poll_comm(q, wait);
		return;
	}
	q->code = host_code;
	handle_unpin(q->lane->comm->handle);
}

static void event_stream_poll_at(struct event_stream_query *q, int wait)
{
	const struct outcome *outcome = q->at.outcome;
	const coll_comm_t of = outcome ? outcome->comm : q->at.recorder;

	q->lane = of ? comm_pin_lane(of, LANE_FIRST) : NULL;
	if (q->lane && outcome)
		event_stream_poll_outcome(q, wait);
	else if (q->lane)
		event_stream_poll_recorder(q, wait);
	if (!q->lane)
		event_stream_poll_stream(q, wait);
	if (!q->code && outcome)
		event_stream_forget(q->event, &q->at);
	if (!q->code)
		q->code = event_stream_poll_host(q, NULL, wait);
}

static int event_stream_poll(coll_event_t handle, struct event *e, int wait)
{
	struct event_stream_query q = {
		.event = e, .err.size = sizeof(coll_error_t), .timeout_us = e->context->timeout_us};

	q.code = event_take(e, &q.at);
	if (!q.code)
		event_stream_poll_at(&q, wait);
	event_drop(&q.at);
	handle_unpin(handle);
	if (wait && q.code == COLL_IN_PROGRESS)
		return error_set(
			COLL_ERR_TIMEOUT,
			"timed out: the event's stream has not reached the event after %.3g s%s",
			(double)q.timeout_us / 1e6, q.behind);
	return q.code;
}

static void event_stream_free(struct event *e)
{
	struct context *context = e->context;

	context_enter(context);
	event_stream_slots(e)->event_destroy(context->ep, e->native);
	context_leave(context);
	context_unref(context, config_int(context->config, "destroy_timeout") / 1000);
}

const struct event_impl event_stream = {
	.make = event_stream_make,
	.record = event_stream_record,
	.wait = event_stream_wait,
	.poll = event_stream_poll,
	.free = event_stream_free,
};
