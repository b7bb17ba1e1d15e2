/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native.h - operations that a backend without a transport does by its own functions.
 *
 * The library hands them over in their order and keeps no object for them: the backend's own stream
 * completes them in that order too, so two numbers tell which are in flight.  The communicator's queue
 * contains only the operations of an open group and the operations behind them.
 */
#ifndef CORE_NATIVE_NATIVE_H
#define CORE_NATIVE_NATIVE_H

#include "comm/call.h"
#include "comm/comm.h"

/* The lock is held in all of these. */

/* The engine of a backend without a transport (native_submit.c), and of one with a transport (native_polled.c). */
extern const struct engine native_engine, polled_engine;

/* Without a transport each communicator has an endpoint and a rendezvous of its own (derive_native.c). */
extern const struct derive derive_native;
/* With a transport the communicators share the endpoint, and may have another for the backend's functions (native_split.c). */
extern const struct derive derive_polled;

/*
 * No native communicator of this id is there any more, or will be made: control messages for it are dropped.  Does nothing
 * without a control channel.
 */
void native_drop_id(const struct context *context, uint32_t context_id);

/* The state of a communicator whose backend has no transport. */
int native_new(struct native **out);
void native_free(struct lane *lane);

/*
 * Fast path: hands a call to the backend's function without making an operation of it.  Returns 1 if the backend has
 * the call, or the communicator has failed, or 0: the call must be queued.
 */
int native_now(struct lane *lane, const struct call *call);
/*
 * Does for unchecked arguments what native_now does for a call.  Returns 0 if the arguments differ from the arguments of the last
 * call of native_now in more than buffers and stream.
 */
int native_again(struct lane *lane, const coll_args_t *args);
/* Does the backend take the buffers of the call where they are?  0: perhaps not. */
int native_takes(struct lane *lane, const struct call *call);
/* Hands over operation `number` after all before it.  Returns 1, or 0: the communicator has failed. */
int native_submit(struct lane *lane, uint64_t number, native_fn slot, const coll_args_t *args);

/*
 * The watcher, or a thread of the program, may have aborted the backend: its streams pass the events behind
 * operations that it has dropped.  So an event that has been seen complete tells nothing if this is true.
 */
int native_may_be_aborted(const struct lane *lane);
/* Has the backend operations in flight? */
int native_busy(const struct lane *lane);
/* Polls the backend.  Returns 1 if operations have completed. */
int native_progress(struct lane *lane);
/* A request or an event refers to the newest operation: its completion must be seen even if many follow it. */
void native_want_marker(struct lane *lane);
/*
 * Other work of the stream follows the newest operation, whose completion must be seen before.  Waits for the operation
 * where it cannot be marked.
 */
int native_mark(struct lane *lane);
/* The same where native_want_marker has asked for it.  For what makes the stream wait for other work. */
int native_mark_wanted(struct lane *lane);
/*
 * The order of streams, for a backend with events; NULL is the own stream.  Later work of the stream `later` waits for
 * the work that is now on the stream `earlier`.
 */
int native_join(struct lane *lane, void *later, void *earlier);
/*
 * Later work of the stream waits for the communicator's earlier operations, whatever their streams, and the later
 * operations wait for the work that is now on the stream; if the backend can do so.
 */
int native_order_stream(struct lane *lane, void *stream);
/* Asks the backend for a failure, also while no operation is in flight. */
void native_check(struct lane *lane);
/* The communicator has failed: ends the work of the backend, if it can. */
void native_abort(struct lane *lane);

/* Writes "3 operations in the hands of backend 'nccl', the last allreduce of 10 float32 (sum)". */
void native_describe(const struct lane *lane, char *text, size_t size);
/* Fails the communicator with the error of the backend. */
void native_fail(struct lane *lane, int code, const coll_error_t *err);
/*
 * The result of a call of the backend's for an event, for the caller to return.  The communicator has failed by then,
 * for the reason that the control channel knows, unless the device alone has refused the call, say for a wrong stream.
 */
int native_refused(struct lane *lane, int code, const coll_error_t *err);

#endif
