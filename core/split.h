/* SPDX-License-Identifier: BSD-3-Clause */
/* split.h - splits that wait for the end of their group. */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

#include "comm.h"

struct split;

/* Waits for a split that was begun, makes its communicator, frees `split`. */
int split_end(struct split *split);
/* The next in a group's list. */
struct split **split_next(struct split *split);

/*
 * A communicator of the link ranks world[0..n) on the parent's link; its lock is held, and given up
 * for a moment on failure.
 */
int split_new_comm(struct comm *parent, uint32_t context, int rank, int n, const int *world,
		   coll_comm_t *out);

#endif
