/* SPDX-License-Identifier: BSD-3-Clause */
/* event_queue.c - events that are a position in a communicator's queue. */
#include "api/event.h"
#include "base/handle.h"
#include "exec/queue.h"
#include "exec/stall.h"

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
	event_note(e, comm);
	pthread_mutex_unlock(&e->lock);
	return comm_error(comm);
}

/* Issues an operation that waits for the position, unless it is in the same queue. */
static int event_queue_wait(struct event *e, struct comm *comm, coll_stream_t stream)
{
	const coll_args_t args = {.size = sizeof(args), .kind = KIND_AWAIT};
	const struct call call = call_of_library(comm, &args);
	int code = comm_error(comm);
	struct outcome *recorded;
	uint64_t number;
	struct op *op;

	(void)stream;
	recorded = code ? NULL : event_outcome_of(e, &number);
	if (!recorded || recorded == comm->outcome) {
		outcome_unref(recorded);
		return code;
	}
	code = op_make(comm, &call, &op);
	if (code) {
		outcome_unref(recorded);
		return code;
	}
	op->awaited = recorded;
	op->awaited_number = number;
	op_enqueue(op, 0);
	queue_issued(comm);
	return COLL_SUCCESS;
}

static int event_queue_poll_comm(struct comm *comm, uint64_t number, int wait)
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

static int event_queue_poll(coll_event_t event, struct event *e, int wait)
{
	uint64_t number;
	struct outcome *outcome = event_outcome_of(e, &number);
	struct comm *comm;
	int code = COLL_SUCCESS;

	handle_unpin(event);
	if (!outcome)
		return code;
	comm = handle_pin(HANDLE_COMM, outcome->comm);
	code = comm ? event_queue_poll_comm(comm, number, wait)
		    : event_outcome(outcome, number, wait);
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
	.poll = event_queue_poll,
	.free = event_queue_free,
};
