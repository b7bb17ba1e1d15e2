/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - an event is a position in a communicator's queue.  The only other stream is the calling
 * thread, whose work is done by the time it calls.
 */
#include "engine.h"
#include "error.h"
#include "handle.h"

#include <stdlib.h>

struct event {
	pthread_mutex_t lock;
	coll_comm_t comm; /* where it was recorded, or NULL: complete */
	uint64_t number;  /* the last operation before it */
};

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
	pthread_mutex_unlock(&e->lock);
}

static void event_get(struct event *e, coll_comm_t *comm, uint64_t *number)
{
	pthread_mutex_lock(&e->lock);
	*comm = e->comm;
	*number = e->number;
	pthread_mutex_unlock(&e->lock);
}

static int event_check(const struct comm *comm, coll_stream_t stream)
{
	const coll_backend_t *b = &comm->link->plugin->backend;

	if (stream)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"backend '%s' has no device streams; pass NULL as stream: the calling "
			"thread",
			b->name);
	return COLL_SUCCESS;
}

coll_result_t coll_event_create(coll_comm_t handle, coll_event_t *event)
{
	struct comm *comm = comm_enter(handle, "coll_event_create");
	struct event *e = NULL;
	int code;

	if (event)
		*event = NULL;
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(comm, NULL);
	comm_leave(comm);
	if (!code && !event)
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "coll_event_create: event is NULL");
	if (code)
		return code;
	e = calloc(1, sizeof(*e));
	if (e) {
		pthread_mutex_init(&e->lock, NULL);
		*event = handle_new(HANDLE_EVENT, e);
	}
	if (*event)
		return COLL_SUCCESS;
	free(e);
	return error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
}

coll_result_t coll_event_destroy(coll_event_t event)
{
	struct event *e = event_pin(event, "coll_event_destroy");

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
	if (handle_retire(event))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_event_destroy: another thread is destroying it already");
	pthread_mutex_destroy(&e->lock);
	free(e);
	return COLL_SUCCESS;
}

coll_result_t coll_event_record(coll_event_t event, coll_comm_t handle)
{
	struct event *e = event_pin(event, "coll_event_record");
	struct comm *comm = e ? comm_enter(handle, "coll_event_record") : NULL;

	if (comm) {
		event_set(e, handle, comm->issued);
		comm_leave(comm);
	}
	if (e)
		handle_unpin(event);
	return comm ? COLL_SUCCESS : COLL_ERR_INVALID_ARGUMENT;
}

coll_result_t coll_event_record_on_stream(coll_event_t event, coll_comm_t handle,
					  coll_stream_t stream)
{
	struct event *e = event_pin(event, "coll_event_record_on_stream");
	struct comm *comm = e ? comm_enter(handle, "coll_event_record_on_stream") : NULL;
	int code = comm ? event_check(comm, stream) : COLL_ERR_INVALID_ARGUMENT;

	if (!code)
		event_set(e, NULL, 0); /* the thread has done all that came before this call */
	if (comm)
		comm_leave(comm);
	if (e)
		handle_unpin(event);
	return code;
}

/* The state of a position: COLL_SUCCESS, COLL_IN_PROGRESS, or the communicator's error. */
static int event_state(coll_comm_t handle, uint64_t number, int wait)
{
	struct comm *comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;
	int code;

	if (!comm) /* never recorded, or all is over with its communicator */
		return COLL_SUCCESS;
	link_enter(comm->link);
	if (wait) {
		code = comm_wait(comm, number);
	} else {
		link_progress(comm->link);
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

	if (!e)
		return COLL_ERR_INVALID_ARGUMENT;
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
	struct comm *comm = comm_enter(handle, "coll_stream_wait_event");
	int code;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(comm, stream);
	comm_leave(comm);
	return code ? code : event_ask(event, "coll_stream_wait_event", 1);
}

/* Queues an operation that waits until `number` of another communicator is done. */
static int event_queue(struct comm *comm, coll_comm_t recorded, uint64_t number)
{
	coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	struct op *op;
	int code = comm_error(comm);

	if (!code)
		code = op_make(comm, &args, &op);
	if (code)
		return code;
	op->awaited = recorded;
	op->awaited_number = number;
	op_enqueue(op, 0);
	link_progress(comm->link);
	link_kick(comm->link);
	return COLL_SUCCESS;
}

coll_result_t coll_comm_wait_event(coll_comm_t handle, coll_event_t event)
{
	struct event *e = event_pin(event, "coll_comm_wait_event");
	struct comm *comm = e ? comm_enter(handle, "coll_comm_wait_event") : NULL;
	coll_comm_t recorded = NULL;
	uint64_t number = 0;
	int code;

	if (e) {
		event_get(e, &recorded, &number);
		handle_unpin(event);
	}
	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	code = event_check(comm, NULL);
	/* Operations of one communicator are in order anyway. */
	if (!code && recorded && recorded != handle)
		code = event_queue(comm, recorded, number);
	comm_leave(comm);
	return code;
}
