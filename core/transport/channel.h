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
 * Both endpoints belong to the communicator that coll_comm_init_* made, and serve those made from it.
 */
#ifndef CORE_TRANSPORT_CHANNEL_H
#define CORE_TRANSPORT_CHANNEL_H

#include "transport/context.h"

/*
 * Opens both endpoints of `plugin` for the ranks of context->bootstrap, and starts to watch the ranks: on all ranks or on
 * none.  Collective.  A rank alone has nobody to watch, and no control channel.
 */
int channel_open(struct context *context, const struct plugin *plugin);
/*
 * Closes what channel_open has opened for the context, whose communicators are freed.  Before that the control channel tells
 * the other ranks that this rank leaves, which is no failure.
 */
void channel_close(struct channel *channel, struct context *host_context, int64_t timeout_ms);

/* ---- Of a native context; most of these are in watcher.c.  Without a control channel these functions do nothing. */

/*
 * From now on the loss of a rank of the context raises its alarm, and control messages with this tag are for it.
 */
void channel_watch(struct context *context, uint64_t tag);
/* Afterwards the watcher does not know the context any more.  The caller holds no lock. */
void channel_forget(struct context *context);
/*
 * The communicator of the context is destroyed, though events may still hold the context: forgets the context, and
 * tells the other ranks that this rank leaves if it was the last that is watched.  The caller holds no lock.
 */
void channel_leave(struct context *context, int64_t timeout_ms);

/* The next control message that has come for the context, from a rank of it, or NULL; free() frees it. */
struct unexpected *channel_take(struct context *context);
/* The context of the control channel, or NULL. */
struct context *channel_control(const struct context *context);
/*
 * The calling thread takes the messages that have come for the channel, unless the watcher holds them locked for long.
 * The lock of the context is held.
 */
void channel_poll(const struct context *context);

/*
 * The communicator has failed for a reason that did not come over the channel: asks the watcher to abort the backend, and
 * has the next context_progress of the context call client->check.
 */
void channel_end(struct context *context);
/* Waits until the channel knows of the loss or the failure of another rank, at most so long. */
void channel_await(const struct context *context, int64_t timeout_ms);
/*
 * Around the backend's shrink of the context, which its abort would end.  The first waits until the watcher has aborted the
 * backend for an earlier failure, at most so long.  From then on the watcher aborts it if a survivor says that it has failed
 * itself, and puts off other aborts until the second: an excluded rank may end meanwhile.
 */
void channel_shrink_begin(struct context *context, const struct context_making *making,
			  int64_t timeout_ms);
void channel_shrink_end(struct context *context);
/*
 * COLL_SUCCESS, or COLL_ERR_PEER_LOST if the channel has lost a rank of the context.  For a context that is not
 * watched yet; its `origin` is set.
 */
int channel_check_ranks(const struct context *context);
/* Has the channel lost that rank of the context? */
int channel_has_lost(const struct context *context, int rank);

/* Around fork: no channel changes meanwhile; the child has none. */
void channel_fork_lock(void);
void channel_fork_unlock(void);
void channel_forked(void);

#endif
