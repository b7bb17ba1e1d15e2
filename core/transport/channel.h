/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - what a transport does beside a backend that has none.  Two endpoints of the transport's plugin, each with a
 * context of its own, serve the communicators of such a native backend:
 *
 *     the control channel   carries their control messages, and notices the end of a rank's process
 *     host_context          has their calls on host memory (comm/lane.h)
 *
 * One thread of the process, the watcher, drives the control channels of all communicators.  Calls of the program may keep
 * host_context's lock for long, may leave its messages unread, and may run functions of the program there; nothing of this
 * may delay the news of a failure.  So the control channel is an endpoint of its own, whose lock everybody holds for a
 * moment only.  Of the native backend the watcher calls only `abort`.
 *
 * A backend with a transport that does not hear of every rank's death (COLL_BACKEND_COMPANION) has a control channel alone, which
 * carries no messages of communicators: the watcher notes the loss of a rank there, and the next call on the backend's context
 * takes it for a loss that the transport has reported (channel_report_lost).
 *
 * Both endpoints belong to the communicator that coll_comm_init_* made, and serve the communicators made from it.
 */
#ifndef CORE_TRANSPORT_CHANNEL_H
#define CORE_TRANSPORT_CHANNEL_H

#include "transport/traffic.h"

/*
 * Opens both endpoints of `plugin` for the ranks of context->bootstrap, or beside a transport the control channel alone, and
 * starts to watch the ranks: on all ranks or on none.  Collective.  A rank alone has nobody to watch, and no control channel.
 */
int channel_open(struct context *context, const struct plugin *plugin);

/* ---- For contexts with or without a channel; the functions of struct context_client are among them */

/*
 * Returns the next control message with this tag that has come from a rank of the context, over its transport or its
 * control channel, or NULL.  The caller frees it with free().
 */
struct unexpected *channel_take(struct context *context, uint64_t tag);

/*
 * Sends a control message over the transport of the context, or over its control channel, or nowhere.  Any thread may call it
 * for a native context, with or without the lock.
 */
void channel_send(struct context *context, int peer, uint64_t tag, const struct control_body *body,
		  const void *bytes, size_t len);
/* The context has a transport: reports the ranks that its channel has lost as the transport would.  The lock is held. */
void channel_report_lost(struct context *context);
/* Has the channel lost that rank of the context? */
int channel_has_lost(const struct context *context, int rank);
/* Wakes the watcher, which aborts the backend: see context_failed. */
void channel_end(struct context *context);
/* The watcher does not know the context any more.  The caller holds no lock. */
void channel_forget(struct context *context);
/*
 * The endpoint of the context is closed: closes what channel_open has opened for the context.  Before that the control channel
 * tells the other ranks that this rank leaves, which is no failure.
 */
void channel_close(struct context *context, int64_t timeout_ms);

/* ---- Of a context with a control channel; most of these are in watcher.c.  Without one these functions do nothing. */

/*
 * From now on the watcher notes the loss of a rank, in the failure notice of a native context or for channel_report_lost, and
 * control messages with this tag are for the context.
 */
void channel_watch(struct context *context, uint64_t tag);
/*
 * The communicator of the context is destroyed, though events may still hold the context: forgets the context, and
 * tells the other ranks that this rank leaves if it was the last that is watched.  Does nothing to a context with a transport,
 * which may have other communicators.  The caller holds no lock.
 */
void channel_leave(struct context *context, int64_t timeout_ms);

/* The context of the control channel, or NULL. */
struct context *channel_control(const struct context *context);
/*
 * The calling thread takes the messages that have come for the channel, unless the watcher holds them locked for long.
 * The lock of the context is held.
 */
void channel_poll(const struct context *context);

/* Waits until the channel knows of the loss or the failure of another rank, at most so long. */
void channel_await(const struct context *context, int64_t timeout_ms);
/*
 * A context_derive_open beside a channel.  Of a shrink, which the backend's abort would end: first waits until the watcher
 * has aborted the backend for an earlier failure, within the timeout.  From then on the watcher aborts it if a survivor says
 * that it has failed itself, and puts off other aborts until the shrink is over: an excluded rank may end meanwhile.  After a
 * failure: COLL_ERR_PEER_LOST if the channel has lost a rank of the context.
 */
int channel_derive_open(struct context *context, const struct context_making *making);

/* An endpoint was opened, after wait_watch_forks: from now on a fork locks the channels, and then the list of contexts. */
void channel_watch_forks(void);

#endif
