/* SPDX-License-Identifier: BSD-3-Clause */
/* event_queue.c - events that are a position in a communicator's queue. */
#include "api/event.h"
#include "base/handle.h"
#include "exec/queue.h"

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

static int event_queue_record(struct event *e, struct comm *comm, coll_stream_t stream)
{
	(void)stream;
	pthread_mutex_lock(&e->lock);
	e->comm = comm->handle;
	e->number = comm->issued;
	pthread_mutex_unlock(&e->lock);
	return COLL_SUCCESS;
}

static void event_queue_get(struct event *e, coll_comm_t *comm, uint64_t *number)
{
	pthread_mutex_lock(&e->lock);
	*comm = e->comm;
	*number = e->number;
	pthread_mutex_unlock(&e->lock);
}

/* Issues an operation that waits for the position, unless it is in the same queue. */
static int event_queue_wait(struct event *e, struct comm *comm, coll_stream_t stream)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	const struct call call = call_of_library(comm, &args);
	coll_comm_t recorded;
	uint64_t number;
	struct op *op;
	int code;

	(void)stream;
	event_queue_get(e, &recorded, &number);
	if (!recorded || recorded == comm->handle)
		return COLL_SUCCESS;
	code = comm_error(comm);
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

static int event_queue_poll(coll_event_t event, struct event *e, int wait)
{
	coll_comm_t handle;
	struct comm *comm;
	uint64_t number;
	int code;

	event_queue_get(e, &handle, &number);
	handle_unpin(event);
	comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;
	if (!comm) /* never recorded, or the communicator was destroyed */
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

static void event_queue_free(struct event *e)
{
	(void)e;
}

const struct event_impl event_queue = {
	.make = event_queue_make,
	.check = event_queue_check,
	.record = event_queue_record,
	.wait = event_queue_wait,
	.poll = event_queue_poll,
	.free = event_queue_free,
};
