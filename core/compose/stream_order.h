/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_order.h - calls with a stream of the program, over a backend that has a transport.
 *
 * The stream tells by a flag when the work before the call is complete, and its input has been copied (device/offload.h): the
 * operation starts then.  The stream waits behind the call until the operation is complete.  Operations complete in
 * their order, so one flag for each communicator, the number of the last complete operation, releases all streams.  A
 * failure releases them too.  No thread may be in a call meanwhile, so the context gets a progress thread.
 *
 * The driver may block a thread that puts work on a stream until that stream moves, which only the progress thread
 * brings about.  So the functions that put work on a stream release the lock meanwhile.
 */
#ifndef CORE_COMPOSE_STREAM_ORDER_H
#define CORE_COMPOSE_STREAM_ORDER_H

#include "comm/op.h"

struct order_group;

/* The lock is held in all of these, except in stream_order_free. */

/*
 * Before op_enqueue, if the call has a stream.  group 0: puts the first half of the work on the stream now; else
 * stream_order_group does that.  Releases the lock meanwhile.  After an error the operation is not enqueued.
 */
int stream_order_begin(struct op *op, uint64_t group);
/*
 * After op_enqueue, which has deferred the operation: the second half, and the operation may start.  Releases the lock
 * meanwhile, so the operation may have ended, or the communicator failed.
 */
void stream_order_hold(struct lane *lane, struct offload *ordered);
/*
 * A group ends.  As with NCCL the group is a call on each of its streams: its first operation waits for all streams,
 * and all streams wait for its last operation.  stream_order_group puts what comes before the operations on the
 * streams, and stream_order_group_end what comes behind the operations, so that communicators of the group may share a
 * stream: no wait comes before the work that another communicator needs.  stream_order_group returns NULL if no
 * operation of the communicator has a stream, or if the communicator has failed.  Both release the lock meanwhile.
 */
struct order_group *stream_order_group(struct lane *lane, uint64_t group);
void stream_order_group_end(struct lane *lane, uint64_t group, struct order_group *calls);
/*
 * Finds the stream that a handle of the program names for a call of the communicator; near: a buffer of the call, or NULL.
 * Releases the lock meanwhile.
 */
int stream_order_find(struct lane *lane, const char *what, void *handle, const void *near,
		      struct caller_stream *stream);
/* Must the operation still wait for a stream?  Fails the communicator if the stream has failed. */
int stream_order_depends(struct op *op);
/*
 * Holds a stream until an earlier operation is complete; `what` names the public function.  Releases the lock
 * meanwhile.
 */
int stream_order_wait(struct lane *lane, const char *what, const struct caller_stream *stream,
		      uint64_t number);
/*
 * All steps of the operation are complete: has its stream copied the result?  Fails the communicator if the stream has
 * failed.
 */
int stream_order_drained(struct op *op);
/* The operation, which has failed, does not wait for streams any more. */
void stream_order_drop(struct op *op);
/* Releases the streams that wait for operations up to `number`. */
void stream_order_release(struct lane *lane, uint64_t number);
/* A held stream does not wait longer than the communicator's timeout.  Returns 1 if the communicator has failed. */
int stream_order_watch(struct lane *lane);
/* The communicator is freed: no operation is under way. */
void stream_order_free(struct lane *lane);

#endif
