/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - an event is a position in a communicator's queue, or an object of a backend that has
 * device streams (event_native.c).  The calling thread is a stream too, whose work is done by the
 * time it calls.
 */
#include "api/event.h"
#include "base/error.h"
#include "base/handle.h"
#include "exec/queue.h"

#include <stdlib.h>

static struct event *event_pin(coll_event_t handle, const char *what)
{
	struct event *e = handle ? handle_pin(HANDLE_EVENT, handle) : NULL;

	if (!e)
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: event is %s", what,
			  handle_trouble(handle));
	return e;
}

static void event_set(struct event *e, coll_comm_t comm, uint64_t number)
{
	pthread_mutex_lock(&e->lock);
	e->comm = comm;
	e->number = number;
	e->on_stream = 0;
	pthread_mutex_unlock(&e->lock);
}

static void event_get(struct event *e, coll_comm_t *comm, uint64_t *number)
{
	pthread_mutex_lock(&e->lock);
	*comm = e->comm;
	*number = e->number;
	pthread_mutex_unlock(&e->lock);
}

/* May the event be used with this communicator and this stream? */
static int event_check(const struct event *e, const struct comm *comm, coll_stream_t stream)
{
	const coll_backend_t *b = &comm->context->plugin->backend;

	if (stream && !event_has_streams(comm->context))
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"backend '%s' has no device streams; pass NULL as stream: the calling "
			"thread",
			b->name);
	if (event_has_streams(comm->context) || e->context)
		return event_native_check(e, comm);
	return COLL_SUCCESS;
}

/* Pins the event and enters the communicator; NULL with nothing held if either is not valid. */
static struct event *event_enter(coll_event_t event, coll_comm_t handle, const char *what,
				 struct comm **comm)
{
	struct event *e = event_pin(event, what);

	if (!e)
		return NULL;
	*comm = comm_enter(handle, what);
	if (*comm)
		return e;
	handle_unpin(event);
	return NULL;
}

static void event_leave(coll_event_t event, struct comm *comm)
{
	comm_leave(comm);
	handle_unpin(event);
}

static void event_free(struct event *e)
{
	if (e->context)
		event_native_free(e);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

coll_result_t coll_event_create(coll_comm_t handle, coll_event_t *event)
{
	struct comm *comm = comm_enter(handle, "coll_event_create");
	struct event *e;
	int code = COLL_SUCCESS;

	if (event)
		*event = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	e = event ? calloc(1, sizeof(*e)) : NULL;
	if (e)
		pthread_mutex_init(&e->lock, NULL);
	if (e && event_has_streams(comm->context))
		code = event_native_make(e, comm);
	comm_leave(comm);
	if (!event)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_event_create: event is NULL");
	if (e && !code)
		*event = handle_new(HANDLE_EVENT, e);
	if (*event)
		return COLL_SUCCESS;
	if (e)
		event_free(e);
	return code ? code : error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
}

coll_result_t coll_event_destroy(coll_event_t event)
{
	struct event *e = event_pin(event, "coll_event_destroy");

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	if (handle_retire(event))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_event_destroy: another thread is destroying it already");
	event_free(e);
	return COLL_SUCCESS;
}

coll_result_t coll_event_record(coll_event_t event, coll_comm_t handle)
{
	struct comm *comm;
	struct event *e = event_enter(event, handle, "coll_event_record", &comm);
	int code;

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(e, comm, NULL);
	if (!code && e->context)
		code = event_native_record(e, comm, NULL);
	else if (!code)
		event_set(e, handle, comm->issued);
	event_leave(event, comm);
	return code;
}

coll_result_t coll_event_record_on_stream(coll_event_t event, coll_comm_t handle,
					  coll_stream_t stream)
{
	struct comm *comm;
	struct event *e = event_enter(event, handle, "coll_event_record_on_stream", &comm);
	int code;

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(e, comm, stream);
	if (!code && stream)
		code = event_native_record(e, comm, stream);
	else if (!code)
		event_set(e, NULL, 0); /* the thread has done all that came before this call */
	event_leave(event, comm);
	return code;
}

/* The state of a position: COLL_SUCCESS, COLL_IN_PROGRESS, or the communicator's error. */
static int event_state(coll_comm_t handle, uint64_t number, int wait)
{
	struct comm *comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;
	int code;

	if (!comm) /* never recorded, or all is over with its communicator */
		return COLL_SUCCESS;
	context_enter(comm->context);
	if (wait) {
		code = comm_wait(comm, number);
	} else {
		context_progress(comm->context);
		code = comm->finished >= number ? COLL_SUCCESS : COLL_IN_PROGRESS;
		if (comm->error && code)
			code = comm_error(comm);
	}
	comm_leave(comm);
	return code;
}

static int event_ask(coll_event_t event, const char *what, int wait)
{
	struct event *e = event_pin(event, what);
	coll_comm_t comm;
	uint64_t number;
	int code;

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	if (e->context) {
		code = event_native_ask(e, wait);
		handle_unpin(event);
		return code;
	}
	event_get(e, &comm, &number);
	handle_unpin(event);
	return event_state(comm, number, wait);
}

coll_result_t coll_event_query(coll_event_t event)
{
	return event_ask(event, "coll_event_query", 0);
}

coll_result_t coll_event_synchronize(coll_event_t event)
{
	return event_ask(event, "coll_event_synchronize", 1);
}

coll_result_t coll_stream_wait_event(coll_comm_t handle, coll_stream_t stream, coll_event_t event)
{
	struct comm *comm;
	struct event *e = event_enter(event, handle, "coll_stream_wait_event", &comm);
	int code;

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(e, comm, stream);
	if (!code && stream)
		code = event_native_wait(e, comm, stream);
	event_leave(event, comm);
	return code || stream ? code : event_ask(event, "coll_stream_wait_event", 1);
}

/* Queues an operation that waits until `number` of another communicator is done. */
static int event_queue(struct comm *comm, coll_comm_t recorded, uint64_t number)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	const struct call call = call_of_library(comm, &args);
	struct op *op;
	int code = comm_error(comm);

	if (!code)
		code = op_make(comm, &call, &op);
	if (code)
		return code;
	op->awaited = recorded;
	op->awaited_number = number;
	op_enqueue(op, 0);
	queue_issued(comm);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_wait_event(coll_comm_t handle, coll_event_t event)
{
	struct comm *comm;
	struct event *e = event_enter(event, handle, "coll_comm_wait_event", &comm);
	coll_comm_t recorded;
	uint64_t number;
	int code;

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(e, comm, NULL);
	event_get(e, &recorded, &number);
	if (!code && e->context)
		code = event_native_wait(e, comm, NULL);
	/* Operations of one communicator are in order anyway. */
	else if (!code && recorded && recorded != handle)
		code = event_queue(comm, recorded, number);
	event_leave(event, comm);
	return code;
}
