/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - the public functions for events.  The calling thread is a stream too: its work is complete by
 * the time it calls.
 */
#include "event/event.h"
#include "comm/lane.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "compose/stream_order.h"

#include <stdlib.h>

/* Events of a backend order the work of its streams, so only a backend without a transport has them. */
static const struct event_impl *event_impl_of(const struct lane *lane)
{
	const coll_backend_t *b = &lane->context->plugin->backend;

	return !b->transport && b->native && b->native->event_record ? &event_stream : &event_queue;
}

static struct event *event_pin(coll_event_t handle, const char *what)
{
	struct event *e = handle ? handle_pin(HANDLE_EVENT, handle) : NULL;

	if (!e)
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: event is %s", what,
			  handle_trouble(handle));
	return e;
}

/* Has another backend made the object? */
static int event_is_foreign(const struct event *e, const struct lane *lane)
{
	return e->context && e->context->plugin->backend.native->event_record !=
				     lane->context->plugin->backend.native->event_record;
}

/* May the event be used with this communicator and this stream? */
static int event_check(const struct event *e, const struct lane *lane, coll_stream_t stream)
{
	const struct event_impl *impl = event_impl_of(lane);
	const char *backend = lane->context->plugin->backend.name;

	if (stream && impl != &event_stream && !lane->context->plugin->backend.transport)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"backend '%s' has no device streams; pass NULL as stream: the calling "
			"thread",
			backend);
	if (stream && impl != &event_stream && !lane->context->devices)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"stream is not NULL, but this process has no CUDA driver; pass NULL "
			"as stream: the calling thread");
	if (e->impl == impl && !event_is_foreign(e, lane))
		return COLL_SUCCESS;
	return error_set(
		COLL_ERR_INVALID_ARGUMENT,
		"the event was not made with a communicator of backend '%s', and events of "
		"device streams do not cross backends: wait for it in the calling thread, "
		"with coll_event_synchronize",
		backend);
}

/* Pins the event and enters the communicator; NULL with nothing held if either is not valid. */
static struct event *event_enter(coll_event_t event, coll_comm_t handle, const char *what,
				 struct lane **lane)
{
	struct event *e = event_pin(event, what);

	if (!e)
		return NULL;
	*lane = comm_enter(handle, what);
	if (*lane)
		return e;
	handle_unpin(event);
	return NULL;
}

static void event_leave(coll_event_t event, struct lane *lane)
{
	comm_leave(lane);
	handle_unpin(event);
}

static void event_free(struct event *e)
{
	if (e->context)
		e->impl->free(e);
	event_drop(&e->at);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

coll_result_t coll_event_create(coll_comm_t handle, coll_event_t *event)
{
	CANCEL_OFF;
	struct lane *lane = comm_enter(handle, "coll_event_create");
	struct event *e;
	int code = COLL_SUCCESS;

	if (event)
		*event = NULL;
	if (!lane)
		return error_code();
	e = event ? calloc(1, sizeof(*e)) : NULL;
	if (e) {
		pthread_mutex_init(&e->lock, NULL);
		e->impl = event_impl_of(lane);
		code = e->impl->make ? e->impl->make(e, lane) : COLL_SUCCESS;
	}
	comm_leave(lane);
	if (!event)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_event_create: event is NULL");
	if (e && !code)
		*event = handle_new(HANDLE_EVENT, e);
	if (*event)
		return COLL_SUCCESS;
	if (e)
		event_free(e);
	return code ? code : handle_none("an event");
}

coll_result_t coll_event_destroy(coll_event_t event)
{
	struct event *e = event_pin(event, "coll_event_destroy");
	int code;

	if (!e)
		return error_code();
	code = handle_end(event, "an event");
	if (code == HANDLE_PINNED)
		return COLL_SUCCESS;
	if (code)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_event_destroy: another thread is destroying it already");
	event_free(e);
	return COLL_SUCCESS;
}

/* Records the event behind the operations of the communicator, or (waits) lets the later operations wait for the event. */
static int event_with_comm(coll_event_t event, coll_comm_t handle, const char *what, int waits)
{
	struct lane *lane;
	struct event *e = event_enter(event, handle, what, &lane);
	int code;

	if (!e)
		return error_code();
	code = event_check(e, lane, NULL);
	if (!code)
		code = waits ? e->impl->wait(e, lane, NULL) : e->impl->record(e, lane, NULL);
	event_leave(event, lane);
	return code;
}

coll_result_t coll_event_record(coll_event_t event, coll_comm_t handle)
{
	return event_with_comm(event, handle, "coll_event_record", 0);
}

/* The calling thread has completed all that came before this call. */
static void event_record_thread(struct event *e)
{
	pthread_mutex_lock(&e->lock);
	event_note(e, NULL);
	e->on_stream = 0;
	pthread_mutex_unlock(&e->lock);
}

coll_result_t coll_event_record_on_stream(coll_event_t event, coll_comm_t handle,
					  coll_stream_t stream)
{
	struct lane *lane;
	struct event *e = event_enter(event, handle, "coll_event_record_on_stream", &lane);
	int code;

	if (!e)
		return error_code();
	code = event_check(e, lane, stream);
	if (!code && !stream)
		code = comm_error(lane);
	if (!code && stream)
		code = e->impl->record(e, lane, stream);
	else if (!code)
		event_record_thread(e);
	event_leave(event, lane);
	return code;
}

static int event_poll(coll_event_t event, const char *what, int wait)
{
	struct event *e = event_pin(event, what);

	if (e && e->context && !wait)
		lane_help(e->context, NULL);
	return e ? e->impl->poll(event, e, wait) : COLL_ERR_INVALID_ARGUMENT;
}

coll_result_t coll_event_query(coll_event_t event)
{
	return event_poll(event, "coll_event_query", 0);
}

coll_result_t coll_event_synchronize(coll_event_t event)
{
	CANCEL_OFF;
	return event_poll(event, "coll_event_synchronize", 1);
}

coll_result_t coll_stream_wait_event(coll_comm_t handle, coll_stream_t stream, coll_event_t event)
{
	CANCEL_OFF;
	const char *what = "coll_stream_wait_event";
	struct caller_stream found;
	struct lane *lane;
	struct event *e = event_enter(event, handle, what, &lane);
	int code;

	if (!e)
		return error_code();
	code = event_check(e, lane, stream);
	if (!code && !stream)
		code = comm_error(lane);
	if (!code && stream && e->impl->hold)
		code = stream_order_find(lane, what, stream, NULL, &found);
	if (!code && stream && e->impl->hold) {
		comm_leave(lane); /* the event may be of another communicator */
		code = e->impl->hold(e, &found);
		handle_unpin(event);
		return code;
	}
	if (!code && stream)
		code = e->impl->wait(e, lane, stream);
	event_leave(event, lane);
	return code || stream ? code : event_poll(event, what, 1);
}

coll_result_t coll_comm_wait_event(coll_comm_t handle, coll_event_t event)
{
	return event_with_comm(event, handle, "coll_comm_wait_event", 1);
}
