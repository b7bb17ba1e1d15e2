/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.h - device buffers that the backend does not reach: host memory stands in for them, and the
 * schedule contains the copies.
 */
#ifndef CORE_COMPOSE_STAGING_H
#define CORE_COMPOSE_STAGING_H

#include "comm/op.h"
#include "comm/staging_sites.h"

struct offload;

/*
 * Finds the kinds of memory of an operation's buffers: op->call.memory and .staged.
 * COLL_ERR_UNSUPPORTED with a message if neither the backend nor staging can use them.
 */
int staging_look(struct op *op);
/* Finds the memory of an operation with staged buffers, before its steps begin. */
int staging_begin(struct op *op);
/* The operation leaves the queue, or is freed. */
void staging_end(struct op *op);
/* Adds the copies to and from staged buffers to an operation's schedule. */
void staging_schedule(struct op *op);

/* All steps before a copy are complete: begins the copy. */
void staging_copy(struct op *op, int step);
/* Waits, for a bounded time, until no copy of the operation is under way. */
void staging_cancel(struct op *op);

/* --- calls with a stream of the program, whose copies are on that stream: see device/offload.h. */

/* Are the operation's device buffers copied on its stream?  Its own function takes them as they are. */
int staging_is_on_stream(const struct op *op);
/* Lays out the buffers of such an operation; returns the bytes that stand for them, and for a factor. */
size_t staging_need(struct op *op);
/* Lists the copies of such an operation, whose schedule and layout are there, for its stream. */
int staging_list(const struct op *op, struct offload *o);

#endif
