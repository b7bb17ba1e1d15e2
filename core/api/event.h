/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - events and their two implementations. */
#ifndef CORE_API_EVENT_H
#define CORE_API_EVENT_H

#include "comm/comm.h"

struct event_impl;

struct event {
	const struct event_impl *impl;
	pthread_mutex_t lock;    /* of the fields below */
	struct outcome *outcome; /* of the communicator that recorded it, a reference; or NULL */
	uint64_t number;         /* the last operation before it */
	struct stream_event
		*stream_event;   /* event_queue: recorded on a stream of the program; or NULL */
	int64_t timeout_us;      /* event_queue: of the communicator that recorded it there */
	struct context *context; /* event_stream: a reference; its backend made `native` */
	void *native;
	int on_stream;        /* event_stream: recorded on a stream, so `native` tells its state */
	coll_comm_t recorder; /* event_stream: recorded on a stream of the program; or NULL */
	/*
	 * event_stream: the position of the calls on host memory (event_host.c), a reference; or NULL.  An event on a
	 * stream of the program has a stream_event too, for such calls that wait for it.
	 */
	struct outcome *host_outcome;
	uint64_t host_number;
};

/* An implementation of events.  make to wait: the communicator is entered. */
struct event_impl {
	int (*make)(struct event *e, struct comm *comm);
	/* Do the event and the communicator belong to the same backend? */
	int (*check)(const struct event *e, const struct comm *comm);
	/* Records the position behind all operations of the stream; NULL: of the communicator. */
	int (*record)(struct event *e, struct comm *comm, coll_stream_t stream);
	/* Later operations of the stream (NULL: of the communicator) wait for the event. */
	int (*wait)(struct event *e, struct comm *comm, coll_stream_t stream);
	/*
	 * Later work of the stream waits for the event; no communicator is entered.  NULL: `wait` does it.
	 */
	int (*hold)(struct event *e, const struct caller_stream *stream);
	/*
	 * COLL_SUCCESS, COLL_IN_PROGRESS or an error; `wait`: blocks until the event is complete.
	 * Unpins the handle as soon as the event itself is not needed any more.
	 */
	int (*poll)(coll_event_t handle, struct event *e, int wait);
	void (*free)(struct event *e);
};

/* A position in a communicator's queue (event_queue.c). */
extern const struct event_impl event_queue;
/* An object of a backend that has device streams and no transport (event_stream.c). */
extern const struct event_impl event_stream;

/*
 * Notes that the event is behind all operations of the communicator; comm NULL: behind none.  The event's
 * lock is held.
 */
void event_note(struct event *e, const struct comm *comm);
/* Returns a reference and the number of the last operation before the event; NULL: none was noted. */
struct outcome *event_outcome_of(struct event *e, uint64_t *number);
/*
 * The result of operation `number` of a lane whose handle is not valid any more.  Between the
 * end of the handle and its outcome lies a moment: COLL_IN_PROGRESS, unless `wait`.
 */
int event_outcome(const struct outcome *outcome, int lane, uint64_t number, int wait);

/*
 * Issues an operation that waits for a position: an event of a stream, or operation `number` of another communicator, or
 * both; either may be NULL.  Takes over both references, also on an error.
 */
int event_await(struct comm *comm, struct stream_event *stream, struct outcome *outcome, int lane,
		uint64_t number);
/* Later work of a stream of the program waits for operation `number`. */
int event_hold_for(const struct outcome *outcome, int lane, const struct caller_stream *stream,
		   uint64_t number);
/* The result of operation `number` of a communicator that is not freed; `wait`: waits for it. */
int event_poll_comm(struct comm *comm, uint64_t number, int wait);

#endif
