/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - the sentences for calls that do not fit. */
#include "watch/failure.h"
#include "transport/match.h"
#include "schedule/algo.h"

#include <stdio.h>
#include <string.h>

/* A call of another rank and a call of this one, in words. */
struct two_calls {
	char theirs[160], ours[160];
	struct rank_name name, own;
};

static void failure_describe(const struct lane *lane, int rank, const struct signature *theirs,
			     const struct signature *ours, struct two_calls *calls)
{
	signature_describe(lane, theirs, calls->theirs, sizeof(calls->theirs));
	signature_describe(lane, ours, calls->ours, sizeof(calls->ours));
	comm_rank_name(lane, rank, &calls->name);
	comm_own_name(lane, &calls->own);
}

static const char *failure_algorithm(const struct signature *signature)
{
	const struct algo *algo = algo_at(signature_algorithm(signature));

	return algo ? algo->name : "none";
}

void comm_report_call(struct lane *lane, int rank, uint32_t seq, const uint64_t *theirs,
		      const uint64_t *ours)
{
	const struct signature a = {{theirs[0], theirs[1]}}, b = {{ours[0], ours[1]}};
	struct two_calls c;

	failure_describe(lane, rank, &a, &b, &c);
	if (theirs[0] == ours[0] && !strcmp(c.theirs, c.ours))
		lane_set_pending(
			lane, COLL_ERR_MISMATCH,
			"%s called %s as collective number %u with other counts than %s: all "
			"ranks must give the same counts",
			c.name.text, c.theirs, seq + 1, c.own.text);
	else if (!strcmp(c.theirs, c.ours))
		lane_set_pending(
			lane, COLL_ERR_MISMATCH,
			"%s does %s by algorithm %s, but %s by %s: all ranks must use "
			"the same version and tables, and where a rule asks for it memory of one "
			"kind",
			c.name.text, c.theirs, failure_algorithm(&a), c.own.text,
			failure_algorithm(&b));
	else
		lane_set_pending(lane, COLL_ERR_MISMATCH,
				 "%s called %s as collective number %u, but %s called %s: all "
				 "ranks must make the same calls in the same order",
				 c.name.text, c.theirs, seq + 1, c.own.text, c.ours);
}

void comm_report_message(struct lane *lane, int rank, uint64_t tag, const uint64_t *theirs,
			 const uint64_t *ours)
{
	const struct signature a = {{theirs[0], theirs[1]}}, b = {{ours[0], ours[1]}};
	struct two_calls c;

	failure_describe(lane, rank, &a, &b, &c);
	lane_set_pending(lane, COLL_ERR_MISMATCH,
			 "%s called %s with tag %u, but %s called the recv for a %s: count and "
			 "type must be equal",
			 c.name.text, c.theirs, (unsigned)(uint32_t)tag, c.own.text, c.ours);
}

void comm_report_lengths(struct lane *lane, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header)
{
	struct signature signature = {{recv->meta[0], recv->meta[1]}};
	char call[160];
	struct rank_name name, own;

	signature_describe(lane, &signature, call, sizeof(call));
	lane_set_pending(lane, COLL_ERR_MISMATCH,
			 "%s: %s sends %llu bytes to %s, which expects %llu: the counts of both "
			 "must agree",
			 call, comm_rank_name(lane, lane->to_comm_rank[peer], &name),
			 (unsigned long long)header->len, comm_own_name(lane, &own),
			 (unsigned long long)recv->len);
}

void comm_report_unnamed(struct lane *lane, int rank, uint32_t number)
{
	struct rank_name name, own;

	lane_set_pending(lane, COLL_ERR_MISMATCH,
			 "the first %u collectives of %s are others than those of %s: all ranks "
			 "must make the same calls in the same order",
			 number, comm_rank_name(lane, rank, &name), comm_own_name(lane, &own));
}

void comm_report_missing(struct lane *lane, int caller, int leaver, uint32_t number,
			 const struct signature *call)
{
	struct rank_name name, other;
	char what[160] = "a collective";

	if (call)
		signature_describe(lane, call, what, sizeof(what));
	lane_set_pending(
		lane, COLL_ERR_MISMATCH,
		"%s called %s as collective number %u, but %s destroyed its communicator after "
		"%u: all ranks must make the same calls in the same order",
		comm_rank_name(lane, caller, &name), what, number + 1,
		comm_rank_name(lane, leaver, &other), number);
}
