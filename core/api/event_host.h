/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_host.h - events of a backend with device streams, and the calls on host memory of its communicators
 * (comm/lane.h): an event has a position of both.
 *
 * The calls on host memory wait for events only when there is such a call: programs without them pay for a short list.
 * The native communicator is entered in all functions but event_host_poll.
 */
#ifndef CORE_API_EVENT_HOST_H
#define CORE_API_EVENT_HOST_H

#include "api/event.h"

/* Has the open group of this thread calls on host memory of the communicator? */
int event_host_is_deferred(const struct comm *comm);
/* The backend has recorded the event, whose lock is held.  After an error calls on host memory do not wait for it. */
int event_host_record(struct event *e, struct comm *comm, coll_stream_t stream);
/* Later work of a stream (NULL: of the communicator) waits for it. */
int event_host_wait(struct event *e, struct comm *comm, coll_stream_t stream);
int event_host_poll(struct event *e, int wait);

/* Makes lanes->event_host, unless there is one. */
int event_host_make(struct comm *comm);
void event_host_free(struct comm *comm);
/* The next call of host_comm waits for a position.  lanes->event_host is made; takes over the references. */
int event_host_add(struct comm *comm, struct outcome *outcome, int lane, uint64_t number,
		   struct stream_event *stream_event);
/* Before a call of host_comm is issued: the call waits for the positions that event_host_add has added. */
int event_host_begin(struct comm *comm);
/* The stream through which the backend's own stream waits for calls of host_comm. */
int event_host_gate(struct comm *comm, void **gate);

#endif
