/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_shape.c - the shape of a meeting as numbers. */
#include <stdint.h>
#include "bootstrap/tree_shape.h"

/*
 * 256: a root that sends each of so many ranks a table of 128 bytes a rank writes 8 MiB, some milliseconds; a tree
 * costs every rank a second connection.
 */
struct tree_shape tree_shape = {.flat = 256, .fan = 32};

int tree_shape_fan(int nranks)
{
	if (nranks <= tree_shape.flat || nranks <= tree_shape.fan)
		return nranks > 1 ? nranks - 1 : 1;
	return tree_shape.fan;
}

int tree_shape_parent(int index, int nranks)
{
	return (index - 1) / tree_shape_fan(nranks);
}

int tree_shape_first_child(int index, int nranks)
{
	return index * tree_shape_fan(nranks) + 1;
}

int tree_shape_children(int index, int nranks)
{
	const int64_t fan = tree_shape_fan(nranks), left = nranks - 1 - index * fan;

	return (int)(left < 0 ? 0 : left < fan ? left : fan);
}

/* Counts the indices below `index`, and their levels. */
static int tree_shape_walk(int index, int nranks, int *levels)
{
	const int64_t fan = tree_shape_fan(nranks);
	int64_t first = index, last = index, count = 0;

	for (*levels = -1; first < nranks; ++*levels) {
		count += (last < nranks ? last : nranks - 1) - first + 1;
		first = first * fan + 1;
		last = last * fan + fan;
	}
	return (int)count;
}

int tree_shape_size(int index, int nranks)
{
	int levels;

	return tree_shape_walk(index, nranks, &levels);
}

int tree_shape_height(int index, int nranks)
{
	int levels;

	tree_shape_walk(index, nranks, &levels);
	return levels;
}

int tree_shape_depth(int index, int nranks)
{
	int levels = 0;

	for (; index > 0; index = tree_shape_parent(index, nranks))
		levels++;
	return levels;
}
