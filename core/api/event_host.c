/* SPDX-License-Identifier: BSD-3-Clause */
/* event_host.c - the position of an event among the calls on host memory. */
#include "api/event_host.h"
#include "base/error.h"
#include "base/handle.h"
#include "comm/lane.h"
#include "native/native.h"
#include "comm/comm_wait.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* A position for which the next call on host memory waits: an operation, or an event of a stream. */
struct host_wait {
	struct host_wait *next;
	struct outcome *outcome;
	int lane;
	uint64_t number;
	struct stream_event *stream_event;
};

struct event_host {
	struct host_wait *waits;
	void *gate; /* a stream that waits for calls on host memory, and for which the backend waits; or NULL */
};

int event_host_make(struct comm *comm)
{
	struct lanes *lanes = comm->lanes;

	if (!lanes->event_host)
		lanes->event_host = calloc(1, sizeof(*lanes->event_host));
	return lanes->event_host ? COLL_SUCCESS
				 : error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
}

static void host_wait_free(struct host_wait *wait)
{
	outcome_unref(wait->outcome);
	stream_event_unref(wait->stream_event);
	free(wait);
}

void event_host_free(struct comm *comm)
{
	struct event_host *h = comm->lanes ? comm->lanes->event_host : NULL;
	struct host_wait *wait;

	if (!h)
		return;
	while ((wait = h->waits)) {
		h->waits = wait->next;
		host_wait_free(wait);
	}
	if (h->gate)
		caller_stream_free(comm->context->device, h->gate);
	free(h);
	comm->lanes->event_host = NULL;
}

/* ------------------------------------------------------------------------- recording -- */

int event_host_is_deferred(const struct comm *comm)
{
	struct comm *host_comm = lane_host(comm);
	int deferred;

	if (!host_comm || !group_current())
		return 0;
	context_enter(host_comm->context);
	deferred = comm_is_deferred(host_comm, host_comm->issued);
	context_leave(host_comm->context);
	return deferred;
}

/* An event of a stream that is being captured is known to the backend only. */
static int event_host_record_stream(struct event *e, struct comm *comm, coll_stream_t stream)
{
	struct stream_event *spare = NULL;
	const char *what = "coll_event_record_on_stream";
	struct caller_stream found;
	int code = caller_stream_find(what, stream, &traffic_of(comm->context)->home, NULL, &found);

	if (!code)
		code = caller_stream_check_capture(what, &found);
	if (code == COLL_ERR_INVALID_USAGE)
		return COLL_SUCCESS;
	if (!code)
		code = stream_event_record(&spare, what, &found, &e->stream_event);
	stream_events_free(&spare);
	return code;
}

int event_host_record(struct event *e, struct comm *comm, coll_stream_t stream)
{
	struct comm *host_comm = lane_host(comm);

	if (!host_comm)
		return COLL_SUCCESS;
	if (stream)
		return event_host_record_stream(e, comm, stream);
	/* A call on host memory, of this communicator or another, may wait for it. */
	native_want_marker(comm);
	if (!comm->lanes->host_issued)
		return COLL_SUCCESS;
	context_enter(host_comm->context);
	e->host_outcome = outcome_ref(host_comm->outcome);
	e->host_number = host_comm->error ? OUTCOME_NEVER : host_comm->issued;
	context_leave(host_comm->context);
	return COLL_SUCCESS;
}

/* --------------------------------------------------------------- what a call waits for -- */

/* Is it complete, as far as is known without a lock? */
static int host_wait_is_over(const struct comm *comm, const struct host_wait *wait)
{
	if (wait->stream_event)
		return stream_event_query(wait->stream_event) != COLL_IN_PROGRESS;
	if (wait->outcome == comm->outcome && wait->lane == LANE_FIRST)
		return comm->finished >= wait->number;
	return !outcome_result(wait->outcome, wait->lane, wait->number);
}

int event_host_add(struct comm *comm, struct outcome *outcome, int lane, uint64_t number,
		   struct stream_event *stream_event)
{
	struct host_wait like = {NULL, outcome, lane, number, stream_event}, *wait, **at;

	if (!outcome && !stream_event)
		return COLL_SUCCESS;
	for (at = &comm->lanes->event_host->waits; (wait = *at);) {
		const int same = outcome && wait->outcome == outcome && wait->lane == lane;

		if (same && number > wait->number)
			wait->number = number;
		if (same) {
			outcome_unref(outcome);
			return COLL_SUCCESS;
		}
		if (!host_wait_is_over(comm, wait)) {
			at = &wait->next;
			continue;
		}
		*at = wait->next;
		host_wait_free(wait);
	}
	wait = malloc(sizeof(*wait));
	if (!wait) {
		outcome_unref(outcome);
		stream_event_unref(stream_event);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
	}
	*wait = like;
	*at = wait;
	return COLL_SUCCESS;
}

int event_host_begin(struct comm *comm)
{
	struct comm *host_comm = lane_host(comm);
	struct event_host *h = comm->lanes->event_host;
	struct host_wait *wait;
	int code = COLL_SUCCESS;

	if (!h || !h->waits)
		return COLL_SUCCESS;
	context_enter(host_comm->context);
	while (!code && (wait = h->waits)) {
		h->waits = wait->next;
		if (wait->outcome == comm->outcome && wait->lane == LANE_HOST)
			host_wait_free(wait);
		else {
			code = event_await(host_comm, wait->stream_event, wait->outcome, wait->lane,
					   wait->number);
			free(wait);
		}
	}
	context_leave(host_comm->context);
	return code;
}

/* --------------------------------------------------------------------------- waiting -- */

/* The result of a call on host memory; the lock of comm's context may be held. */
static int event_host_result(const struct outcome *outcome, uint64_t number, int wait)
{
	struct comm *comm = handle_pin(HANDLE_COMM, outcome->comm);

	return comm ? event_poll_comm(comm->lanes->host, number, wait)
		    : event_outcome(outcome, LANE_HOST, number, wait);
}

int event_host_gate(struct comm *comm, void **gate)
{
	struct event_host *h;
	int code = event_host_make(comm);

	if (code)
		return code;
	h = comm->lanes->event_host;
	if (!h->gate)
		code = caller_stream_make(comm->context->device, &h->gate);
	*gate = h->gate;
	return code;
}

/* Later work of a stream waits for calls on host memory. */
static int event_host_hold(struct comm *comm, const struct outcome *outcome, coll_stream_t stream,
			   uint64_t number)
{
	struct caller_stream found;
	int code = caller_stream_find("coll_stream_wait_event", stream,
				      &traffic_of(comm->context)->home, NULL, &found);

	return code ? code : event_hold_for(outcome, LANE_HOST, &found, number);
}

/* The backend's own stream waits for a stream that waits for the calls on host memory. */
static int event_host_close_gate(struct comm *comm, const struct outcome *outcome, uint64_t number)
{
	void *gate;
	int code = event_host_gate(comm, &gate);

	if (!code)
		code = event_host_hold(comm, outcome, gate, number);
	/* Calls on host memory, also that of the gate, may wait for the operations before it. */
	if (!code)
		code = native_mark_wanted(comm);
	return code ? code : native_join(comm, NULL, gate);
}

/* Device calls of the communicator wait for calls on host memory. */
static int event_host_hold_native(struct comm *comm, const struct outcome *outcome, uint64_t number)
{
	int code = event_host_result(outcome, number, 0);

	/*
	 * A device on which streams cannot wait for memory: the calling thread waits.  It leaves the communicator, whose
	 * operations may be those that the calls on host memory wait for.
	 */
	if (code == COLL_IN_PROGRESS && event_host_close_gate(comm, outcome, number)) {
		context_leave(comm->context);
		code = event_host_result(outcome, number, 1);
		context_enter(comm->context);
	}
	if (!code || code == COLL_IN_PROGRESS)
		return COLL_SUCCESS;
	comm_fail(comm, 0, code, "rank %d waits for an event of a communicator that failed: %s",
		  comm->rank, error_text());
	return comm_error(comm);
}

/* The position of an event, with references. */
struct event_place {
	struct outcome *outcome, *host_outcome;
	uint64_t number, host_number;
	struct stream_event *stream_event;
};

static int event_host_place(struct event *e, struct event_place *place)
{
	int has;

	pthread_mutex_lock(&e->lock);
	*place = (struct event_place){outcome_ref(e->outcome), outcome_ref(e->host_outcome),
				      e->number, e->host_number, NULL};
	has = e->stream_event != NULL;
	if (has)
		place->stream_event = stream_event_ref(e->stream_event);
	pthread_mutex_unlock(&e->lock);
	return has && !place->stream_event ? error_set(COLL_ERR_NO_MEMORY, "no memory for an event")
					   : COLL_SUCCESS;
}

int event_host_wait(struct event *e, struct comm *comm, coll_stream_t stream)
{
	struct event_place p;
	int code = event_host_place(e, &p);

	if (!code && !stream)
		code = event_host_make(comm);
	if (!code && p.host_outcome && stream)
		code = event_host_hold(comm, p.host_outcome, stream, p.host_number);
	else if (!code && p.host_outcome)
		code = event_host_hold_native(comm, p.host_outcome, p.host_number);
	if (code || stream) {
		outcome_unref(p.outcome);
		outcome_unref(p.host_outcome);
		stream_event_unref(p.stream_event);
		return code;
	}
	code = event_host_add(comm, p.outcome, LANE_FIRST, p.number, NULL);
	if (event_host_add(comm, p.host_outcome, LANE_HOST, p.host_number, NULL) ||
	    event_host_add(comm, NULL, 0, 0, p.stream_event))
		code = COLL_ERR_NO_MEMORY;
	return code;
}

int event_host_poll(struct event *e, int wait)
{
	struct outcome *outcome;
	uint64_t number;
	int code = COLL_SUCCESS;

	pthread_mutex_lock(&e->lock);
	outcome = outcome_ref(e->host_outcome);
	number = e->host_number;
	pthread_mutex_unlock(&e->lock);
	if (outcome)
		code = event_host_result(outcome, number, wait);
	outcome_unref(outcome);
	return code;
}
