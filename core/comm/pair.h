/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - the communicator of a backend without a transport, and the one over host_context that has its calls on
 * host memory, are one communicator for the program: a failure of one fails the other for the same reason.
 *
 * Each has a lock of its own.  A thread takes the native one's before the other one's; a thread that has the other
 * one's tries to take the native one's for a moment only.  A failure is passed on by a note that the other one reads when it
 * moves next, under its own lock.
 */
#ifndef CORE_COMM_PAIR_H
#define CORE_COMM_PAIR_H

#include "comm/comm.h"

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
/* Operation `number` of host_comm is a call of both sequences (api/staged_order.h).  The lock of comm is held. */
void pair_note_staged(const struct comm *comm, uint64_t number);
/* A stream waits for operation `number` of a communicator, whose lock is held.  Accepts one without a pair. */
void pair_note_held(const struct comm *host_comm, uint64_t number);
/*
 * Of the native one: the last operation of host_comm for which a stream may wait, or 0.  Its lock is held, or its handle
 * pinned.  0 for host_comm.
 */
uint64_t pair_streams_wait(const struct comm *comm);
/* host_comm is freed next; no lock is held.  Accepts a communicator without a pair. */
void pair_end(const struct comm *host_comm);
/*
 * For waits: how far the other one has come, while a call of both sequences is under way; else it does not change.
 * The lock of the communicator is held.
 */
uint64_t pair_moves(const struct comm *comm);
/*
 * A thread that has both locks drives host_comm: its operations that wait for those of the native one read its state,
 * for which they cannot take the lock.
 */
void pair_drive(struct comm *comm);
/* Is the thread that has the lock of host_comm in pair_drive of the native one? */
int pair_is_driven(const struct comm *host_comm, const struct comm *comm);

/* For comm_check: the communicator fails if the other one of the pair is known to have failed. */
void pair_check(struct comm *comm);

#endif
