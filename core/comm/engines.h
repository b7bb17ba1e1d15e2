/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engines.h - what the folders ask of all engines of a communicator (engine.h).  An engine without the function has nothing
 * to do or to say.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_COMM_ENGINES_H
#define CORE_COMM_ENGINES_H

#include "comm/comm.h"

/*
 * Of a communicator only ENGINE_NATIVE hands operations to a backend that ends them.  Every wait calls these two, which
 * therefore look at no other engine.
 */
/* The engine that has operations in its hands that have left the queue, or NULL. */
static inline const struct engine *engines_busy(const struct comm *comm)
{
	const struct engine *native = comm->engine[ENGINE_NATIVE];

	return native && native->busy && native->busy(comm) ? native : NULL;
}
/* Ends the operations that the backend has completed: 1 if any. */
static inline int engines_progress(struct comm *comm)
{
	const struct engine *native = comm->engine[ENGINE_NATIVE];

	return native && native->progress ? native->progress(comm) : 0;
}

/* A request refers to the newest operation: its end must be seen even if many follow it. */
void engines_mark(struct comm *comm);
/* The communicator has failed: ends the work of the backends. */
void engines_abort(struct comm *comm);
/* Fails the communicator if a backend has failed. */
void engines_check(struct comm *comm);
/* The operations of a group start between these two. */
void engines_group_begin(struct comm *comm);
void engines_group_end(struct comm *comm);

#endif
