/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - the sentences for calls that do not fit. */
#include "exec/failure.h"

#include <stdio.h>
#include <string.h>

void comm_report_call(struct comm *comm, int rank, uint32_t seq, const uint64_t *theirs,
		      const uint64_t *ours)
{
	struct signature a = {{theirs[0], theirs[1]}}, b = {{ours[0], ours[1]}};
	char their_call[160], our_call[160], text[512];
	struct rank_name name, own;

	signature_describe(comm, &a, their_call, sizeof(their_call));
	signature_describe(comm, &b, our_call, sizeof(our_call));
	comm_rank_name(comm, rank, &name);
	comm_own_name(comm, &own);
	if (theirs[0] == ours[0] && !strcmp(their_call, our_call))
		snprintf(text, sizeof(text),
			 "%s called %s as collective number %u with other counts than %s: all "
			 "ranks must give the same counts",
			 name.text, their_call, seq + 1, own.text);
	else if (!strcmp(their_call, our_call))
		snprintf(text, sizeof(text),
			 "%s does %s by algorithm %s, but %s by %s: all ranks must use "
			 "the same version and tables, and where a rule asks for it memory of one "
			 "kind",
			 name.text, their_call, signature_algorithm(&a), own.text,
			 signature_algorithm(&b));
	else
		snprintf(text, sizeof(text),
			 "%s called %s as collective number %u, but %s called %s: all "
			 "ranks must make the same calls in the same order",
			 name.text, their_call, seq + 1, own.text, our_call);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

void comm_report_message(struct comm *comm, int rank, uint64_t tag, const uint64_t *theirs,
			 const uint64_t *ours)
{
	struct signature a = {{theirs[0], theirs[1]}}, b = {{ours[0], ours[1]}};
	char their_call[160], our_call[160], text[512];
	struct rank_name name, own;

	signature_describe(comm, &a, their_call, sizeof(their_call));
	signature_describe(comm, &b, our_call, sizeof(our_call));
	comm_rank_name(comm, rank, &name);
	comm_own_name(comm, &own);
	snprintf(text, sizeof(text),
		 "%s called %s with tag %u, but %s called the recv for a %s: count and "
		 "type must be equal",
		 name.text, their_call, (unsigned)(uint32_t)tag, own.text, our_call);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

void comm_report_lengths(struct comm *comm, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header)
{
	struct signature signature = {{recv->meta[0], recv->meta[1]}};
	char call[160], text[512];
	struct rank_name name, own;

	signature_describe(comm, &signature, call, sizeof(call));
	snprintf(text, sizeof(text),
		 "%s: %s sends %llu bytes to %s, which expects %llu: the counts of both "
		 "must agree",
		 call, comm_rank_name(comm, comm->to_comm_rank[peer], &name),
		 (unsigned long long)header->len, comm_own_name(comm, &own),
		 (unsigned long long)recv->len);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

void comm_report_unnamed(struct comm *comm, int rank, uint32_t number)
{
	struct rank_name name, own;
	char text[320];

	snprintf(text, sizeof(text),
		 "the first %u collectives of %s are others than those of %s: all ranks "
		 "must make the same calls in the same order",
		 number, comm_rank_name(comm, rank, &name), comm_own_name(comm, &own));
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

void comm_report_missing(struct comm *comm, int caller, int leaver, uint32_t number,
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
