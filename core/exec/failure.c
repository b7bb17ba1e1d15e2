/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - messages that do not match the call of this rank: the check and the error text. */
#include "exec/compare.h"
#include "exec/message.h"
#include "exec/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)CONTEXT_FREED *CONTEXT_FREED_PIECE == 1 << TAG_CONTEXT_BITS, "room for all");

/* Without memory for the bit, late messages stay in memory until the context closes. */
void comm_note_freed(struct context *context, uint32_t context_id)
{
	uint8_t **piece = &context->freed[context_id / CONTEXT_FREED_PIECE];
	uint32_t bit = context_id % CONTEXT_FREED_PIECE;

	if (!*piece)
		*piece = calloc(CONTEXT_FREED_PIECE / 8, 1);
	if (*piece)
		(*piece)[bit / 8] |= (uint8_t)(1 << bit % 8);
}

static int comm_was_freed(const struct context *context, uint32_t context_id)
{
	const uint8_t *piece = context->freed[context_id / CONTEXT_FREED_PIECE];
	uint32_t bit = context_id % CONTEXT_FREED_PIECE;

	return piece && piece[bit / 8] >> bit % 8 & 1;
}

void comm_set_pending(struct comm *comm, int code, const char *text)
{
	if (comm->pending_code)
		return;
	comm->pending_code = code;
	snprintf(comm->pending_text, sizeof(comm->pending_text), "%s", text);
	comm->context->pending_events = 1;
}

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

/* theirs: the signature in a message of `rank`; ours: the signature that this rank's recv expected. */
static void comm_report_message(struct comm *comm, int rank, uint64_t tag, const uint64_t *theirs,
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

/* The calls agree, but the counts of the v-form do not. */
static void comm_report_lengths(struct comm *comm, const struct recv *recv, uint32_t peer,
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

void comm_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
		   const coll_header_t *header)
{
	struct comm *comm = comm_of_tag(context, header->tag);
	int same = match_same_call(recv->meta, header->meta);

	if (recv->loose)
		message_misfit(recv, peer, header);
	if (!comm || recv->loose)
		return;
	if (header->tag & TAG_USER)
		comm_report_message(comm, comm->to_comm_rank[peer], header->tag, header->meta,
				    recv->meta);
	else if (same)
		comm_report_lengths(comm, recv, peer, header);
	else
		comm_report_call(comm, comm->to_comm_rank[peer], recv->op->seq, header->meta,
				 recv->meta);
}

/*
 * The communicator of the message fails: the fault is this rank's.  A communicator that is still being
 * made cannot fail: then the connection has to end, and context->failure names the cause.
 */
int comm_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	struct comm *comm = comm_of_tag(context, header->tag);
	struct rank_name name, own;
	char text[512];

	if (!comm) {
		context->refused = (int)peer;
		context->refused_len = header->len;
		return COLL_ERR_NO_MEMORY;
	}
	snprintf(text, sizeof(text),
		 "%s has no memory to keep a message of %llu bytes from %s, which came before %s "
		 "waited for it: give %s more memory, or call receives earlier",
		 comm_own_name(comm, &own), (unsigned long long)header->len,
		 comm_rank_name(comm, comm->to_comm_rank[peer], &name), own.text, own.text);
	comm_set_pending(comm, COLL_ERR_NO_MEMORY, text);
	return COLL_SUCCESS;
}

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

/* Compares another rank's signature of collective `seq` with this rank's, if it is known: 1 if they differ. */
static int comm_differs(struct comm *comm, int rank, uint32_t seq, const uint64_t *theirs)
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

int comm_check_unexpected(struct context *context, uint32_t peer, const coll_header_t *h)
{
	struct comm *comm = comm_of_tag(context, h->tag);
	uint32_t seq = (uint32_t)(h->tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK;

	if (!comm && !comm_tag_is_birth(h->tag))
		return comm_was_freed(context, (uint32_t)(h->tag >> TAG_CONTEXT_SHIFT));
	if (h->tag & MATCH_CONTROL)
		return 0;
	if (comm_tag_is_loose(h->tag)) /* a thread may sleep in coll_probe */
		context->sleepers_have_news = 1;
	if (comm->error || comm->pending_code || comm->to_comm_rank[peer] < 0)
		return 1;
	return !(h->tag & TAG_USER) && comm_differs(comm, comm->to_comm_rank[peer], seq, h->meta);
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
