/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engines.h - what the folders ask of ENGINE_NATIVE of a lane (engine.h), the only engine that hands operations to a
 * backend, which ends the operations.  A lane may lack the engine, and the engine a function: then there is nothing to
 * do or to say.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_COMM_ENGINES_H
#define CORE_COMM_ENGINES_H

#include "comm/comm.h"

/* The engine that has operations in its hands that have left the queue, or NULL. */
static inline const struct engine *engines_busy(const struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	return native && native->busy && native->busy(lane) ? native : NULL;
}
/* Ends the operations that the backend has completed.  Returns 1 if there were any. */
static inline int engines_progress(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	return native && native->progress ? native->progress(lane) : 0;
}

/* A request refers to the newest operation: its end must be seen even if many follow it. */
static inline void engines_mark(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	if (native && native->mark)
		native->mark(lane);
}
/* The communicator has failed: ends the work of the backend. */
static inline void engines_abort(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	if (native && native->abort)
		native->abort(lane);
}
/* Fails the communicator if the backend has failed. */
static inline void engines_check(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	if (native && native->check)
		native->check(lane);
}
/* The operations of a group start between these two. */
static inline void engines_group_begin(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	if (native && native->group_begin)
		native->group_begin(lane);
}

static inline void engines_group_end(struct lane *lane)
{
	const struct engine *native = lane->engine[ENGINE_NATIVE];

	if (native && native->group_end)
		native->group_end(lane);
}

#endif
