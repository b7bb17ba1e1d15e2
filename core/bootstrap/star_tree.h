/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star_tree.h - the shape of a meeting: which rank sends to which; numbers only, no function here calls the system.
 *
 * The ranks take seats in the order in which they reach the root, which has seat 0.  The seats form a tree: the
 * children of seat s are the seats s * fan + 1 to s * fan + fan, as far as there are so many ranks.  Up to
 * star_shape.flat ranks every rank is a child of the root.
 *
 * Shapes are a pure function of the number of ranks, so that all ranks agree without a message.
 */
#ifndef CORE_BOOTSTRAP_STAR_TREE_H
#define CORE_BOOTSTRAP_STAR_TREE_H

/* The same on all ranks.  Only tests change it. */
struct star_shape {
	int flat; /* the most ranks that all are children of the root */
	int fan;  /* the most children of a rank where there are more ranks */
};
extern struct star_shape star_shape;

/* The most children of a rank in a meeting of nranks >= 1 ranks. */
int star_tree_fan(int nranks);
/* The seat of the parent of seat > 0. */
int star_tree_parent(int seat, int nranks);
/* The number of children, of which the first has seat `seat * star_tree_fan(nranks) + 1`. */
int star_tree_children(int seat, int nranks);
/* The number of ranks in the subtree of that seat, itself included. */
int star_tree_size(int seat, int nranks);
/* The number of levels below that seat. */
int star_tree_height(int seat, int nranks);

#endif
