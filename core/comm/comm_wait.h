/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_wait.h - waits for the operations of a communicator.  The lock is held in all functions. */
#ifndef CORE_COMM_COMM_WAIT_H
#define CORE_COMM_COMM_WAIT_H

#include "comm/comm.h"

/* Fails the communicator if another thread has aborted it before operation `number` was done. */
void comm_check_aborted(struct comm *comm, uint64_t number);
/* Does the open group of this thread contain one of the operations up to `number`? */
int comm_is_deferred(const struct comm *comm, uint64_t number);
/* A wait of a call that has entered the communicator. */
struct comm_wait {
	struct comm *comm;
	const struct message *message; /* the one that is waited for; NULL: none */
	/*
	 * A context_wait_or_leave.  CONTEXT_LOST: the call returns comm_leave_lost.  A thread that is cancelled leaves the
	 * communicator.
	 */
	int leaves;
	void *handle; /* that the call has pinned too; NULL: none */
};

/* Waits until operation `number` is done; the lock is held.  The second leaves. */
int comm_wait(struct comm *comm, uint64_t number);
int comm_wait_or_leave(struct comm *comm, uint64_t number, void *handle);
/*
 * Waits until done(arg), which includes that the communicator has failed or was aborted.  The others are asked, and the
 * communicator fails after its timeout, as in comm_wait.  The lock is held.  0, or CONTEXT_LOST.
 */
int comm_wait_until(const struct comm_wait *wait, int (*done)(void *arg), void *arg);

/*
 * Waits, for a bounded time, until the control messages about a failure have been sent.  The second is a
 * context_wait_or_leave: 0, or CONTEXT_LOST.
 */
void comm_flush(struct comm *comm);
int comm_flush_or_leave(struct comm *comm);

#endif
