/* SPDX-License-Identifier: BSD-3-Clause */
/* stall_order.c - ranks that wait for each other in calls on host memory and in calls on device memory. */
#include "exec/stall_words.h"

#include <stdio.h>

static int stall_is_ahead(const struct position *a, const struct position *b)
{
	return (int32_t)(a->hashes.number - b->hashes.number) > 0;
}

/*
 * This rank is in a call that the peer has not made (a), the peer in one of the other communicator that this rank has not
 * made (b), for long.  A standing is read with the locks of both, so it is a beginning of the calls of its rank: of two ranks that
 * make their calls in one order, one is never ahead here and behind there.
 */
static int stall_is_across(const struct position *our_a, const struct position *our_b,
			   const struct position *their_a, const struct position *their_b)
{
	return our_a->stalled && their_b->stalled && stall_is_ahead(our_a, their_a) &&
	       stall_is_ahead(their_b, our_b);
}

void stall_check_order(struct comm *comm, int peer, const struct standing *theirs)
{
	char our_call[256], their_call[256], text[768];
	struct rank_name name, own;
	struct standing ours;
	int across_here;

	if (!theirs->knows_other || !(theirs->here.stalled || theirs->other.stalled) ||
	    comm->error || comm->pending_code)
		return;
	ours = stall_standing(comm);
	across_here = stall_is_across(&ours.here, &ours.other, &theirs->here, &theirs->other);
	if (!ours.knows_other || (!across_here && !stall_is_across(&ours.other, &ours.here,
								   &theirs->other, &theirs->here)))
		return;
	stall_describe_place(comm, !across_here, across_here ? &ours.here : &ours.other, our_call,
			     sizeof(our_call));
	stall_describe_place(comm, across_here, across_here ? &theirs->other : &theirs->here,
			     their_call, sizeof(their_call));
	snprintf(
		text, sizeof(text),
		"%s %s, but %s %s: all ranks must make the same calls in the same order, on memory "
		"of one kind",
		comm_rank_name(comm, peer, &name), their_call, comm_own_name(comm, &own), our_call);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}
