/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare_left.c - compares the calls of this rank with the last ones of ranks that have left the communicator.  They sent
 * them when they left, because nobody can ask them any more.
 */
#include "exec/compare.h"
#include "exec/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct left_calls {
	struct left_calls *next;
	int rank;
	uint32_t number, first; /* collectives issued; the number of call[0] */
	struct signature call[];
};

void compare_free_left(struct compare *compare)
{
	struct left_calls *left;

	while ((left = compare->left)) {
		compare->left = left->next;
		free(left);
	}
}

/* Without memory only the hashes are compared. */
void compare_take_last(struct comm *comm, int rank, const void *bytes, size_t len)
{
	const size_t head = offsetof(struct compare_list, call), one = sizeof(struct signature);
	const size_t n = len < head ? 0 : (len - head) / one;
	struct compare *c = comm->compare;
	struct left_calls *left;
	uint32_t numbers[2];

	if (!c || len < head || n > COMPARE_EVERY || (len - head) % one)
		return;
	memcpy(numbers, bytes, sizeof(numbers));
	if (numbers[0] - numbers[1] != n)
		return;
	left = malloc(sizeof(*left) + n * one);
	if (!left)
		return;
	*left = (struct left_calls){c->left, rank, numbers[0], numbers[1]};
	memcpy(left->call, (const char *)bytes + head, n * one);
	c->left = left;
}

static const struct left_calls *compare_find_left(const struct comm *comm, int rank)
{
	const struct left_calls *left = comm->compare->left;

	while (left && left->rank != rank)
		left = left->next;
	return left;
}

/* Our signature of a collective, or NULL if it is not issued yet or not known any more. */
static const struct signature *compare_own(const struct comm *comm, uint32_t seq)
{
	return comm->seq - 1 - seq < COMPARE_CALLS ? &comm->compare->call[seq % COMPARE_CALLS]
						   : NULL;
}

int compare_name_left(struct comm *comm, int rank)
{
	const struct left_calls *left = compare_find_left(comm, rank);

	for (uint32_t seq = left ? left->first : 0; left && seq != left->number; seq++) {
		const struct signature *theirs = &left->call[seq - left->first];
		const struct signature *ours = compare_own(comm, seq);

		if (ours && !match_same_call(theirs->meta, ours->meta)) {
			comm_report_call(comm, rank, seq, theirs->meta, ours->meta);
			return 1;
		}
	}
	return 0;
}

/* One rank has made a collective that the other one, which leaves, has not: `call` is that, or NULL. */
static void compare_report_missing(struct comm *comm, int caller, int leaver, uint32_t number,
				   const struct signature *call)
{
	struct rank_name name, other;
	char what[160] = "a collective", text[512];

	if (call)
		signature_describe(comm, call, what, sizeof(what));
	snprintf(text, sizeof(text),
		 "%s called %s as collective number %u, but %s destroyed its communicator after "
		 "%u: all ranks must make the same calls in the same order",
		 comm_rank_name(comm, caller, &name), what, number + 1,
		 comm_rank_name(comm, leaver, &other), number);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

static void compare_look_at(struct comm *comm, int rank, int leaves)
{
	const struct left_calls *left = compare_find_left(comm, rank);
	int32_t ahead;

	if (!left || compare_name_left(comm, rank))
		return;
	ahead = (int32_t)(comm->seq - left->number);
	/* A rank that waits for a call of the one that has left is told so by its wait. */
	if (ahead > 0 && comm->finished == comm->issued)
		compare_report_missing(comm, comm->rank, rank, left->number,
				       compare_own(comm, left->number));
	else if (ahead < 0 && leaves)
		compare_report_missing(comm, rank, comm->rank, comm->seq,
				       comm->seq - left->first < left->number - left->first
					       ? &left->call[comm->seq - left->first]
					       : NULL);
}

void compare_left(struct comm *comm, int rank)
{
	struct compare *c = comm->compare;

	if (!c || comm->error || comm->pending_code)
		return;
	c->left_looked = 0;
	if (c->differ_us && c->differ_rank == rank && !compare_name_left(comm, rank))
		compare_report_unnamed(comm, rank, c->differ_number);
	compare_look_at_left(comm, 0);
}

void compare_look_at_left(struct comm *comm, int leaves)
{
	struct compare *c = comm->compare;
	const int waits = comm->finished != comm->issued;

	if (!c || !comm->nleft || (c->left_looked == (uint64_t)comm->seq + 1 && !leaves))
		return;
	c->left_looked = waits ? 0 : (uint64_t)comm->seq + 1;
	for (int r = 0; r < comm->nranks && !comm->error && !comm->pending_code; r++)
		if (r != comm->rank && comm->peer_state[r] == PEER_LEFT)
			compare_look_at(comm, r, leaves);
}
