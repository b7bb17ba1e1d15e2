/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_split.h - splits that wait for the end of their group. */
#ifndef CORE_API_COMM_SPLIT_H
#define CORE_API_COMM_SPLIT_H

#include "exec/comm.h"

struct split;

/*
 * Waits for the splits of a group, makes their communicators, frees them: COLL_SUCCESS or the first
 * error.
 */
int split_end_all(struct split *list);
/* The next in a group's list. */
struct split **split_next(struct split *split);

/* What each rank of the parent brings. */
struct split_vote {
	int32_t color, key;
	uint32_t context_id; /* rank 0's counts */
};

/*
 * The ranks of the colour of rank `self`, in the new order, to ranks[]: their number; *place becomes
 * that of `self` among them.
 */
int split_order(const struct split_vote *all, int n, int self, int *ranks, int *place);

/*
 * A communicator of the context ranks world[0..n) on the parent's context; its lock is held, and given up
 * for a moment on failure.
 */
int split_new_comm(struct comm *parent, uint32_t context_id, int rank, int n, const int *world,
		   coll_comm_t *out);

/*
 * Without a transport (comm_split_native.c): all of a split, which blocks and holds the lock; and a
 * communicator of the ranks that are not excluded, made by the backend's own shrink.
 */
int split_native(struct comm *comm, int32_t color, int32_t key, coll_comm_t *out);
int split_native_shrink(struct comm *comm, const uint8_t *excluded, coll_comm_t *out);

#endif
