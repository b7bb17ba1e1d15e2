/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the operations and splits of the calling thread between coll_group_start and coll_group_end.
 */
#ifndef CORE_API_GROUP_H
#define CORE_API_GROUP_H

#include "exec/comm.h"

struct split;

/* Notes that the open group, if there is one, has an operation on comm. */
int group_join(struct comm *comm);

/* Adds a split that coll_group_end is to complete; a group is open. */
void group_add_split(struct split *split);

#endif
