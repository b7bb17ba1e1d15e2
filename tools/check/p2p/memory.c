/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory of mem_alloc: messages from it, its end while ranks are connected, and its life after close. */
#include <inttypes.h>
#include <stdlib.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"

enum { MEMORY_LONG = 1 << 20, MEMORY_TURNS = 3, MEMORY_ALIGN = 64, MEMORY_KEPT = 5000 };

/* The lengths of the messages of one turn: their buffers lie one behind the other in one piece of memory. */
static const uint64_t memory_sizes[] = {1, 13, 1000, 4096, 70001, MEMORY_LONG};

enum { MEMORY_SIZES = sizeof(memory_sizes) / sizeof(memory_sizes[0]) };

/* Memory of the plugin, or ordinary memory where the plugin has nothing better. */
struct memory_piece {
	uint8_t *at;
	int own; /* 1: mem_free frees it */
};

/* Returns 0, or -1 after it has failed the check. */
static int memory_new_piece(struct check_ep *ep, uint64_t bytes, struct memory_piece *piece)
{
	coll_error_t err = {.size = sizeof(err)};
	void *at = NULL;
	int32_t code;

	check_slot(ep->c, ep->rank, "mem_alloc");
	code = ep->t->mem_alloc(ep->ep, bytes, &at, &err);
	check_slot(ep->c, ep->rank, NULL);
	piece->own = code != COLL_ERR_UNSUPPORTED;
	piece->at = piece->own ? at : check_memory(bytes);
	if (piece->own && code)
		check_fail(ep->c, "rank %d: mem_alloc of %" PRIu64 " bytes returned %d: %.300s",
			   ep->rank, bytes, code, err.text);
	else if (!piece->at || (piece->own && (uintptr_t)at % MEMORY_ALIGN))
		check_fail(ep->c,
			   "rank %d: mem_alloc set *ptr to %p, which is not aligned to %d bytes",
			   ep->rank, at, MEMORY_ALIGN);
	else
		return 0;
	return -1;
}

static void memory_end_piece(struct check_ep *ep, const struct memory_piece *piece)
{
	if (!piece->own) {
		free(piece->at);
		return;
	}
	check_slot(ep->c, ep->rank, "mem_free");
	ep->t->mem_free(piece->at);
	check_slot(ep->c, ep->rank, NULL);
}

/* The bytes of a message of a rank, which differ from those that lay there before. */
static uint64_t memory_seed(int rank, uint64_t tag)
{
	return ((uint64_t)rank << 32) + tag + 1;
}

/* Sends all sizes to the next rank, with tags from `tag` on, and receives as many.  Returns 0 or -1. */
static int memory_send(struct check_ep *ep, uint8_t *at, uint64_t tag)
{
	const uint32_t next = (uint32_t)((ep->rank + 1) % ep->nranks);
	const int from = (ep->rank + ep->nranks - 1) % ep->nranks;
	coll_send_t send[MEMORY_SIZES];
	const struct check_arrival *a;

	for (uint64_t i = 0; i < MEMORY_SIZES; at += memory_sizes[i++]) {
		check_fill(at, memory_sizes[i], memory_seed(ep->rank, tag + i));
		if (check_send(ep, &send[i], next, tag + i, at, memory_sizes[i]))
			return -1;
	}
	for (uint64_t i = 0; i < MEMORY_SIZES; i++) {
		a = check_recv(ep, (uint32_t)from, tag + i);
		if (!a || check_wait_send(ep, &send[i]))
			return -1;
		if (a->header.len == memory_sizes[i] &&
		    check_differs(a->buf, a->header.len, memory_seed(from, tag + i)) ==
			    a->header.len)
			continue;
		check_fail(ep->c,
			   "rank %d: message %" PRIu64 " of %" PRIu64
			   " bytes from memory of mem_alloc of rank %d differs",
			   ep->rank, tag + i, memory_sizes[i], from);
		return -1;
	}
	return check_progress_barrier(ep);
}

static uint64_t memory_room(void)
{
	uint64_t room = 0;

	for (int i = 0; i < MEMORY_SIZES; i++)
		room += memory_sizes[i];
	return room;
}

/*
 * In each turn a piece of memory is used twice and freed, while another one stays.  The piece of the next turn may lie at the
 * same address.
 */
static void memory_rank(struct check_ep *ep)
{
	struct memory_piece kept, piece;

	if (memory_new_piece(ep, MEMORY_KEPT, &kept))
		return;
	check_fill(kept.at, MEMORY_KEPT, 7);
	for (uint64_t turn = 0; turn < MEMORY_TURNS; turn++) {
		if (memory_new_piece(ep, memory_room(), &piece) ||
		    memory_send(ep, piece.at, 2 * turn * MEMORY_SIZES) ||
		    memory_send(ep, piece.at, (2 * turn + 1) * MEMORY_SIZES))
			return; /* the plugin may still use the memory */
		memory_end_piece(ep, &piece);
	}
	if (check_differs(kept.at, MEMORY_KEPT, 7) != MEMORY_KEPT)
		check_fail(ep->c,
			   "rank %d: memory of mem_alloc has changed, though no call was about it",
			   ep->rank);
	memory_end_piece(ep, &kept);
	check_progress_barrier(ep);
}

/* The memory outlives its endpoint, and another endpoint sends from it. */
static void memory_outlives_rank(struct check_case *c, int rank)
{
	struct check_ep *first = check_ep_new(c, rank, 0), *ep = check_ep_new(c, rank, 1);
	struct memory_piece piece = {.at = NULL};
	int bad = check_open(first) || memory_new_piece(first, memory_room(), &piece);

	bad = bad || memory_send(first, piece.at, 0);
	bad = check_barrier(c, rank, &first->step) || bad;
	check_close(first, c->timeout_ms / 4);
	if (!bad && !check_open(ep) && !memory_send(ep, piece.at, MEMORY_SIZES) &&
	    !check_barrier(c, rank, &ep->step)) {
		check_close(ep, c->timeout_ms / 4);
		check_fill(piece.at, memory_room(), 9);
		memory_end_piece(ep, &piece);
	}
	check_close(ep, 0);
	check_ep_free(ep);
	check_ep_free(first);
}

static void memory_outlives(struct check_case *c)
{
	check_ranks(c, memory_outlives_rank);
}

const struct check check_memory_checks[] = {
	{.name = "mem-alloc",
	 .says = "messages from memory of mem_alloc arrive whole, also after other memory was "
		 "freed",
	 .promise = "coll_transport_t.mem_alloc",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_ALLOCATE,
	 .bare = "the engine's calls in memory of native->mem_alloc: see coll-memory",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = memory_rank},
	{.name = "mem-outlives",
	 .says = "memory of mem_alloc outlives its endpoint",
	 .promise = "coll_transport_t.mem_alloc",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT | CHECK_ALLOCATE,
	 .bare = "the engine's memory is that of native->mem_alloc, which coll-memory allocates "
		 "and frees",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = memory_outlives},
	{.name = NULL},
};
