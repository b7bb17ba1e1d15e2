/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_order.h - calls with a stream of the program, over a backend that has a transport.
 *
 * An event on the stream tells when the work before the call is complete: the operation starts then.  The stream
 * is held behind the call until the operation is complete.  Operations complete in their order, so one word for
 * each communicator, the number of the last complete operation, releases all streams.  A failure releases them
 * too.  No thread may be in a call meanwhile, so the context gets a progress thread.
 */
#ifndef CORE_EXEC_STREAM_ORDER_H
#define CORE_EXEC_STREAM_ORDER_H

#include "exec/op.h"

/* The lock is held in all of these, except in stream_order_free. */

/*
 * Before op_enqueue, if the call has a stream.  group 0: records the event now; else stream_order_group does it.
 * After an error the operation is not enqueued.
 */
int stream_order_begin(struct op *op, uint64_t group);
/* Holds the stream until operation `number` is complete; the communicator fails if that is impossible. */
void stream_order_hold(struct comm *comm, int kind, void *stream, uint64_t number);
/*
 * A group ends.  As with NCCL the group is a call on each of its streams: its first operation waits for all
 * of them, and all of them wait for its last operation.
 */
void stream_order_group(struct comm *comm, uint64_t group);
/* Must the operation still wait for a stream?  Fails the communicator if the stream has failed. */
int stream_order_gated(struct op *op);
/* Holds a stream until an earlier operation is complete; `what` names the public function. */
int stream_order_wait(struct comm *comm, const char *what, void *stream, uint64_t number);
/* The operation does not wait for streams any more. */
void stream_order_drop(struct op *op);
/* Releases the streams that wait for operations up to `number`. */
void stream_order_release(struct comm *comm, uint64_t number);
/* A held stream does not wait longer than the communicator's timeout: 1 if the communicator has failed. */
int stream_order_watch(struct comm *comm);
/*
 * Keeps pinned memory until the communicator is freed: CUDA frees such memory only when the device is idle, and
 * a stream may be held.
 */
int stream_order_park(struct comm *comm, void *pinned);
/* The communicator is freed: no operation is under way. */
void stream_order_free(struct comm *comm);

#endif
