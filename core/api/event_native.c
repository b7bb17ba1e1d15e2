/* SPDX-License-Identifier: BSD-3-Clause */
/* event_native.c - events on the streams of a backend that has its own. */
#include "base/error.h"
#include "api/event.h"
#include "exec/queue.h"

/* So often a waiting thread only asks, before it sleeps in the backend. */
enum { NATIVE_ROUNDS = 64 };

static const coll_native_t *native_slots(const struct event *e)
{
	return e->context->plugin->backend.native;
}

int event_has_streams(const struct context *context)
{
	const coll_backend_t *b = &context->plugin->backend;

	return !b->transport && b->native && b->native->event_record;
}

int event_native_make(struct event *e, struct comm *comm)
{
	struct context *context = comm->context;
	coll_error_t err = error_blank();
	int code = context->plugin->backend.native->event_create(context->ep, &e->native, &err);

	if (code)
		return error_take(code, &err);
	e->context = context;
	context_ref(context);
	return COLL_SUCCESS;
}

int event_native_check(const struct event *e, const struct comm *comm)
{
	const coll_backend_t *own = &comm->context->plugin->backend;

	if (e->context && event_has_streams(comm->context) &&
	    own->native->event_record == native_slots(e)->event_record)
		return comm_error(comm);
	return error_set(
		COLL_ERR_INVALID_ARGUMENT,
		"the event was not made with a communicator of backend '%s', and events of "
		"device streams do not cross backends: wait for it in the calling thread, "
		"with coll_event_synchronize",
		own->name);
}

/* Is everything that was issued in the hands of the backend?  Not what an open group holds. */
static int native_issued(struct comm *comm)
{
	queue_run(comm);
	for (const struct op *op = comm->head; op; op = op->next)
		if (op->state == OP_DEFERRED || op->state == OP_QUEUED)
			return error_set(
				COLL_ERR_INVALID_USAGE,
				"the communicator has operations that begin with "
				"coll_group_end: use its events before or after the group");
	return comm_error(comm);
}

int event_native_record(struct event *e, struct comm *comm, coll_stream_t stream)
{
	coll_error_t err = error_blank();
	int code = native_issued(comm);

	if (code)
		return code;
	pthread_mutex_lock(&e->lock);
	code = native_slots(e)->event_record(comm->context->ep, e->native, stream, &err);
	if (!code)
		e->on_stream = 1;
	pthread_mutex_unlock(&e->lock);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

int event_native_wait(struct event *e, struct comm *comm, coll_stream_t stream)
{
	coll_error_t err = error_blank();
	int code = native_issued(comm);

	if (code)
		return code;
	pthread_mutex_lock(&e->lock);
	if (e->on_stream)
		code = native_slots(e)->event_wait(comm->context->ep, e->native, stream, &err);
	pthread_mutex_unlock(&e->lock);
	return code ? error_take(code, &err) : COLL_SUCCESS;
}

struct native_question {
	struct event *event;
	int rounds, code;
	coll_error_t err;
};

static int native_complete(void *arg)
{
	struct native_question *q = arg;
	struct event *e = q->event;
	void *ep = e->context->ep;
	coll_error_t err = error_blank();

	pthread_mutex_lock(&e->lock);
	q->code =
		e->on_stream ? native_slots(e)->event_query(ep, e->native, &q->err) : COLL_SUCCESS;
	/* What it says, the next query says too. */
	if (q->code == COLL_IN_PROGRESS && q->rounds++ > NATIVE_ROUNDS)
		native_slots(e)->event_synchronize(ep, e->native, 1, &err);
	pthread_mutex_unlock(&e->lock);
	return q->code != COLL_IN_PROGRESS;
}

int event_native_ask(struct event *e, int wait)
{
	struct native_question q = {.event = e, .err = error_blank()};
	struct context *context = e->context;

	context_enter(context);
	context_progress(context);
	if (!native_complete(&q) && wait)
		context_wait(context, native_complete, &q, context->timeout_us);
	context_leave(context);
	if (wait && q.code == COLL_IN_PROGRESS)
		return error_set(COLL_ERR_TIMEOUT,
				 "the event's stream has not reached the event after %.3g s",
				 (double)context->timeout_us / 1e6);
	return q.code && q.code != COLL_IN_PROGRESS ? error_take(q.code, &q.err) : q.code;
}

void event_native_free(struct event *e)
{
	struct context *context = e->context;

	context_enter(context);
	native_slots(e)->event_destroy(context->ep, e->native);
	context_leave(context);
	context_unref(context, config_int(context->config, "destroy_timeout") / 1000);
}
