/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.h - the signatures of the last collectives of a communicator, compared with those in the messages of other
 * ranks.  The lock is held in all functions.
 */
#ifndef CORE_EXEC_HISTORY_H
#define CORE_EXEC_HISTORY_H

#include "exec/comm.h"

/* Fails the communicator soon if collective `seq` of that rank, by its signature, is another one here. */
void comm_compare(struct comm *comm, int rank, uint32_t seq, const uint64_t *meta);
/* CONTROL_LEAVE: keeps the calls of a rank that has left; compares them: 1 if one is another here. */
void comm_keep_last_calls(struct comm *comm, int rank, const void *bytes, size_t len);
int comm_compare_last_calls(struct comm *comm, int rank);
void comm_free_last_calls(struct comm *comm);
/* The same for a message that no receive awaits: 1 if the collective is another one here. */
int comm_differs(struct comm *comm, int rank, uint32_t seq, const uint64_t *theirs);
/* Compares the newest collective with the messages that came for it, and notes it for the ranks' comparison. */
void comm_compare_newest(struct comm *comm);

#endif
