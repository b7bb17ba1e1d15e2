/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h - a call becomes an operation, of the communicator or of its host lane. */
#ifndef CORE_API_CALLS_H
#define CORE_API_CALLS_H

#include "api/host_memory.h"

/*
 * Checks and issues a call on an entered communicator, or on its host lane.  *issued becomes its lane and its number, unless
 * issued is NULL: other threads may have issued more meanwhile.  site: see struct op.
 */
int call_issue(struct lane *lane, const coll_args_t *args, const void *site, struct issued *issued);
/* The same in the host lane, as host_memory_takes has answered; lane is entered, except while the host lane is. */
int call_issue_on_host(struct lane *lane, const coll_args_t *args, int answer, const void *site,
		       struct issued *issued);

/*
 * Before op_enqueue of a call of the program, on the communicator of the operation, which is entered: the group that
 * the thread has open, its number or 0, takes the communicator; the operation is ordered with the call's stream
 * (meanwhile the lock is released), and its buffers are compared with the buffers of the group.
 */
int call_join(struct op *op, uint64_t group);

#endif
