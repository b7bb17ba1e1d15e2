/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch.h - the choice between the backend's own function and an algorithm over its transport, and
 * between the algorithms.
 */
#ifndef CORE_EXEC_DISPATCH_H
#define CORE_EXEC_DISPATCH_H

#include "exec/call.h"

struct op;

/* The backend's own function for a kind of operation, or NULL. */
native_fn dispatch_native(const struct comm *comm, int kind);
/* The backend's own function for a call whose kinds of memory are known, or NULL. */
native_fn dispatch_slot(const struct comm *comm, const struct call *call);
/* COLL_ERR_UNSUPPORTED with a message if the backend has neither its own function nor a transport. */
int dispatch_check(const struct comm *comm, int kind);
/* Does the backend's function `takes` see whether a call is in place? */
int dispatch_asks_place(const struct comm *comm);
/*
 * Fills call->slot and call->algorithm.  COLL_ERR_UNSUPPORTED with a message if neither exists or if a
 * backend without a transport declines the call.
 */
int dispatch_choose(const struct comm *comm, struct call *call);
/* Fills op->sched: the steps of its algorithm and, if buffers are staged, the copies. */
int dispatch_build(struct op *op);
/* The same, unless the schedule is there. */
int dispatch_ready(struct op *op);

#endif
