/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * again.h - the short way of small calls: a call that repeats an earlier one, of a few short steps, while nothing else is
 * under way on its context.  It runs the same steps by the same engine, and its messages and records are those of any
 * operation; but nobody looks at lists that are known to be empty.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_COMPOSE_AGAIN_H
#define CORE_COMPOSE_AGAIN_H

#include "comm/op.h"

/* Issues the call: 1.  0: it has to go the general way, and nothing was done. */
int again_issue(struct comm *comm, const coll_args_t *args, const void *site);
/* Moves the context as context_progress does: 1.  0: nothing was done, since more is to be looked at than messages. */
int again_poll(struct context *context);

#endif
