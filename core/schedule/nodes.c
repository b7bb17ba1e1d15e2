/* SPDX-License-Identifier: BSD-3-Clause */
/* nodes.c - sorts the ranks of a communicator by node. */
#include "schedule/nodes.h"
#include "base/int_map.h"

#include <stdlib.h>
#include <string.h>

/* Fills in *nodes except `first` and `member`.  first[i + 1] becomes the number of ranks on node i. */
static int nodes_number(struct nodes *nodes, struct int_map *map, const int *node, const int *ranks,
			int nranks)
{
	for (int r = 0; r < nranks; r++) {
		int number = int_map_number(map, node[ranks ? ranks[r] : r]);

		if (number < 0)
			return -1;
		if (number == nodes->count)
			nodes->leader[nodes->count++] = r;
		nodes->node[r] = number;
		nodes->local_rank[r] = nodes->first[number + 1]++;
	}
	return 0;
}

int nodes_make(struct nodes *nodes, const int *node, const int *ranks, int nranks)
{
	size_t n = (size_t)nranks;
	struct int_map map = {0};
	int code;

	*nodes = (struct nodes){.node = calloc(5 * n + 1, sizeof(int))};
	if (!nodes->node)
		return -1;
	nodes->local_rank = nodes->node + n;
	nodes->leader = nodes->local_rank + n;
	nodes->member = nodes->leader + n;
	nodes->first = nodes->member + n;
	code = nodes_number(nodes, &map, node, ranks, nranks);
	int_map_free(&map);
	if (code) {
		nodes_free(nodes);
		return -1;
	}
	for (int i = 0; i < nodes->count; i++)
		nodes->first[i + 1] += nodes->first[i];
	for (int r = 0; r < nranks; r++)
		nodes->member[nodes->first[nodes->node[r]] + nodes->local_rank[r]] = r;
	return 0;
}

void nodes_free(struct nodes *nodes)
{
	free(nodes->node);
	memset(nodes, 0, sizeof(*nodes));
}
