/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - the communicator of a backend without a transport, and the one over host_context that has its calls on
 * host memory, are one communicator for the program: a failure of one fails the other for the same reason.
 *
 * Each has a lock of its own.  A thread takes the native one's before the other one's; a thread that has the other
 * one's tries to take the native one's for a moment only.  A failure is passed on by a note that the other one reads when it
 * moves next, under its own lock.
 */
#ifndef CORE_EXEC_PAIR_H
#define CORE_EXEC_PAIR_H

#include "exec/comm.h"

/* Makes host_comm that of comm, which takes it over.  Both are new, and nobody else knows them. */
int pair_make(struct comm *comm, struct comm *host_comm);
/* host_comm is freed already.  Accepts a communicator without a pair. */
void pair_free(struct comm *comm);

/* The lock of the communicator is held, also in pair_check.  It has failed: the other one will fail. */
void pair_failed(const struct comm *comm);
/*
 * The lock of comm is held.  Takes that of the other communicator too, to read it: NULL without a pair, or if the lock
 * is not free soon.
 */
struct comm *pair_lock_other(const struct comm *comm);
void pair_unlock_other(struct comm *other);

/* For comm_check: the communicator fails if the other one of the pair is known to have failed. */
void pair_check(struct comm *comm);

#endif
