/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h - what the calling thread has put between coll_group_start and coll_group_end. */
#ifndef CORE_GROUP_H
#define CORE_GROUP_H

#include "comm.h"

struct split;

/* The number of the thread's open group, or 0. */
uint64_t group_current(void);
/* Notes that the open group, if there is one, has an operation on comm. */
int group_join(struct comm *comm);

/* Adds a split that coll_group_end is to complete; a group is open. */
void group_add_split(struct split *split);

#endif
