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

/*
 * How many messages of one kind a rank has.  coll_isend and coll_irecv (outside) meet each other only.  A dump may have
 * many messages, so no function compares each message with each other message.
 */
struct message_count {
	int32_t rank, peer;
	int64_t tag;
	uint8_t is_used, is_send, outside, any_tag;
	int calls; /* that have not failed */
	int done;  /* of these */
	int seen;  /* that wait, as far as explain_find_lonely has come */
};

struct message_counts {
	struct message_count *count; /* by hash; the size is a power of 2 */
	size_t size, used;
};

static struct message_count message_key(int32_t rank, const struct explain_op *op)
{
	return (struct message_count){.rank = rank,
				      .peer = op->peer,
				      .tag = op->tag,
				      .is_send = (uint8_t)explain_is_send(op),
				      .outside = !op->number};
}

static struct message_count *message_at(const struct message_counts *counts,
					const struct message_count *key)
{
	uint64_t hash = (uint64_t)key->rank << 32 | (uint32_t)key->peer;
	size_t i;

	hash = (hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)key->tag * 8;
	hash += (uint64_t)key->is_send * 4 + (uint64_t)key->outside * 2 + key->any_tag;
	hash = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	for (i = (hash >> 32) & (counts->size - 1); counts->count[i].is_used;
	     i = (i + 1) & (counts->size - 1)) {
		const struct message_count *at = &counts->count[i];

		if (at->rank == key->rank && at->peer == key->peer && at->tag == key->tag &&
		    at->is_send == key->is_send && at->outside == key->outside &&
		    at->any_tag == key->any_tag)
			break;
	}
	return &counts->count[i];
}

static void message_grow(struct message_counts *counts)
{
	struct message_counts more = {.size = counts->size ? 2 * counts->size : 1024};

	more.count = tool_array(more.size, sizeof(*more.count));
	for (size_t i = 0; i < counts->size; i++)
		if (counts->count[i].is_used)
			*message_at(&more, &counts->count[i]) = counts->count[i];
	more.used = counts->used;
	free(counts->count);
	*counts = more;
}

static void message_add(struct message_counts *counts, struct message_count key,
			const struct explain_op *op)
{
	struct message_count *at;

	if (2 * counts->used >= counts->size)
		message_grow(counts);
	at = message_at(counts, &key);
	if (!at->is_used) {
		*at = key;
		at->is_used = 1;
		counts->used++;
	}
	at->calls++;
	at->done += op->state == STATE_DONE;
}

static void message_count_all(const struct explain_comm *comm, struct message_counts *counts)
{
	message_grow(counts);
	for (int i = 0; i < comm->n; i++)
		for (int k = 0; k < comm->rank[i].dump->nops; k++) {
			const struct explain_op *op = &comm->rank[i].dump->op[k];
			struct message_count key = message_key(comm->rank[i].rank, op);

			if ((!key.is_send && !explain_is_recv(op)) || op->state == STATE_FAILED)
				continue;
			message_add(counts, key, op);
			key.tag = 0;
			key.any_tag = 1;
			message_add(counts, key, op);
		}
}

/* How many calls of the peer would take this message, or send it? */
static int64_t message_calls_of_peer(const struct message_counts *counts, int32_t rank,
				     const struct explain_op *op)
{
	struct message_count key = message_key(op->peer, op);
	int64_t calls;

	key.is_send = !key.is_send;
	key.peer = rank;
	if (key.is_send) {
		key.any_tag = op->tag == EXPLAIN_ANY;
		key.tag = key.any_tag ? 0 : op->tag;
		return message_at(counts, &key)->calls;
	}
	calls = message_at(counts, &key)->calls;
	key.peer = EXPLAIN_ANY;
	calls += message_at(counts, &key)->calls;
	if (op->tag == EXPLAIN_ANY)
		return calls;
	key.tag = EXPLAIN_ANY;
	calls += message_at(counts, &key)->calls;
	key.peer = rank;
	return calls + message_at(counts, &key)->calls;
}

static int message_is_open(const struct explain_op *op)
{
	return op->state != STATE_DONE && op->state != STATE_FAILED;
}

/*
 * Has the peer no call for this operation of the rank?  Of several operations that are alike the older ones take the calls of
 * the peer first.  Asked once for each that waits, in their order.
 */
static int message_is_lonely(const struct message_counts *counts, int32_t rank,
			     const struct explain_op *op)
{
	const struct message_count key = message_key(rank, op);
	struct message_count *alike = message_at(counts, &key);

	return message_calls_of_peer(counts, rank, op) <= alike->done + alike->seen++;
}

static int message_has_peer(const struct explain_comm *comm, const struct explain_op *op)
{
	return (explain_is_send(op) || explain_is_recv(op)) && op->peer >= 0 &&
	       op->peer < comm->nranks;
}

static void lonely_add(struct explain_comm *comm, const struct message_counts *counts,
		       const struct explain_rank *r, const struct explain_op *op)
{
	const struct explain_rank *peer = explain_rank_at(comm, op->peer);

	if (peer != NULL && !message_is_lonely(counts, r->rank, op))
		return;
	comm->lonely = tool_grow(comm->lonely, &comm->cap_lonely, comm->nlonely + 1,
				 sizeof(*comm->lonely));
	comm->lonely[comm->nlonely++] = (struct explain_lonely){
		op, r->rank, peer == NULL ? PARTNER_NO_FILE : PARTNER_MISSING};
}

void explain_find_lonely(struct explain_comm *comm)
{
	struct message_counts counts = {0};

	message_count_all(comm, &counts);
	for (int i = 0; i < comm->n; i++) {
		const struct explain_dump *dump = comm->rank[i].dump;

		for (int k = 0; k < dump->nops; k++)
			if (message_is_open(&dump->op[k]) && message_has_peer(comm, &dump->op[k]))
				lonely_add(comm, &counts, &comm->rank[i], &dump->op[k]);
	}
	free(counts.count);
}

static int lonely_order(const void *x, const void *y)
{
	const struct explain_lonely *a = x, *b = y;

	return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
				  : (a->op > b->op) - (a->op < b->op);
}

/* Is the operation in the list of messages without a partner, which is in lonely_order? */
static int lonely_has(const struct explain_comm *comm, const struct explain_rank *r,
		      const struct explain_op *op)
{
	const struct explain_lonely key = {.op = op, .rank = r->rank};

	return comm->nlonely > 0 && bsearch(&key, comm->lonely, (size_t)comm->nlonely, sizeof(key),
					    lonely_order) != NULL;
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
	return peer != NULL && lonely_has(comm, r, r->waits) ? peer : NULL;
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
	int *walk = tool_array((size_t)comm->n, sizeof(*walk));
	int32_t *chain = tool_array((size_t)comm->n, sizeof(*chain));

	for (int i = 0; i < comm->n && !comm->ncycle; i++)
		if (!walk[i])
			cycle_follow(comm, i, walk, chain);
	/* From here on ranks, not entries. */
	for (int i = 0; i < comm->ncycle; i++)
		comm->cycle[i] = comm->rank[comm->cycle[i]].rank;
	free(chain);
	free(walk);
}
