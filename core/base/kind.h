/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.h - the kinds of operation (COLL_KIND_*) and their properties, in one table. */
#ifndef CORE_BASE_KIND_H
#define CORE_BASE_KIND_H

#include <coll/coll.h>

#include <stdint.h>

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
/* Do all ranks take part? */
static inline int kind_is_collective(int kind)
{
	return (uint32_t)kind <= COLL_KIND_BARRIER;
}

#endif
