/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * messages.c - messages without a partner, and ranks that wait for each other.  A dump has the last operations only, so a partner
 * may be older than all that it has: the sentences say what the file has, not what the rank did.
 */
#include <stdlib.h>
#include <string.h>
#include "explain/explain.h"
#include "lib/grow.h"

int explain_is_send(const struct explain_op *op)
{
	return strcmp(op->kind, "send") == 0 || strcmp(op->kind, "isend") == 0;
}

int explain_is_recv(const struct explain_op *op)
{
	return strcmp(op->kind, "recv") == 0 || strcmp(op->kind, "irecv") == 0;
}

static int message_is_open(const struct explain_op *op)
{
	return op->state != STATE_DONE && op->state != STATE_FAILED;
}

/* Would a receive of rank `to` take the message that rank `from` sends with a tag? */
static int message_fits(const struct explain_op *send, int32_t from, const struct explain_op *recv,
			int32_t to)
{
	/* coll_isend and coll_irecv meet each other only. */
	return explain_is_send(send) && explain_is_recv(recv) && !send->number == !recv->number &&
	       send->peer == to && (recv->peer == from || recv->peer == EXPLAIN_ANY) &&
	       (recv->tag == send->tag || recv->tag == EXPLAIN_ANY);
}

static int message_meets(const struct explain_op *a, int32_t a_rank, const struct explain_op *b,
			 int32_t b_rank)
{
	return explain_is_send(a) ? message_fits(a, a_rank, b, b_rank)
				  : message_fits(b, b_rank, a, a_rank);
}

static int message_is_alike(const struct explain_op *a, const struct explain_op *b)
{
	return explain_is_send(a) == explain_is_send(b) && !a->number == !b->number &&
	       a->peer == b->peer && a->tag == b->tag;
}

/*
 * Has the peer no call for this operation of the rank?  Of several operations that are alike the older ones take the calls of
 * the peer first.
 */
static int message_is_lonely(const struct explain_rank *r, const struct explain_op *op,
			     const struct explain_rank *peer)
{
	const struct explain_dump *own = r->dump, *other = peer->dump;
	int64_t calls = 0;

	for (int i = 0; i < other->nops; i++)
		calls += other->op[i].state != STATE_FAILED &&
			 message_meets(op, r->rank, &other->op[i], peer->rank);
	for (int i = 0; i < own->nops; i++) {
		const struct explain_op *o = &own->op[i];

		if (message_is_alike(o, op) && o->state != STATE_FAILED && o != op &&
		    (o->state == STATE_DONE || o < op))
			calls--;
	}
	return calls <= 0;
}

static int message_has_peer(const struct explain_comm *comm, const struct explain_op *op)
{
	return (explain_is_send(op) || explain_is_recv(op)) && op->peer >= 0 &&
	       op->peer < comm->nranks;
}

static void lonely_add(struct explain_comm *comm, const struct explain_rank *r,
		       const struct explain_op *op)
{
	const struct explain_rank *peer = explain_rank_at(comm, op->peer);

	if (peer != NULL && !message_is_lonely(r, op, peer))
		return;
	comm->lonely = tool_grow(comm->lonely, &comm->cap_lonely, comm->nlonely + 1,
				 sizeof(*comm->lonely));
	comm->lonely[comm->nlonely++] = (struct explain_lonely){
		op, r->rank, peer == NULL ? PARTNER_NO_FILE : PARTNER_MISSING};
}

void explain_find_lonely(struct explain_comm *comm)
{
	for (int i = 0; i < comm->n; i++) {
		const struct explain_dump *dump = comm->rank[i].dump;

		for (int k = 0; k < dump->nops; k++)
			if (message_is_open(&dump->op[k]) && message_has_peer(comm, &dump->op[k]))
				lonely_add(comm, &comm->rank[i], &dump->op[k]);
	}
}

/* --------------------------------------------------------------------------- cycles -- */

/* The rank without whose call this one's message cannot end, or NULL. */
static const struct explain_rank *cycle_next(const struct explain_comm *comm,
					     const struct explain_rank *r)
{
	const struct explain_rank *peer;

	if (r->waits == NULL || !message_has_peer(comm, r->waits) || r->waits->peer == r->rank)
		return NULL;
	peer = explain_rank_at(comm, r->waits->peer);
	return peer != NULL && message_is_lonely(r, r->waits, peer) ? peer : NULL;
}

/* The chain of ranks from `from` on has come back to its rank `at`. */
static void cycle_keep(struct explain_comm *comm, const int32_t *chain, int from, int n)
{
	comm->ncycle = n - from;
	comm->cycle = tool_grow(comm->cycle, &comm->cap_cycle, comm->ncycle, sizeof(*comm->cycle));
	memcpy(comm->cycle, chain + from, (size_t)comm->ncycle * sizeof(*chain));
}

/* The last rank of a chain waits in a collective: it waits for the ranks of the chain that have not made it. */
static void cycle_through(struct explain_comm *comm, const int32_t *chain, int n)
{
	const struct explain_rank *last = &comm->rank[chain[n - 1]];

	if (last->waits == NULL || !last->waits->collective)
		return;
	for (int i = n - 2; i >= 0 && !comm->ncycle; i--) {
		const struct explain_rank *r = &comm->rank[chain[i]];

		if (r->counted && r->made < last->waits->collective)
			cycle_keep(comm, chain, i, n);
	}
}

/* Follows the chain from entry `i`.  walk[] has for each entry the number of the chain that came to it first. */
static void cycle_follow(struct explain_comm *comm, int i, int *walk, int32_t *chain)
{
	const struct explain_rank *r = &comm->rank[i];
	int n = 0, at = 0;

	for (; r != NULL && !walk[r - comm->rank]; r = cycle_next(comm, r)) {
		walk[r - comm->rank] = i + 1;
		chain[n++] = (int32_t)(r - comm->rank);
	}
	if (r == NULL) {
		cycle_through(comm, chain, n);
	} else if (walk[r - comm->rank] == i + 1) {
		while (chain[at] != r - comm->rank)
			at++;
		cycle_keep(comm, chain, at, n);
	}
}

void explain_find_cycle(struct explain_comm *comm)
{
	int *walk = calloc((size_t)comm->n, sizeof(*walk));
	int32_t *chain = tool_grow(NULL, &(int){0}, comm->n, sizeof(*chain));

	for (int i = 0; i < comm->n && walk != NULL && !comm->ncycle; i++)
		if (!walk[i])
			cycle_follow(comm, i, walk, chain);
	/* From here on ranks, not entries. */
	for (int i = 0; i < comm->ncycle; i++)
		comm->cycle[i] = comm->rank[comm->cycle[i]].rank;
	free(chain);
	free(walk);
}
