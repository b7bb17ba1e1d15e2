/* SPDX-License-Identifier: BSD-3-Clause */
/* life.h - how a communicator with its parts is made, what its failure ends, and how it is freed. */
#ifndef CORE_COMM_LIFE_H
#define CORE_COMM_LIFE_H

#include "comm/comm.h"

/* Returns a communicator without lanes, or NULL: memory has run out. */
struct comm *comm_blank(int rank, int nranks);
/*
 * Makes the lane LANE_* of a communicator on an opened context.  to_context_rank: the context ranks of the
 * communicator's ranks, copied; NULL: all.  native_split: its endpoint for the backend's own functions, which belongs to
 * *lane from now on unless *lane is NULL; or NULL.  A communicator without lanes belongs to the lane from now on, also on an
 * error. comm NULL: memory had run out, which is an error here.  On an error the caller frees *lane unless it is NULL.
 * The lock is held; lane_free takes it itself, lane_free_unmade does not.
 */
int lane_new(struct lane **lane, struct comm *comm, int index, struct context *context,
	     uint32_t context_id, const int *to_context_rank, struct native_split *native_split);
/* Makes the handle of a communicator whose lanes are made.  The first lane's lock is held. */
int comm_publish(struct comm *comm);
/* comm_blank, lane_new and comm_publish, for a communicator of one lane. */
int comm_new(struct lane **lane, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *to_context_rank);
/*
 * Makes the host lane of the first communicator of an opened native context, whose lock is not held, before its native lane;
 * *host NULL: the context has no host_context.
 */
int lane_new_host(struct context *native, struct lane **host);
void lane_free(struct lane *lane);
/* Frees a host lane, which no other thread knows any more.  No lock is held.  Accepts NULL. */
void lane_free_host(struct lane *host);
/* Frees what comm_new left after an error; the lock is held. */
void lane_free_unmade(struct lane *lane);

/* For comm_client: the communicator has failed, which ends all that is under way. */
void lane_end_all(struct lane *lane, int loud);

#endif
