/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic.h - what goes over an endpoint: messages, control messages, and the copies of their bytes to and from devices.
 * Each context has a `struct traffic`; it lies around the context, so that the way from context to traffic costs nothing.
 *
 * A native context (of a backend without a transport) has no messages here; its channel (transport/channel.h) has.
 */
#ifndef CORE_TRANSPORT_TRAFFIC_H
#define CORE_TRANSPORT_TRAFFIC_H

#include "algorithm/selection.h"
#include "device/caller_stream.h"
#include "device/copies.h"
#include "endpoint/context.h"
#include "transport/match.h"

struct channel;
struct control;

/* What the messages need of the folders to the right.  The context's lock is held in all functions but `ends`. */
struct traffic_client {
	/* Copies n bytes to dst, the place that the receive has for them in device memory. */
	int (*fill)(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
	/* An unexpected message has come (no receive is posted for it).  Returns 0 to keep it, 1 to drop it. */
	int (*check_unexpected)(struct context *context, uint32_t peer,
				const coll_header_t *header);
	/*
	 * There is no memory for an unexpected message.  Returns 0 to drop its payload, or an error code to refuse the
	 * message.
	 */
	int (*no_memory)(struct context *context, uint32_t peer, const coll_header_t *header);
	/* A message has come that does not fit the receive posted for it. */
	void (*mismatch)(struct context *context, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header);
	/*
	 * Of a native context with a control channel: called some times a second by the watcher, for a program that may
	 * wait outside the library.  Returns 1 if it may.
	 */
	int (*watch)(struct context *context);
	/* Does a control message of this kind end the communicator?  Any thread may ask, without the lock. */
	int (*ends)(int kind);
};

struct traffic {
	struct context context; /* the first member: see traffic_of */
	const struct traffic_client *client;
	struct match match;
	struct control *controls;   /* control messages being sent */
	struct copies copies;       /* to and from devices */
	struct stream_home home;    /* of the default streams that calls name */
	struct selection selection; /* rank 0's, by which calls become messages */
	/*
	 * See channel.h; NULL: none.  The channel belongs to the first of the contexts that were derived
	 * from one another.
	 */
	struct channel *channel;
	struct context *next_watched; /* in the channel's list */
	uint64_t control_tag; /* of the control messages of its communicator; 0: not watched yet */
	/* The shrink of the backend that runs, which the watcher spares: see channel_derive_open; else NULL. */
	const struct context_making *shrinking;
};

static inline struct traffic *traffic_of(const struct context *context)
{
	return (struct traffic *)(uintptr_t)context;
}

/* The functions of struct context_client for the traffic of a context; the first takes the client too. */
void traffic_begin(struct context *context, const struct context_parts *parts,
		   const struct traffic_client *client);
void traffic_opened(struct context *context);
void traffic_free(struct context *context);

/* Sends a control message over the endpoint of the context, which has a transport: see context_send_control. */
void traffic_send_control(struct context *context, int peer, uint64_t tag,
			  const struct control_body *body, const void *bytes, size_t len);
/* Frees the control messages that are sent.  Returns 1 if there were any. */
int traffic_reap_controls(struct context *context);
/* Are control messages of the endpoint still being sent? */
int traffic_is_sending(struct context *context);

#endif
