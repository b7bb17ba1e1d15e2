/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survivors.h - how the ranks that coll_comm_shrink has left exchange bytes: by an allgather over the host lane of their
 * communicator, which is made before the backend's endpoint.  A backend without a shrink of its own opens its endpoint over
 * it, and later splits of the communicator meet over it.
 */
#ifndef CORE_NATIVE_SURVIVORS_H
#define CORE_NATIVE_SURVIVORS_H

#include "endpoint/context.h"

/* The coll_exchange_fn of the new context's bootstrap; user: the context. */
int32_t survivors_exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms);

#endif
