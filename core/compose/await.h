/* SPDX-License-Identifier: BSD-3-Clause */
/* await.h - operations that wait for a point in the issue order of another lane, or for an event of a stream. */
#ifndef CORE_COMPOSE_AWAIT_H
#define CORE_COMPOSE_AWAIT_H

#include "comm/comm.h"
#include "device/caller_stream.h"

extern const struct engine await_engine;

/*
 * Issues an operation that waits for a point (without an outcome: for none) and for an event of a stream (NULL: for none).
 * Takes over both references, unless it returns an error: COLL_ERR_NO_MEMORY.
 */
int await_issue(struct lane *lane, const struct order_point *point, struct stream_event *event);

#endif
