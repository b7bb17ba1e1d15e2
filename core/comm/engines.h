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
static inline const struct engine *engines_busy(const struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	return native && native->busy && native->busy(lane) ? native : NULL;
}
/* Ends the operations that the backend has completed: 1 if any. */
static inline int engines_progress(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	return native && native->progress ? native->progress(lane) : 0;
}

/* A request refers to the newest operation: its end must be seen even if many follow it. */
void engines_mark(struct lane *lane);
/* The communicator has failed: ends the work of the backends. */
void engines_abort(struct lane *lane);
/* Fails the communicator if a backend has failed. */
void engines_check(struct lane *lane);
/* The operations of a group start between these two. */
void engines_group_begin(struct lane *lane);
void engines_group_end(struct lane *lane);

#endif
