/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * composed.h - the engine that does calls by messages over the backend's transport: an algorithm appends the steps of a
 * schedule (schedule/sched.h), and steps.h runs them.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_COMPOSE_COMPOSED_H
#define CORE_COMPOSE_COMPOSED_H

#include "engine.h"
#include "comm/call.h"

extern const struct engine composed_engine;

/* Fills call->algorithm; COLL_ERR_UNSUPPORTED with a message if there is none. */
int composed_choose(const struct comm *comm, struct call *call);

/* --- composed_build.c */

/* Fills op->sched: the steps of its algorithm and, if buffers are staged, the copies. */
int composed_build(struct op *op);
/* The same, unless the schedule is there. */
int composed_ready(struct op *op);

#endif
