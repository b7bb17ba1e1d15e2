/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_links.c - which connections of NCCL exist.  NCCL connects two ranks at their first send and receive, and
 * since 2.22 all ranks at the first collective of each algorithm.  It chooses the algorithm by kind, type,
 * operation and bytes, in a group by these of all collectives: so a repetition needs no new connection.
 */
#include "nccl.h"

#include <stdlib.h>

int32_t nccl_links_open(struct nccl *n, coll_error_t *err)
{
	n->links.pairs = calloc(n->nranks, 1);
	return n->links.pairs
		       ? COLL_SUCCESS
		       : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", n->nranks);
}

void nccl_links_close(struct nccl *n)
{
	free(n->links.pairs);
	n->links.pairs = NULL;
}

/* ------------------------------------------------------------------------- needs -- */

/* NCCL may leave out a part without elements, and then connects nobody: so it tells nothing of later calls. */
static void nccl_want_pair(struct nccl *n, uint32_t peer, unsigned links, size_t count)
{
	struct nccl_links *l = &n->links;

	if (peer == n->rank)
		return;
	l->first = l->first < l->end && l->first < peer ? l->first : peer;
	l->end = l->end > peer ? l->end : peer + 1;
	l->pairs[peer] |= (uint8_t)(links << (count ? NCCL_LINK_WANTED : NCCL_LINK_EMPTY));
}

/* The root has a part of each rank: `links` are the root's, `others` the other ranks'; `counts` is the root's array. */
static void nccl_want_rooted(struct nccl *n, const coll_args_t *a, const size_t *counts,
			     unsigned links, unsigned others)
{
	const uint32_t root = (uint32_t)a->root;

	if (n->rank != root)
		nccl_want_pair(n, root, others, a->count);
	for (uint32_t r = 0; n->rank == root && r < n->nranks; r++)
		nccl_want_pair(n, r, links, nccl_part_count(a, counts, r));
}

static void nccl_want_alltoall(struct nccl *n, const coll_args_t *a)
{
	for (uint32_t r = 0; r < n->nranks; r++) {
		nccl_want_pair(n, r, NCCL_LINK_SEND, nccl_part_count(a, a->sendcounts, r));
		nccl_want_pair(n, r, NCCL_LINK_RECV, nccl_part_count(a, a->recvcounts, r));
	}
}

static uint64_t nccl_hash(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static void nccl_want_collective(struct nccl *n, const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	uint64_t hash = nccl_hash(n->links.coll, (uint64_t)a->kind + 1);

	if (nccl_lib.version < NCCL_2_22)
		return;
	hash = nccl_hash(hash, (uint64_t)c->type << 32 | (uint32_t)c->op);
	hash = nccl_hash(hash, a->count * c->factor);
	for (uint32_t r = 0; a->recvcounts && r < n->nranks; r++)
		hash = nccl_hash(hash, a->recvcounts[r]);
	n->links.coll = hash ? hash : 1;
}

static void nccl_want(struct nccl *n, const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	switch (a->kind) {
	case COLL_KIND_SEND: nccl_want_pair(n, (uint32_t)a->root, NCCL_LINK_SEND, a->count); break;
	case COLL_KIND_RECV: nccl_want_pair(n, (uint32_t)a->root, NCCL_LINK_RECV, a->count); break;
	case COLL_KIND_GATHER:
	case COLL_KIND_GATHERV:
		nccl_want_rooted(n, a, a->recvcounts, NCCL_LINK_RECV, NCCL_LINK_SEND);
		break;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV:
		nccl_want_rooted(n, a, a->sendcounts, NCCL_LINK_SEND, NCCL_LINK_RECV);
		break;
	case COLL_KIND_ALLTOALL:
	case COLL_KIND_ALLTOALLV: nccl_want_alltoall(n, a); break;
	default: nccl_want_collective(n, c); break;
	}
}

/* ------------------------------------------------------------------ what is there -- */

int nccl_links_exist(struct nccl *n, const struct nccl_call *calls)
{
	struct nccl_links *links = &n->links;
	int exist;

	if (n->blocking || n->nranks == 1)
		return 1;
	links->coll = 0;
	for (uint32_t r = links->first; r < links->end; r++)
		links->pairs[r] &= (1 << NCCL_LINK_WANTED) - 1;
	links->first = links->end = 0;
	for (const struct nccl_call *c = calls; c; c = c->next)
		if (c->n == n)
			nccl_want(n, c);
	exist = !links->coll ||
		links->colls[links->coll % (sizeof(links->colls) / sizeof(links->colls[0]))] ==
			links->coll;
	for (uint32_t r = links->first; r < links->end && exist; r++)
		exist = !(
			(links->pairs[r] >> NCCL_LINK_WANTED | links->pairs[r] >> NCCL_LINK_EMPTY) &
			~links->pairs[r] & NCCL_LINK_BOTH);
	return exist;
}

void nccl_links_made(struct nccl *n)
{
	struct nccl_links *links = &n->links;

	if (links->coll)
		links->colls[links->coll % (sizeof(links->colls) / sizeof(links->colls[0]))] =
			links->coll;
	for (uint32_t r = links->first; r < links->end; r++)
		links->pairs[r] |= (uint8_t)(links->pairs[r] >> NCCL_LINK_WANTED & NCCL_LINK_BOTH);
}
