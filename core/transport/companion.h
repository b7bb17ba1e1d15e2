/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion.h - a transport endpoint beside a backend that has none: through it a rank that dies is named, and
 * the ranks of a communicator exchange control messages.
 *
 * A companion belongs to the communicator that coll_comm_init_* made, and serves those made from it.  One
 * thread of the process, the watcher, drives all companions.  A companion has a context of its own, so the
 * watcher waits for no lock that a call of the application may hold for long; of the native backend it calls
 * only `abort`.
 */
#ifndef CORE_TRANSPORT_COMPANION_H
#define CORE_TRANSPORT_COMPANION_H

#include "transport/context.h"

/*
 * Opens the endpoint of `plugin` for the ranks of context->bootstrap, and starts to watch them: on all ranks or
 * on none.  Collective.
 */
int companion_open(struct context *context, const struct plugin *plugin);
/* Tells the other ranks that this rank leaves, which is no failure, and closes the endpoint. */
void companion_close(struct companion *companion, int64_t timeout_ms);

/* The next control message that has come for the context, or NULL; the caller frees it with free(). */
struct unexpected *companion_receive(struct context *context);

/*
 * From now on the loss of a rank of the context raises its alarm, and control messages come; nothing without a
 * companion.
 */
void companion_watch(struct context *context);
/* Afterwards the watcher does not know the context any more.  The caller holds no lock. */
void companion_forget(struct context *context);

/*
 * The communicator of the context is destroyed, though events may still hold the context: forgets the context, and
 * tells the other ranks that this rank leaves if it was the last that is watched.  The caller holds no lock.
 */
void companion_leave(struct context *context, int64_t timeout_ms);

/*
 * The calling thread takes the messages that have come for the companion, unless the watcher holds them locked for long.
 * The lock of the context is held.
 */
void companion_poll(const struct context *context);

/* The communicator has failed for another reason: the watcher aborts the backend, and a call of it learns of it. */
void companion_end(struct context *context);

/*
 * Waits until the companion knows of the loss or the failure of another rank, at most so long; not without a
 * companion.
 */
void companion_await(const struct context *context, int64_t timeout_ms);
/*
 * Around the backend's shrink of the context, which its abort would end.  The first waits until the watcher has aborted the
 * backend for an earlier failure, at most so long.  From then on the watcher aborts it if a survivor says that it has failed
 * itself, and puts off other aborts until the second: an excluded rank may end meanwhile.
 */
void companion_shrink_begin(struct context *context, const struct context_making *making,
			    int64_t timeout_ms);
void companion_shrink_end(struct context *context);
/*
 * COLL_SUCCESS, or COLL_ERR_PEER_LOST if the companion has lost a rank of the context.  For a context that is not
 * watched yet; its `origin` is set.
 */
int companion_check_ranks(const struct context *context);
/* Has the companion lost that rank of the context? */
int companion_has_lost(const struct context *context, int rank);

/* Around fork: no companion changes meanwhile; the child has none. */
void companion_fork_lock(void);
void companion_fork_unlock(void);
void companion_forked(void);

#endif
