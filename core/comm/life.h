/* SPDX-License-Identifier: BSD-3-Clause */
/* life.h - how a communicator with its parts is made, what its failure ends, and how it is freed. */
#ifndef CORE_COMM_LIFE_H
#define CORE_COMM_LIFE_H

#include "comm/comm.h"

/*
 * Makes a communicator of one lane on an opened context.  to_context_rank: the context ranks of its nranks ranks,
 * copied; NULL: all.  On an error the caller frees *comm unless it is NULL.  The lock is held; comm_free
 * takes it itself, comm_free_unmade does not.
 */
int comm_new(struct comm **comm, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *to_context_rank);
/* The same without a handle: for a lane that is one of two (comm/lane.h), or that may be joined to one. */
int comm_new_lane(struct comm **comm, struct context *context, uint32_t context_id, int rank,
		  int nranks, const int *to_context_rank);
/* Makes the handle of a communicator whose lanes are made and joined.  The lock is held. */
int comm_publish(struct comm *comm);
/*
 * Makes the host lane for the first communicator of an opened native context, whose lock is not held; *host NULL: the
 * context has no host_context.
 */
int comm_new_host(struct context *native, struct comm **host);
void comm_free(struct comm *comm);
/* Frees a host lane, which no other thread knows any more.  No lock is held.  Accepts NULL. */
void comm_free_host(struct comm *host);
/* Frees what comm_new left after an error; the lock is held. */
void comm_free_unmade(struct comm *comm);

/* For comm_client: the communicator has failed, which ends all that is under way. */
void comm_end_all(struct comm *comm, int loud);

#endif
