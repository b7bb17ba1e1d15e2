/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - the same call again.
 *
 * What the library decides for a call, it decides once.  The decisions are the plan of the call: its checked arguments,
 * engine, algorithm and signature, its schedule, and the messages of that.  An operation is a plan under way; when it has
 * finished, its communicator keeps it as a plan (lane->queue.plans).  A call looks for a plan in one way, and the
 * arguments that call and plan have in common say what the call skips (enum plan_fit in plan.c):
 *
 *                 equal arguments                      the call skips
 *     PLAN_ALIKE  kind, type, operation, root, flags   the checks of these
 *     PLAN_FITS   the count too                        the choice of an engine and an algorithm; the schedule
 *     PLAN_SAME   buffers, stream, tag, scalar too     all checks; the addresses in messages
 *
 * The kinds of memory are looked up again for each call, since the program may have freed a buffer and allocated another
 * one there: a plan for other kinds of memory is void.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_COMM_PLAN_H
#define CORE_COMM_PLAN_H

#include "comm/call.h"

struct lane;
struct op;

/* How many plans of each kind of call a call looks at: more are kept only if as many operations were under way at once. */
enum { PLANS = 16 };

/* How far a plan is made; each stage includes the stages before it.  Engines bring a plan to the last three. */
enum plan_stage {
	PLAN_VOID,
	PLAN_CHOSEN, /* op->call is complete */
	PLAN_BUILT,  /* op->sched belongs to the call */
	PLAN_FILLED, /* op->run has the parts of messages that are the same each time the schedule runs */
	PLAN_PLACED /* op->run has the addresses of the call's buffers and of op->scratch */
};

/*
 * Returns the operation of a finished call that was the same (PLAN_SAME), idle and out of the plans, or NULL: there is
 * none.  The kind is valid.
 */
struct op *plan_again(struct lane *lane, const coll_args_t *args);
/* Returns an earlier call that is at least PLAN_ALIKE, valid until the next operation is made, or NULL: none is known. */
const struct call *plan_alike(const struct lane *lane, const coll_args_t *args);

#endif
