/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nodes.h - the ranks of a communicator by node.  A communicator makes the table once.  A schedule
 * then finds the ranks of one node, or one rank of each node, without a walk over all ranks.
 */
#ifndef CORE_SCHEDULE_NODES_H
#define CORE_SCHEDULE_NODES_H

struct nodes {
	int count;
	int *node;   /* per rank: the number of its node; nodes are numbered by their lowest rank */
	int *leader; /* per node: its lowest rank */
	int *first;  /* per node, and one more: where its ranks begin in `member` */
	int *member; /* the ranks node by node, ascending within each node */
};

/*
 * Makes the table.  Rank r is on the node that node[ranks[r]] names (ranks NULL: node[r]); any numbers can name the nodes.
 * Returns 0, or -1 without memory.
 */
int nodes_make(struct nodes *nodes, const int *node, const int *ranks, int nranks);
void nodes_free(struct nodes *nodes);
/* Returns the rank's index among the ranks of its node. */
int nodes_local_rank(const struct nodes *nodes, int rank);

#endif
