/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_shape.h - the shape of a meeting: which rank sends to which; numbers only, no function here calls the system.
 *
 * Each rank has an index in the tree.  The root has index 0; the other ranks get theirs in the order in which they
 * reach the root.  The children of index i are the indices i * fan + 1 to i * fan + fan, as far as there are
 * so many ranks.  Up to tree_shape.flat ranks the tree is flat: every rank is a child of the root.
 *
 * Shapes are a pure function of the number of ranks, so that all ranks agree without a message.
 */
#ifndef CORE_BOOTSTRAP_TREE_SHAPE_H
#define CORE_BOOTSTRAP_TREE_SHAPE_H

/* The same on all ranks.  Only tests change it. */
struct tree_shape {
	int flat; /* the most ranks that all are children of the root */
	int fan;  /* the most children of a rank where there are more ranks */
};
extern struct tree_shape tree_shape;

/* The most children of a rank in a meeting of nranks >= 1 ranks. */
int tree_shape_fan(int nranks);
/* The index of the parent of an index > 0. */
int tree_shape_parent(int index, int nranks);
/* The number of children of an index. */
int tree_shape_children(int index, int nranks);
/* The index of the first of these children. */
int tree_shape_first_child(int index, int nranks);
/* The number of ranks in the subtree of that index, itself included. */
int tree_shape_size(int index, int nranks);
/* The number of levels below that index. */
int tree_shape_height(int index, int nranks);
/* The number of levels above that index. */
int tree_shape_depth(int index, int nranks);

#endif
