/* SPDX-License-Identifier: BSD-3-Clause */
/* limit.h - operations that must be complete by a time that the program has set. */
#ifndef CORE_COMM_LIMIT_H
#define CORE_COMM_LIMIT_H

#include "comm/comm.h"

/* The lock is held in all of these. */

/* The communicator fails if operation `number` is not complete after timeout_us. */
int limit_add(struct comm *comm, uint64_t number, int64_t timeout_us);
/* Fails the communicator if a limit has passed: 1. */
int limit_fail_late(struct comm *comm);
void limit_free(struct comm *comm);

/* The same as limit_fail_late; most communicators have no limits. */
static inline int limit_check(struct comm *comm)
{
	return comm->limits.first ? limit_fail_late(comm) : 0;
}

#endif
