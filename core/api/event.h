/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - what the two kinds of event share. */
#ifndef CORE_API_EVENT_H
#define CORE_API_EVENT_H

#include "exec/comm.h"

struct event {
	pthread_mutex_t lock;
	coll_comm_t comm; /* where it was recorded, or NULL: complete, or recorded on a stream */
	uint64_t number;  /* the last operation before it */
	struct context *context; /* held: its backend made `native`; or NULL */
	void *native;
	int on_stream; /* `native` says when it is complete */
};

/* Are events the backend's own?  They order what runs on streams, so only without a transport. */
int event_has_streams(const struct context *context);

/*
 * The backend's own events (event_native.c).  The communicator is entered, except in the last two.
 */
int event_native_make(struct event *e, struct comm *comm);
/* Is the event of the communicator's backend? */
int event_native_check(const struct event *e, const struct comm *comm);
/* stream NULL: the communicator's own. */
int event_native_record(struct event *e, struct comm *comm, coll_stream_t stream);
int event_native_wait(struct event *e, struct comm *comm, coll_stream_t stream);
int event_native_ask(struct event *e, int wait);
void event_native_free(struct event *e);

#endif
