/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.h - the kinds of operation (COLL_KIND_*) and their properties, in one table. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include <coll/coll.h>

#include <stdint.h>

/* The greatest number of a kind, and how many kinds are collectives. */
enum { KIND_LAST = COLL_KIND_EXSCAN, KIND_COLLECTIVES = KIND_LAST - 2 };

/* Blocks of `count` elements that a buffer holds: none, one, or one per rank. */
enum { KIND_NONE, KIND_ONE, KIND_EACH };

struct kind {
	const char *name;
	int send, recv;           /* KIND_NONE, KIND_ONE, KIND_EACH */
	int send_root, recv_root; /* 1: only the root uses this buffer */
	int has_root, reduces;
};

int kind_is_valid(int kind);
/* The properties of a valid kind. */
const struct kind *kind_at(int kind);
/* The same for the v-form that serves a list of buffers: only its name differs ("allgather_list"). */
const struct kind *kind_list_at(int kind);
/* "allreduce"; "?" for a kind that is not valid. */
const char *kind_name(int kind);
/* The predicates below are 0 for a kind that is not valid. */
int kind_has_root(int kind);
int kind_reduces(int kind);
/* Does each rank have a count of its own (allgatherv to scatterv)? */
int kind_is_v(int kind);
/* Send or receive. */
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
/* The collectives without gaps: the place of a valid one, from 0 on, and the collective at a place. */
static inline int kind_to_place(int kind)
{
	return kind < COLL_KIND_SEND ? kind - 1 : kind - 3;
}
static inline int kind_of_place(int place)
{
	return place < COLL_KIND_BARRIER ? place + 1 : place + 3;
}

#endif
