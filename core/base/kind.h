/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.h - the kinds of operation (COLL_KIND_*) and their properties. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include "base/tables.h"

#include <stdint.h>

/* The greatest number of a kind, and how many kinds are collectives. */
enum { KIND_LAST = COLL_KIND_EXSCAN, KIND_COLLECTIVES = KIND_LAST - 2 };

/* A row of the table of kinds. */
struct kind {
	const char *name;
	int send, recv;           /* KIND_NONE, KIND_ONE, KIND_EACH */
	int send_root, recv_root; /* 1: only the root uses this buffer */
	int has_root, reduces;
	int sendcounts, recvcounts; /* 1: the call has this array */
	int own_counts;             /* 1: each rank knows its own counts only */
};

extern const struct kind kind_table[];
/*
 * The forms with lists of buffers, at the kind of the v-form that serves them.  Only the names differ ("allgather_list").
 */
extern const struct kind kind_list_table[];

static inline int kind_is_valid(int kind)
{
	return kind >= COLL_KIND_ALLREDUCE && kind <= KIND_LAST;
}
/* The properties of a valid kind. */
static inline const struct kind *kind_at(int kind)
{
	return &kind_table[kind];
}
static inline const struct kind *kind_list_at(int kind)
{
	return &kind_list_table[kind];
}
/* Returns the name, "allreduce"; "?" for a kind that is not valid. */
const char *kind_name(int kind);
/* The predicates below return 0 for a kind that is not valid. */
static inline int kind_has_root(int kind)
{
	return kind_is_valid(kind) && kind_table[kind].has_root;
}
static inline int kind_reduces(int kind)
{
	return kind_is_valid(kind) && kind_table[kind].reduces;
}
/* Is there a count for each rank (allgatherv to scatterv)? */
static inline int kind_is_v(int kind)
{
	return kind_is_valid(kind) && (kind_table[kind].sendcounts || kind_table[kind].recvcounts);
}
/* Does each rank know its own counts only (alltoallv, gatherv, scatterv)? */
static inline int kind_has_own_counts(int kind)
{
	return kind_is_valid(kind) && kind_table[kind].own_counts;
}
/* Does the call of this rank give the counts of the blocks of its send buffer, or of its receive buffer? */
static inline int kind_gives_sendcounts(const struct kind *kind, int is_root)
{
	return kind->sendcounts && (is_root || !kind->has_root);
}
static inline int kind_gives_recvcounts(const struct kind *kind, int is_root)
{
	return kind->recvcounts && (is_root || !kind->has_root);
}
/* Is it a send or a receive? */
static inline int kind_is_p2p(int kind)
{
	return kind == COLL_KIND_SEND || kind == COLL_KIND_RECV;
}
/* Does each rank reduce the inputs of the ranks before it? */
static inline int kind_is_scan(int kind)
{
	return kind == COLL_KIND_SCAN || kind == COLL_KIND_EXSCAN;
}
/* Do all ranks take part? */
static inline int kind_is_collective(int kind)
{
	return (uint32_t)kind <= KIND_LAST && !kind_is_p2p(kind);
}
/* Convert a collective to its index among the collectives, from 0 on without gaps, and back. */
static inline int kind_to_index(int kind)
{
	return kind < COLL_KIND_SEND ? kind - 1 : kind - 3;
}
static inline int kind_from_index(int index)
{
	return index < COLL_KIND_BARRIER ? index + 1 : index + 3;
}

#endif
