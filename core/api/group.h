/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the operations and splits of the calling thread between coll_group_start and coll_group_end.
 */
#ifndef CORE_API_GROUP_H
#define CORE_API_GROUP_H

#include "comm/comm.h"

struct split;

/* Notes that the open group, if there is one, has an operation on the lane. */
int group_join(struct lane *lane);

/*
 * Adds a split to the open group.  When the group ends, end_all completes and frees the group's splits, a list by
 * split->next in the order of the calls, and returns the first error.
 */
void group_add_split(struct split *split, int (*end_all)(struct split *list));

#endif
