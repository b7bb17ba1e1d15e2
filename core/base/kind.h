/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.h - the kinds of operation (COLL_KIND_*) and their properties. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include "base/tables.h"

#include <stdint.h>

/* The greatest number of a kind, and how many kinds are collectives. */
enum { KIND_LAST = COLL_KIND_EXSCAN, KIND_COLLECTIVES = KIND_LAST - 2 };

/* The library's own kinds: KIND_SPLIT appears in signatures only, KIND_AWAIT in queues only. */
enum { KIND_SPLIT = KIND_LAST + 1, KIND_AWAIT = KIND_LAST + 2 };

/* A row of the table of kinds: the properties of a kind.  A property without a list of values is 0 or 1. */
struct kind {
	const char *name;
	int send, recv;           /* KIND_NONE, KIND_ONE, KIND_EACH */
	int send_root, recv_root; /* only the root uses this buffer */
	int has_root, reduces;
	int sendcounts, recvcounts; /* the call has this array */
	int is_v;                   /* there is a count for each rank (allgatherv to scatterv) */
	int own_counts;             /* each rank knows its own counts only */
	int is_collective, is_p2p;  /* all ranks take part; two do: it is a send or a receive */
	int is_scan;                /* each rank reduces the inputs of the ranks before it */
	int index; /* of a collective: its number among the collectives, from 0 on without gaps; else -1 */
};

static inline int kind_is_valid(int kind)
{
	return kind >= COLL_KIND_ALLREDUCE && kind <= KIND_LAST;
}
/* Returns the row of the kind; of a number that is no kind a row with the name "?" and no property. */
const struct kind *kind_at(int kind);
/*
 * Returns the row of the form with lists of buffers that the v-form serves.  Only the names differ ("allgather_list").
 */
const struct kind *kind_list_at(int kind);
/* Returns the name, "allreduce"; "?" for a kind that is not valid. */
const char *kind_name(int kind);
/* Does the call of this rank give the counts of the blocks of its send buffer, or of its receive buffer? */
static inline int kind_gives_sendcounts(const struct kind *kind, int is_root)
{
	return kind->sendcounts && (is_root || !kind->has_root);
}
static inline int kind_gives_recvcounts(const struct kind *kind, int is_root)
{
	return kind->recvcounts && (is_root || !kind->has_root);
}
/* Returns the collective with that index. */
static inline int kind_from_index(int index)
{
	return index < COLL_KIND_BARRIER ? index + 1 : index + 3;
}

#endif
