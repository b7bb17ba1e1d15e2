/* SPDX-License-Identifier: BSD-3-Clause */
/* star_tree.c - the shape of a meeting as numbers. */
#include <stdint.h>
#include "bootstrap/star_tree.h"

/*
 * 256: a root that sends each of so many ranks a table of 128 bytes a rank writes 8 MiB, some milliseconds; a tree
 * costs every rank a second connection.
 */
struct star_shape star_shape = {.flat = 256, .fan = 32};

int star_tree_fan(int nranks)
{
	if (nranks <= star_shape.flat || nranks <= star_shape.fan)
		return nranks > 1 ? nranks - 1 : 1;
	return star_shape.fan;
}

int star_tree_parent(int seat, int nranks)
{
	return (seat - 1) / star_tree_fan(nranks);
}

int star_tree_children(int seat, int nranks)
{
	const int64_t fan = star_tree_fan(nranks), left = nranks - 1 - seat * fan;

	return (int)(left < 0 ? 0 : left < fan ? left : fan);
}

/* Counts the seats below `seat`, and their levels. */
static int star_tree_walk(int seat, int nranks, int *levels)
{
	const int64_t fan = star_tree_fan(nranks);
	int64_t first = seat, last = seat, count = 0;

	for (*levels = -1; first < nranks; ++*levels) {
		count += (last < nranks ? last : nranks - 1) - first + 1;
		first = first * fan + 1;
		last = last * fan + fan;
	}
	return (int)count;
}

int star_tree_size(int seat, int nranks)
{
	int levels;

	return star_tree_walk(seat, nranks, &levels);
}

int star_tree_height(int seat, int nranks)
{
	int levels;

	star_tree_walk(seat, nranks, &levels);
	return levels;
}
