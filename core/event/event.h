/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - events and their two implementations. */
#ifndef CORE_EVENT_EVENT_H
#define CORE_EVENT_EVENT_H

#include "comm/lane.h"
#include "device/caller_stream.h"

struct event_impl;

/* Where an event is: behind operations of both lanes of a communicator, or on a stream of the program, or nowhere. */
struct event_at {
	struct outcome *outcome;     /* of the communicator, a reference; or NULL */
	uint64_t number[LANES];      /* per lane: the last operation before the event; 0: none */
	struct stream_event *stream; /* what the library waits for if it is on a stream; or NULL */
	int64_t timeout_us;          /* event_queue: of the communicator that recorded it there */
	coll_comm_t recorder;        /* event_stream: the communicator that recorded it there */
};

struct event {
	const struct event_impl *impl;
	pthread_mutex_t lock; /* of the fields below */
	struct event_at at;
	/* event_stream: the backend's event. */
	struct context *context; /* a reference; its backend made `native`; or NULL */
	void *native;
	int on_stream; /* `native` was recorded, and tells how far the stream is */
};

/* An implementation of events.  make, record, wait: the communicator is entered. */
struct event_impl {
	/* Makes and frees the backend's event, e->native.  NULL: there is none. */
	int (*make)(struct event *e, struct lane *lane);
	void (*free)(struct event *e);
	/* Records the position behind all operations of the stream; NULL: of the communicator. */
	int (*record)(struct event *e, struct lane *lane, coll_stream_t stream);
	/* Later operations of the stream (NULL: of the communicator) wait for the event. */
	int (*wait)(struct event *e, struct lane *lane, coll_stream_t stream);
	/*
	 * Later work of the stream waits for the event; no communicator is entered.  NULL: `wait` does it.
	 */
	int (*hold)(struct event *e, const struct caller_stream *stream);
	/*
	 * COLL_SUCCESS, COLL_IN_PROGRESS or an error; `wait`: blocks until the event is complete.
	 * Unpins the handle as soon as the event itself is not needed any more.
	 */
	int (*poll)(coll_event_t handle, struct event *e, int wait);
};

/* A position in a communicator's lanes, or an event of the CUDA driver (event_queue.c). */
extern const struct event_impl event_queue;
/* An object of a backend that has device streams and no transport (event_stream.c). */
extern const struct event_impl event_stream;

/* --- for both (event_queue.c) */

/* Notes that the event is behind all operations of the communicator; lane NULL: behind none.  The event's lock is held. */
void event_note(struct event *e, struct lane *lane);
/* Copies the point of the event, with references that event_drop gives up; COLL_ERR_NO_MEMORY. */
int event_take(struct event *e, struct event_at *at);
void event_drop(struct event_at *at);
static inline struct order_point event_point(const struct event_at *at, int lane_index)
{
	return (struct order_point){at->outcome, lane_index, at->number[lane_index]};
}
/* Later calls of the host lane wait for the event.  Accepts a communicator of one lane. */
int event_wait_on_host(struct lane *lane, const struct event_at *at);

#endif
