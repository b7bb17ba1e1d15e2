/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - where a rank is, told to other ranks, and compared with the calls of this one: see report.h. */
#include "watch/report.h"
#include "comm/shrinks.h"
#include "watch/failure.h"
#include "watch/message_words.h"
#include "comm/op.h"
#include "comm/lane.h"
#include "watch/stall_words.h"
#include "base/clock.h"
#include "transport/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REPORT_WHERE = REPORT_ASKS | REPORT_ANSWERS,
	/* With hashes a rank that leaves names so many calls: an odd one among them may have ended on all ranks. */
	REPORT_LAST = 256,
	/* The rank whose calls differ has so long to name the first call that differs. */
	REPORT_ANSWER_US = 1000000
};

/* ----------------------------------------------------------------------------------- making -- */

static struct position report_hashes(const struct comm *comm)
{
	struct position p = {.number = comm->seq, .kind = POSITION_NONE};

	if (comm->log->hash) {
		p.hash = comm->log->hash->now;
		p.mark = call_log_mark(comm, comm->seq);
	}
	return p;
}

static void report_newest(const struct comm *comm, struct position *p)
{
	const struct record *last = call_log_record(comm, comm->issued);

	if (!last)
		return;
	p->kind = last->kind;
	p->meta[0] = last->meta[0];
	p->meta[1] = last->meta[1];
	p->seq_or_tag = last->seq_or_tag;
	p->peer = last->peer;
}

static void report_oldest(const struct op *op, struct position *p)
{
	const coll_args_t *a = &op->call.args;

	p->kind = a->kind;
	p->meta[0] = op->call.signature.meta[0];
	p->meta[1] = op->call.signature.meta[1];
	p->seq_or_tag = kind_is_collective(a->kind) ? op->seq : (uint32_t)a->tag;
	p->peer = a->root;
}

static struct position report_position(const struct comm *comm)
{
	struct position p = report_hashes(comm);

	if (stall_is_busy(comm))
		p.stalled = stall_waits(comm)        ? STALLED_WAITS
			    : stall_is_outside(comm) ? STALLED_OUTSIDE
						     : STALLED_NOT;
	if (comm->native)
		report_newest(comm, &p);
	else if (!comm->queue.head)
		message_position(comm, &p);
	else if (comm->queue.head->call.args.kind != KIND_AWAIT)
		report_oldest(comm->queue.head, &p);
	return p;
}

static int32_t report_elsewhere(const struct comm *comm)
{
	if (comm->shrinks->waits)
		return ELSEWHERE_SHRINK;
	for (const struct comm *c = comm->context->comms; c; c = c->next)
		if (c != comm && c->queue.head)
			return c->queue.head->call.args.kind == KIND_AWAIT
				       ? KIND_AWAIT
				       : signature_kind(c->queue.head->call.signature.meta);
	return ELSEWHERE_NOWHERE;
}

struct report report_make(const struct comm *comm, uint32_t flags)
{
	struct report r = {.flags = flags, .here = report_hashes(comm)};
	struct comm *other;

	if (!(flags & REPORT_WHERE))
		return r;
	r.here = report_position(comm);
	if (r.here.kind == POSITION_NONE)
		r.elsewhere = report_elsewhere(comm);
	other = lane_lock_other(comm);
	if (other) {
		r.other = report_position(other);
		r.flags |= REPORT_OTHER;
		lane_unlock_other(other);
	}
	return r;
}

/* The report names the calls before `number` that the log still has, at most `most` calls. */
static void report_name_calls(const struct comm *comm, struct report *r, uint32_t number,
			      uint32_t most)
{
	const uint32_t kept = comm->log->mask + 1, age = comm->seq - number;
	uint32_t calls = age < kept ? kept - age : 0;

	calls = calls < most ? calls : most;
	r->calls = calls < number ? calls : number;
	r->first = number - r->calls;
}

/* ---------------------------------------------------------------------------------- sending -- */

/* Sends the report and its calls to a rank, or to all other ranks (-1).  If memory runs out, the report names no calls. */
static void report_send(struct comm *comm, int rank, struct report r)
{
	const int end = rank < 0 ? comm->nranks : rank + 1;
	struct signature *call;
	char *copy = r.calls ? malloc(sizeof(r) + r.calls * sizeof(*call)) : NULL;
	size_t len;

	if (!copy) {
		r.first += r.calls;
		r.calls = 0;
	} else {
		memcpy(copy, &r, sizeof(r));
		call = (void *)(copy + sizeof(r));
		for (uint32_t i = 0; i < r.calls; i++)
			call[i] = *call_log_at(comm, r.first + i);
	}
	len = sizeof(r) + r.calls * sizeof(*call);
	for (rank = rank < 0 ? 0 : rank; rank < end; rank++)
		if (rank != comm->rank && comm->peer_state[rank] != PEER_LEFT)
			context_send_struct(comm->context, comm->to_context_rank[rank],
					    comm_tag_control(comm->context_id), CONTROL_REPORT,
					    copy ? (const void *)copy : &r, len);
	free(copy);
}

/* A backend without a transport carries no questions: its control channel does. */
int report_can_ask(const struct comm *comm)
{
	return comm->context->ep &&
	       (comm->context->plugin->backend.transport || traffic_of(comm->context)->channel);
}

/* If this rank has not moved since its last question, a rank that answered that question lives, even if it is too busy to
 * answer again. */
static void report_forget_answers(struct comm *comm)
{
	struct watch *watch = comm->watch;
	const uint64_t place = stall_place(comm);

	for (int r = 0; r < comm->nranks; r++)
		watch->rank[r].answered = watch->rank[r].answered && place == watch->asked_place
						  ? ANSWERED_BEFORE
						  : ANSWERED_NOT;
	watch->rank[comm->rank].answered = ANSWERED;
	watch->asked_place = place;
}

void report_ask(struct comm *comm)
{
	if (!report_can_ask(comm))
		return;
	report_forget_answers(comm);
	report_send(comm, -1, report_make(comm, REPORT_ASKS));
}

void report_leave(struct comm *comm)
{
	struct report r = report_make(comm, REPORT_LEAVES);

	if (comm->log->hash || !comm->native)
		report_name_calls(comm, &r, comm->seq, comm->log->hash ? REPORT_LAST : LOG_CALLS);
	report_send(comm, -1, r);
}

/* ------------------------------------------------------------------------- comparing calls -- */

static int report_call_differs(struct comm *comm, int rank, uint32_t seq, struct signature theirs)
{
	const struct signature *known = call_log_at(comm, seq);
	struct signature ours = known ? *known : theirs;

	if (comm->log->hash) {
		ours = call_log_plain(&ours);
		theirs = call_log_plain(&theirs);
	}
	if (match_same_call(theirs.meta, ours.meta))
		return 0;
	comm_report_call(comm, rank, seq, theirs.meta, ours.meta);
	return 1;
}

/* Compares calls of a rank, from number `first` on: 1 if one differs.  bytes: their signatures, which have no alignment. */
static int report_calls_differ(struct comm *comm, int rank, uint32_t first, uint32_t calls,
			       const void *bytes)
{
	struct signature call;

	for (uint32_t i = 0; i < calls; i++) {
		memcpy(&call, (const char *)bytes + i * sizeof(call), sizeof(call));
		if (report_call_differs(comm, rank, first + i, call))
			return 1;
	}
	return 0;
}

int report_compare_left(struct comm *comm, int rank)
{
	const struct left_calls *left = watch_left(comm, rank);

	return comm->error || comm->pending.code ||
	       (left && report_calls_differ(comm, rank, left->first, left->calls, left->call));
}

/* Are so many operations queued that two of these operations may have one sequence number in their tags? */
static int report_is_ambiguous(const struct comm *comm)
{
	return comm->issued - comm->finished > TAG_SEQ_APART;
}

int report_message_differs(struct comm *comm, int rank, uint32_t seq, const uint64_t *theirs)
{
	const uint32_t age = (comm->seq - 1 - seq) & TAG_SEQ_MASK;
	const struct signature *ours = call_log_at(comm, comm->seq - 1 - age);

	if (!ours || report_is_ambiguous(comm) || match_same_call(ours->meta, theirs))
		return 0;
	comm_report_call(comm, rank, comm->seq - 1 - age, theirs, ours->meta);
	return 1;
}

static void report_compare_unexpected(void *user, const struct unexpected *e)
{
	struct comm *comm = user;
	const struct signature *ours = call_log_newest_call(comm);

	if (!comm->pending.code && !match_same_call(e->header.meta, ours->meta))
		comm_report_call(comm, comm->to_comm_rank[e->peer], comm->seq - 1, e->header.meta,
				 ours->meta);
}

/* Messages for the newest collective that came before it was issued must have the same signature. */
void report_compare_newest(struct comm *comm)
{
	if (comm->log->hash && call_log_add_hash(comm, call_log_newest_call(comm)))
		report_mark(comm);
	if (!traffic_of(comm->context)->match.unexpected_count || report_is_ambiguous(comm))
		return;
	call_index_each(&traffic_of(comm->context)->match.calls,
			comm_tag_collective(comm, comm->seq - 1, 0), report_compare_unexpected,
			comm);
}

/* ------------------------------------------------------------------------ comparing hashes -- */

/*
 * The hashes of the first `number` collectives differ.  Each rank knows its own calls only, so this rank sends its calls to
 * the peer, which finds the first call that differs, and tells all ranks.
 */
static void report_differ(struct comm *comm, int rank, uint32_t number)
{
	struct compared *c = comm->watch->compared;
	const int64_t now = clock_now_us();
	struct report r;

	if (report_compare_left(comm, rank) ||
	    (c->differ_us && now - c->differ_us <= REPORT_ANSWER_US))
		return;
	if (c->differ_us || comm->peer_state[rank] == PEER_LEFT) {
		comm_report_unnamed(comm, rank, number);
	} else {
		r = report_make(comm, REPORT_DIFFERS);
		report_name_calls(comm, &r, number, LOG_MARK_EVERY);
		report_send(comm, rank, r);
	}
	c->differ_us = now;
	c->differ_rank = rank;
	c->differ_number = number;
}

/* Numbers wrap around. */
static int report_is_ahead(const struct comm *comm, uint32_t number)
{
	return (int32_t)(number - comm->seq) > 0;
}

/* 1: the hashes differ, or this rank has not made as many calls yet as the peer has counted. */
static int report_hash_differs(struct comm *comm, int rank, uint32_t number, uint64_t theirs)
{
	uint64_t ours;

	if (report_is_ahead(comm, number))
		return 1;
	if (!call_log_find_hash(comm, number, &ours) || ours == theirs)
		return 0;
	report_differ(comm, rank, number);
	return 1;
}

/* Compares the hashes of a number that both ranks have reached. */
static void report_compare_hashes(struct comm *comm, int rank, const struct position *theirs)
{
	struct compared *c = comm->watch->compared;
	const uint32_t mark = theirs->number - theirs->number % LOG_MARK_EVERY;

	c->number[rank] = theirs->number;
	if (!report_hash_differs(comm, rank, mark, theirs->mark)) {
		(void)report_hash_differs(comm, rank, theirs->number, theirs->hash);
	} else if (report_is_ahead(comm, mark) && c->ahead_rank < 0) {
		c->ahead_number = mark;
		c->ahead_hash = theirs->mark;
		c->ahead_rank = rank;
	}
}

void report_mark(struct comm *comm)
{
	struct compared *c = comm->watch->compared;

	report_send(comm, (comm->rank + 1) % comm->nranks, report_make(comm, 0));
	if (c->ahead_rank < 0 || report_is_ahead(comm, c->ahead_number))
		return;
	(void)report_hash_differs(comm, c->ahead_rank, c->ahead_number, c->ahead_hash);
	c->ahead_rank = -1;
}

int report_lacks(const struct comm *comm, int rank, uint32_t seq)
{
	const struct compared *c = comm->watch->compared;

	return c && rank != comm->rank && (int32_t)(c->number[rank] - seq) <= 0;
}

/* -------------------------------------------------------------------- ranks that have left -- */

static void report_look_at(struct comm *comm, int rank, int leaves)
{
	const struct left_calls *left = watch_left(comm, rank);
	uint32_t number, at;
	int32_t ahead;

	if (!left || report_compare_left(comm, rank))
		return;
	number = left->first + left->calls;
	ahead = (int32_t)(comm->seq - number);
	at = comm->seq - left->first;
	/* If this rank still waits for the departed rank, the wait tells the program. */
	if (ahead > 0 && comm->finished == comm->issued)
		comm_report_missing(comm, comm->rank, rank, number, call_log_at(comm, number));
	else if (ahead < 0 && leaves)
		comm_report_missing(comm, rank, comm->rank, comm->seq,
				    at < left->calls ? &left->call[at] : NULL);
}

void report_check_left(struct comm *comm, int leaves)
{
	struct compared *c = comm->watch->compared;
	const int waits = comm->finished != comm->issued;

	if (!c || !comm->nleft || (c->left_looked == (uint64_t)comm->seq + 1 && !leaves))
		return;
	c->left_looked = waits ? 0 : (uint64_t)comm->seq + 1;
	for (int r = 0; r < comm->nranks && !comm->error && !comm->pending.code; r++)
		if (r != comm->rank && comm->peer_state[r] == PEER_LEFT)
			report_look_at(comm, r, leaves);
}

static void report_take_leave(struct comm *comm, int rank)
{
	struct compared *c = comm->watch->compared;

	comm->peer_state[rank] = PEER_LEFT;
	comm->nleft++;
	if (!c || comm->error || comm->pending.code)
		return;
	c->left_looked = 0;
	if (c->differ_us && c->differ_rank == rank && !report_compare_left(comm, rank))
		comm_report_unnamed(comm, rank, c->differ_number);
	report_check_left(comm, 0);
}

/* --------------------------------------------- ranks that wait for each other in two lanes -- */

static int report_has_made_more(const struct position *a, const struct position *b)
{
	return (int32_t)(a->number - b->number) > 0;
}

/*
 * For long this rank has been in a call of one lane that the peer has not made (a), and the peer in a call of the
 * other lane that this rank has not made (b).  A rank makes its report with the locks of both lanes, so the
 * report covers all calls up to one moment: of two ranks that make their calls in one order, neither is ahead of its peer in
 * one lane and behind it in the other lane.
 */
static int report_is_across(const struct position *our_a, const struct position *our_b,
			    const struct position *their_a, const struct position *their_b)
{
	return our_a->stalled && their_b->stalled && report_has_made_more(our_a, their_a) &&
	       report_has_made_more(their_b, our_b);
}

/*
 * Fails the communicator soon if this rank and the peer wait in different lanes, and neither rank has
 * made the call in which its peer waits.
 */
static void report_check_order(struct comm *comm, int peer, const struct report *theirs)
{
	char our_call[256], their_call[256];
	struct rank_name name, own;
	struct report ours;
	int across_here;

	if (!(theirs->flags & REPORT_OTHER) || !(theirs->here.stalled || theirs->other.stalled) ||
	    comm->error || comm->pending.code)
		return;
	ours = report_make(comm, REPORT_ANSWERS);
	across_here = report_is_across(&ours.here, &ours.other, &theirs->here, &theirs->other);
	if (!(ours.flags & REPORT_OTHER) ||
	    (!across_here &&
	     !report_is_across(&ours.other, &ours.here, &theirs->other, &theirs->here)))
		return;
	stall_describe_place(comm, !across_here, across_here ? &ours.here : &ours.other, our_call,
			     sizeof(our_call));
	stall_describe_place(comm, across_here, across_here ? &theirs->other : &theirs->here,
			     their_call, sizeof(their_call));
	comm_set_pending(
		comm, COLL_ERR_MISMATCH,
		"%s %s, but %s %s: all ranks must make the same calls in the same order, on memory "
		"of one kind",
		comm_rank_name(comm, peer, &name), their_call, comm_own_name(comm, &own), our_call);
}

/* ----------------------------------------------------------------------------------- taking -- */

/* Compares the report of another rank with the log; calls: the signatures that follow the report. */
static void report_compare(struct comm *comm, int rank, const struct report *r, const void *calls)
{
	const struct position *p = &r->here;

	if (comm->error || comm->pending.code)
		return;
	if (!comm->log->hash) {
		if (kind_is_collective(p->kind))
			(void)report_call_differs(comm, rank, p->seq_or_tag,
						  (struct signature){{p->meta[0], p->meta[1]}});
	} else if (!(r->flags & REPORT_DIFFERS)) {
		report_compare_hashes(comm, rank, p);
	} else if (!report_calls_differ(comm, rank, r->first, r->calls, calls)) {
		comm_report_unnamed(comm, rank, r->first + r->calls);
	}
}

static void report_take_where(struct comm *comm, int rank, const struct report *r)
{
	const struct position *p = &r->here;

	if (r->flags & REPORT_ASKS)
		report_send(comm, rank, report_make(comm, REPORT_ANSWERS));
	comm->watch->rank[rank].answered = ANSWERED;
	if (comm->native && p->kind >= 0)
		watch_see(comm, rank, p->meta, p->seq_or_tag);
	watch_keep(comm, rank, r);
}

/* Drops a malformed report; but a rank leaves even if its last report counts more or fewer calls than the message holds. */
int report_take(struct comm *comm, int rank, const void *bytes, size_t len)
{
	const uint32_t most = comm->log->hash ? LOG_MARK_EVERY : LOG_CALLS;
	const void *calls = (const char *)bytes + sizeof(struct report);
	struct report r;
	int leaves, whole;

	if (len < sizeof(r))
		return 0;
	memcpy(&r, bytes, sizeof(r));
	leaves = (r.flags & REPORT_LEAVES) && comm->peer_state[rank] != PEER_LEFT;
	whole = r.calls <= most && len == sizeof(r) + r.calls * sizeof(struct signature);
	/* A rank that leaves too waits for nobody, unless it compares hashes to its end. */
	if (whole && leaves && (!comm->leaving || comm->log->hash))
		watch_keep_left(comm, rank, r.first, r.calls, calls);
	if (whole && (r.flags & REPORT_WHERE))
		report_take_where(comm, rank, &r);
	if (whole) {
		report_compare(comm, rank, &r, calls);
		report_check_order(comm, rank, &r);
	}
	if (leaves)
		report_take_leave(comm, rank);
	return leaves;
}
