/* SPDX-License-Identifier: BSD-3-Clause */
/* nodes.c - sorts the ranks of a communicator by node. */
#include "schedule/nodes.h"
#include "base/int_map.h"

#include <stdlib.h>
#include <string.h>

/* Returns the caller's number of the node of rank r. */
static int nodes_name(const int *node, const int *ranks, int r)
{
	return node[ranks ? ranks[r] : r];
}

/*
 * Returns the number of the node of rank r, or -1 without memory.  `last` is the number of the node of rank r - 1.  Most often
 * the ranks of a node follow one another, or the nodes take turns: the map is for all other ranks, since a look-up in it costs
 * more than all else here.
 */
static int nodes_find(const struct nodes *nodes, struct int_map *map, const int *node,
		      const int *ranks, int r, int last)
{
	const int name = nodes_name(node, ranks, r), next = last + 1 < nodes->count ? last + 1 : 0;

	if (r && name == nodes_name(node, ranks, nodes->leader[last]))
		return last;
	if (r && name == nodes_name(node, ranks, nodes->leader[next]))
		return next;
	return int_map_number(map, name);
}

/* Numbers the nodes and finds their leaders.  first[i + 2] becomes the number of ranks on node i. */
static int nodes_number(struct nodes *nodes, struct int_map *map, const int *node, const int *ranks,
			int nranks)
{
	int number = 0;

	for (int r = 0; r < nranks; r++) {
		number = nodes_find(nodes, map, node, ranks, r, number);
		if (number < 0)
			return -1;
		if (number == nodes->count)
			nodes->leader[nodes->count++] = r;
		nodes->node[r] = number;
		nodes->first[number + 2]++;
	}
	return 0;
}

/* Fills in `member`.  Until the end first[i + 1] is the place of the next rank of node i. */
static void nodes_sort(struct nodes *nodes, int nranks)
{
	int *next = nodes->first + 1;

	for (int i = 1; i < nodes->count; i++)
		next[i] += next[i - 1];
	for (int r = 0; r < nranks; r++)
		nodes->member[next[nodes->node[r]]++] = r;
}

int nodes_make(struct nodes *nodes, const int *node, const int *ranks, int nranks)
{
	size_t n = (size_t)nranks;
	struct int_map map = {0};
	int code;

	*nodes = (struct nodes){.node = calloc(4 * n + 2, sizeof(int))};
	if (!nodes->node)
		return -1;
	nodes->leader = nodes->node + n;
	nodes->member = nodes->leader + n;
	nodes->first = nodes->member + n;
	code = nodes_number(nodes, &map, node, ranks, nranks);
	int_map_free(&map);
	if (code) {
		nodes_free(nodes);
		return -1;
	}
	nodes_sort(nodes, nranks);
	return 0;
}

int nodes_local_rank(const struct nodes *nodes, int rank)
{
	const int *member = nodes->member + nodes->first[nodes->node[rank]];
	int low = 0, high = nodes->first[nodes->node[rank] + 1] - nodes->first[nodes->node[rank]];

	while (low < high) {
		const int middle = low + (high - low) / 2;

		if (member[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void nodes_free(struct nodes *nodes)
{
	free(nodes->node);
	memset(nodes, 0, sizeof(*nodes));
}
