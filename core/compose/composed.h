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
#include "device/offload.h"
#include "schedule/nodes.h"

struct context;

/* What the engine keeps of a communicator. */
struct composed {
	struct nodes nodes;           /* on which the ranks run */
	int cpus;                     /* CPUS_* of the host of rank 0, for rules */
	int takes_turns;              /* all ranks are on one host, and share processors */
	uint32_t cut_messages;        /* messages ever sent in pieces */
	struct offload_pool offloads; /* memory that stands in for device buffers */
};

extern const struct engine composed_engine;

int composed_new(struct lane *lane);
void composed_free(struct lane *lane);

/* The name of the algorithm of a call, or NULL: it has none. */
const char *composed_algorithm(const struct call *call);
/* Fills call->algorithm; COLL_ERR_UNSUPPORTED with a message if there is none. */
int composed_choose(const struct lane *lane, struct call *call);

/*
 * Moves a context on which one composed operation is under way and nothing else is to be looked at, as context_progress
 * does, and returns 1.  Returns 0 if context_progress is due.
 */
int composed_poll(struct context *context);
/*
 * Fills op->sched, unless the plan has it: the steps of its algorithm and, if buffers are staged, the copies
 * (composed_build.c).
 */
int composed_build(struct op *op);

#endif
