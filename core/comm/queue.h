/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the operations of a communicator in their order. */
#ifndef CORE_COMM_QUEUE_H
#define CORE_COMM_QUEUE_H

#include "comm/op.h"

/* The context's lock is held in all of these. */

/* Moves the operations of the communicator: 1 if any moved. */
int queue_progress(struct comm *comm);
/* The same, but does not poll a backend for operations it does whole. */
int queue_run(struct comm *comm);
/* Before a thread sleeps: looks at the operations that queue_progress may not have looked at: 1 if any moved. */
int queue_look_at_all(struct comm *comm);
/* After an operation was enqueued: starts it if it can start, then moves the context. */
void queue_issued(struct comm *comm);
/* Ends every operation of the communicator. */
void queue_cancel(struct comm *comm);

#endif
