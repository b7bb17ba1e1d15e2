/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.c - hashes of the calls of each rank: their exchange, and the first calls that differ. */
#include "exec/compare.h"
#include "exec/failure.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rank whose calls differ is given so long to name the first of them. */
enum { COMPARE_ANSWER_US = 1000000 };

enum { COMPARE_LIST_HEAD = offsetof(struct compare_list, call) };

/* A rank that leaves names so many calls: an odd one among them may have ended on all ranks. */
enum { COMPARE_LAST = 256 };

int compare_new(struct comm *comm)
{
	comm->compare = calloc(1, sizeof(*comm->compare) +
					  (size_t)comm->nranks * sizeof(comm->compare->number[0]));
	if (!comm->compare)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->compare->hash = comm->compare->mark[0] = SIGNATURE_HASH_BEGIN;
	comm->compare->held_rank = -1;
	return COLL_SUCCESS;
}

void compare_free(struct comm *comm)
{
	if (comm->compare)
		compare_free_left(comm->compare);
	free(comm->compare);
	comm->compare = NULL;
}

static uint64_t compare_mark_at(const struct compare *c, uint32_t number)
{
	return c->mark[number / COMPARE_EVERY % COMPARE_MARKS];
}

int compare_lacks(const struct comm *comm, int rank, uint32_t seq)
{
	const struct compare *c = comm->compare;

	return c && rank != comm->rank && (int32_t)(c->number[rank] - seq) <= 0;
}

struct hashes compare_hashes(const struct comm *comm)
{
	const struct compare *c = comm->compare;
	struct hashes hashes = {.number = comm->seq, .operations = (uint32_t)comm->issued};

	if (c) {
		hashes.hash = c->hash;
		hashes.mark = compare_mark_at(c, comm->seq);
	}
	return hashes;
}

/* ------------------------------------------------------------------- a difference -- */

int compare_send_calls(struct comm *comm, int rank, int kind, uint32_t number, uint32_t most)
{
	const struct compare *c = comm->compare;
	const uint32_t known = comm->seq < COMPARE_CALLS ? comm->seq : COMPARE_CALLS;
	struct compare_list *list = calloc(1, sizeof(*list));
	uint32_t n = 0;

	if (!list)
		return COLL_ERR_NO_MEMORY;
	list->number = number;
	list->first = number > most ? number - most : 0;
	if (comm->seq - list->first > known)
		list->first = comm->seq - known;
	for (uint32_t seq = list->first; seq < number; seq++, n++)
		list->call[n] = c->call[seq % COMPARE_CALLS];
	context_send_struct(comm->context, comm->to_context_rank[rank],
			    comm_tag_control(comm->context_id), kind, list,
			    COMPARE_LIST_HEAD + n * sizeof(struct signature));
	free(list);
	return COLL_SUCCESS;
}

/*
 * The hashes of the first `number` collectives differ.  Each rank knows its own calls only, so the other rank
 * is sent ours, finds the first that differs, and tells all.
 */
static void compare_differ(struct comm *comm, int rank, uint32_t number)
{
	struct compare *c = comm->compare;
	const int64_t now = clock_now_us();

	if (compare_name_left(comm, rank) ||
	    (c->differ_us && now - c->differ_us <= COMPARE_ANSWER_US))
		return;
	if (c->differ_us || comm->peer_state[rank] == PEER_LEFT ||
	    compare_send_calls(comm, rank, CONTROL_CALLS, number, COMPARE_EVERY))
		compare_report_unnamed(comm, rank, number);
	c->differ_us = now;
	c->differ_rank = rank;
	c->differ_number = number;
}

void compare_take_calls(struct comm *comm, int rank, const void *bytes, size_t len)
{
	struct compare_list *list;
	size_t n;

	if (!comm->compare || comm->error || comm->pending_code || len < COMPARE_LIST_HEAD ||
	    len > sizeof(*list))
		return;
	list = calloc(1, sizeof(*list));
	if (!list)
		return;
	memcpy(list, bytes, len);
	n = (len - COMPARE_LIST_HEAD) / sizeof(struct signature);
	for (size_t i = 0; i < n && !comm->pending_code; i++) {
		const uint32_t seq = list->first + (uint32_t)i;
		const uint64_t *ours = comm->compare->call[seq % COMPARE_CALLS].meta;
		const uint64_t *theirs = list->call[i].meta;

		if (comm->seq - 1 - seq < COMPARE_CALLS && seq < comm->seq &&
		    !match_same_call(theirs, ours))
			comm_report_call(comm, rank, seq, theirs, ours);
	}
	if (!comm->pending_code)
		compare_report_unnamed(comm, rank, list->number);
	free(list);
}

/* --------------------------------------------------------------------- comparing -- */

/* Finds our hash of the first `number` collectives, which this rank has issued: 1 if it is known. */
static int compare_find(const struct comm *comm, uint32_t number, uint64_t *hash)
{
	const struct compare *c = comm->compare;
	const uint32_t age = comm->seq - number, past = number % COMPARE_EVERY;

	if (age / COMPARE_EVERY + 1 >= COMPARE_MARKS)
		return 0;
	if (!age) {
		*hash = c->hash;
		return 1;
	}
	*hash = compare_mark_at(c, number);
	for (uint32_t seq = number - past; seq < number && age + past <= COMPARE_CALLS; seq++)
		*hash = compare_add(*hash, &c->call[seq % COMPARE_CALLS]);
	return !past || age + past <= COMPARE_CALLS;
}

/* Numbers wrap around. */
static int compare_is_ahead(const struct comm *comm, uint32_t number)
{
	return (int32_t)(number - comm->seq) > 0;
}

/* 1: the hashes differ, or the other rank's number is not reached yet. */
static int compare_at(struct comm *comm, int rank, uint32_t number, uint64_t theirs)
{
	uint64_t ours;

	if (compare_is_ahead(comm, number))
		return 1;
	if (!compare_find(comm, number, &ours) || ours == theirs)
		return 0;
	compare_differ(comm, rank, number);
	return 1;
}

void compare_take(struct comm *comm, int rank, const struct hashes *theirs)
{
	struct compare *c = comm->compare;
	const uint32_t mark = theirs->number - theirs->number % COMPARE_EVERY;

	if (!c || comm->error || comm->pending_code)
		return;
	c->number[rank] = theirs->number;
	if (!compare_at(comm, rank, mark, theirs->mark)) {
		(void)compare_at(comm, rank, theirs->number, theirs->hash);
	} else if (compare_is_ahead(comm, mark) && c->held_rank < 0) {
		c->held = (struct hashes){.number = mark, .hash = theirs->mark};
		c->held_rank = rank;
	}
}

static void compare_send_hashes(struct comm *comm, int rank)
{
	const struct hashes hashes = compare_hashes(comm);

	if (rank != comm->rank && comm->peer_state[rank] != PEER_LEFT)
		context_send_struct(comm->context, comm->to_context_rank[rank],
				    comm_tag_control(comm->context_id), CONTROL_HASHES, &hashes,
				    sizeof(hashes));
}

void compare_mark(struct comm *comm)
{
	struct compare *c = comm->compare;

	c->mark[comm->seq / COMPARE_EVERY % COMPARE_MARKS] = c->hash;
	compare_send_hashes(comm, (comm->rank + 1) % comm->nranks);
	if (c->held_rank < 0 || compare_is_ahead(comm, c->held.number))
		return;
	(void)compare_at(comm, c->held_rank, c->held.number, c->held.hash);
	c->held_rank = -1;
}

void compare_leave(struct comm *comm)
{
	for (int r = 0; comm->compare && r < comm->nranks; r++) {
		if (r != comm->rank && comm->peer_state[r] != PEER_LEFT)
			(void)compare_send_calls(comm, r, CONTROL_LAST, comm->seq, COMPARE_LAST);
		compare_send_hashes(comm, r);
	}
}
