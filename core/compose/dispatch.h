/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.h - the choice of the engine that does a call. */
#ifndef CORE_COMPOSE_DISPATCH_H
#define CORE_COMPOSE_DISPATCH_H

#include "comm/call.h"

/* COLL_ERR_UNSUPPORTED with a message if the backend has neither its own function nor a transport. */
int dispatch_check(const struct lane *lane, int kind);
/*
 * Fills call->engine, and what the engine needs: call->slot and call->algorithm.  COLL_ERR_UNSUPPORTED with a message if
 * no engine does the call.
 */
int dispatch_choose(const struct lane *lane, struct call *call);

#endif
