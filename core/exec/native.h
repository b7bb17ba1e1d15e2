/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native.h - operations that a backend without a transport does whole.
 *
 * They are handed over in their order and not kept: the backend's own stream completes them in that
 * order too, so two numbers say which are under way.  Only what cannot be handed over yet is in the
 * communicator's queue: what an open group holds, and what comes behind that.
 */
#ifndef CORE_EXEC_NATIVE_H
#define CORE_EXEC_NATIVE_H

#include "exec/comm.h"

/* The lock is held in all of these. */

/* What is remembered of a communicator's calls; NULL if its backend has a transport. */
int native_new(struct native **out);
void native_free(struct comm *comm);

/*
 * Fast path: hands a call to the backend's function without making an operation of it.  1: the backend
 * has the call, or the communicator has failed.  0: the call must be queued.
 */
int native_now(struct comm *comm, const struct call *call);
/* Does the backend take the buffers of the call where they are?  0: perhaps not. */
int native_takes(struct comm *comm, const struct call *call);
/* Hands over operation `number`, all before it are done or handed over: 1, or it has failed: 0. */
int native_submit(struct comm *comm, uint64_t number, native_fn slot, const coll_args_t *args);

/* Are there operations in the backend's hands? */
int native_busy(const struct comm *comm);
/* Asks the backend how far it is: 1 if it got on. */
int native_progress(struct comm *comm);
/* Somebody will ask for what was issued last, even when much has followed it. */
void native_want_marker(struct comm *comm);
/*
 * From the first to the last of these the backend may keep operations back, and what it says of its
 * stream is not asked.
 */
void native_defer(struct comm *comm);
void native_undefer(struct comm *comm);

/* "3 operations in the hands of backend 'nccl', the last allreduce of 10 float32" */
void native_describe(const struct comm *comm, char *text, size_t size);
/* The engine has failed. */
void native_fail(struct comm *comm, int code, const coll_error_t *err);

#endif
