/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.c - the signatures of the last collectives of a communicator, and their comparison with the messages of other
 * ranks, and with the last collectives of ranks that have left.
 */
#include "exec/history.h"
#include "exec/compare.h"
#include "exec/failure.h"

#include <stdlib.h>
#include <string.h>

/* Are so many operations queued that a sequence number in a tag may mean more than one of them? */
static int comm_is_ambiguous(const struct comm *comm)
{
	return comm->issued - comm->finished > TAG_SEQ_APART;
}

/* The number of collectives issued here after `seq`; negative: `seq` was not issued yet, or unknown. */
static int comm_age(const struct comm *comm, uint32_t seq)
{
	uint32_t d = (comm->seq - 1 - seq) & TAG_SEQ_MASK;

	return d > TAG_SEQ_MASK / 2 || comm_is_ambiguous(comm) ? -1 : (int)d;
}

int comm_differs(struct comm *comm, int rank, uint32_t seq, const uint64_t *theirs)
{
	int age = comm_age(comm, seq);
	const struct signature *ours;

	if (age < 0 || age >= COMM_HISTORY)
		return 0;
	seq = comm->seq - 1 - (uint32_t)age;
	ours = &comm->history[seq % COMM_HISTORY];
	if (match_same_call(ours->meta, theirs))
		return 0;
	comm_report_call(comm, rank, seq, theirs, ours->meta);
	return 1;
}

void comm_compare(struct comm *comm, int rank, uint32_t seq, const uint64_t *meta)
{
	if (!comm->error && !comm->pending_code)
		(void)comm_differs(comm, rank, seq, meta);
}

/* A rank that leaves too waits for nobody.  Without memory the calls are not compared. */
void comm_keep_last_calls(struct comm *comm, int rank, const void *bytes, size_t len)
{
	struct last_calls *calls;

	if (comm->leaving || len < offsetof(struct last_calls, call) || len > sizeof(*calls))
		return;
	if (!comm->last_calls)
		comm->last_calls = calloc((size_t)comm->nranks, sizeof(comm->last_calls[0]));
	calls = comm->last_calls ? calloc(1, sizeof(*calls)) : NULL;
	if (!calls)
		return;
	memcpy(calls, bytes, len);
	/* A malformed message contains no calls. */
	if (calls->number - calls->first !=
	    (len - offsetof(struct last_calls, call)) / sizeof(calls->call[0]))
		calls->first = calls->number;
	comm->last_calls[rank] = calls;
}

int comm_compare_last_calls(struct comm *comm, int rank)
{
	const struct last_calls *calls = comm->last_calls ? comm->last_calls[rank] : NULL;

	if (comm->error || comm->pending_code)
		return 1;
	for (uint32_t i = 0; calls && i < calls->number - calls->first; i++)
		if (comm_differs(comm, rank, calls->first + i, calls->call[i].meta))
			return 1;
	return 0;
}

void comm_free_last_calls(struct comm *comm)
{
	for (int r = 0; comm->last_calls && r < comm->nranks; r++)
		free(comm->last_calls[r]);
	free(comm->last_calls);
}

static void comm_compare_unexpected(void *user, const struct unexpected *e)
{
	struct comm *comm = user;
	const uint32_t seq = comm->seq - 1;
	const struct signature *ours = &comm->history[seq % COMM_HISTORY];

	if (!comm->pending_code && !match_same_call(e->header.meta, ours->meta))
		comm_report_call(comm, comm->to_comm_rank[e->peer], seq, e->header.meta,
				 ours->meta);
}

/* Messages for the newest collective that came before it was issued must have the same signature. */
void comm_compare_newest(struct comm *comm)
{
	uint32_t seq = comm->seq - 1;

	compare_note(comm, &comm->history[seq % COMM_HISTORY]);
	if (!comm->context->match.unexpected_count || comm_is_ambiguous(comm))
		return;
	call_index_each(&comm->context->match.calls, comm_tag_collective(comm, seq, 0),
			comm_compare_unexpected, comm);
}
