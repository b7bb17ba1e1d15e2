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

static struct position report_hashes(const struct lane *lane)
{
	struct position p = {.number = lane->seq, .kind = POSITION_NONE};

	if (lane->log->hash) {
		p.hash = lane->log->hash->now;
		p.mark = call_log_mark(lane, lane->seq);
	}
	return p;
}

const struct record *report_newest_call(const struct lane *lane)
{
	const struct record *last = NULL;
	uint64_t number = lane->issued;

	while ((last = call_log_record(lane, number)) && last->kind == KIND_AWAIT)
		number--;
	return last;
}

static void report_newest(const struct lane *lane, struct position *p)
{
	const struct record *last = report_newest_call(lane);

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
	p->seq_or_tag = kind_at(a->kind)->is_collective ? op->seq : (uint32_t)a->tag;
	p->peer = a->root;
}

static struct position report_position(const struct lane *lane)
{
	struct position p = report_hashes(lane);

	if (stall_is_busy(lane))
		p.stalled = stall_waits(lane)        ? STALLED_WAITS
			    : stall_is_outside(lane) ? STALLED_OUTSIDE
						     : STALLED_NOT;
	if (lane->native)
		report_newest(lane, &p);
	else if (!lane->queue.head)
		message_position(lane, &p);
	else if (lane->queue.head->call.args.kind != KIND_AWAIT)
		report_oldest(lane->queue.head, &p);
	return p;
}

static int32_t report_elsewhere(const struct lane *lane)
{
	if (lane->shrinks->waits)
		return ELSEWHERE_SHRINK;
	for (const struct lane *other = lane->context->lanes; other; other = other->next)
		if (other != lane && other->queue.head)
			return other->queue.head->call.args.kind == KIND_AWAIT
				       ? KIND_AWAIT
				       : signature_kind(other->queue.head->call.signature.meta);
	return ELSEWHERE_NOWHERE;
}

/*
 * Where all calls have one order, the queue of a lane may wait for a call of the other lane: a thread that waits in that queue waits
 * for the call.
 */
static void report_add_waits(const struct lane *lane, struct position *p, const struct lane *other)
{
	const struct op *op = other->queue.head;

	if (!p->stalled && op && op->call.args.kind == KIND_AWAIT &&
	    op->awaited.outcome == lane->comm->outcome && op->awaited.lane_index == lane->index &&
	    stall_is_busy(lane) && stall_waits(other))
		p->stalled = STALLED_WAITS;
}

struct report report_make(const struct lane *lane, uint32_t flags)
{
	struct report r = {.flags = flags, .here = report_hashes(lane)};
	struct lane *other;

	if (!(flags & REPORT_WHERE))
		return r;
	r.here = report_position(lane);
	if (r.here.kind == POSITION_NONE)
		r.elsewhere = report_elsewhere(lane);
	other = lane_lock_other(lane);
	if (other) {
		r.other = report_position(other);
		report_add_waits(lane, &r.here, other);
		report_add_waits(other, &r.other, lane);
		r.flags |= REPORT_OTHER;
		lane_unlock_other(other);
	}
	return r;
}

/* The report names the calls before `number` that the log still has, at most `most` calls. */
static void report_name_calls(const struct lane *lane, struct report *r, uint32_t number,
			      uint32_t most)
{
	const uint32_t kept = lane->log->mask + 1, age = lane->seq - number;
	uint32_t calls = age < kept ? kept - age : 0;

	calls = calls < most ? calls : most;
	r->calls = calls < number ? calls : number;
	r->first = number - r->calls;
}

/* ---------------------------------------------------------------------------------- sending -- */

/* Sends the report and its calls to a rank, or to all other ranks (-1).  If memory runs out, the report names no calls. */
static void report_send(struct lane *lane, int rank, struct report r)
{
	const int end = rank < 0 ? lane->comm->nranks : rank + 1;
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
			call[i] = *call_log_at(lane, r.first + i);
	}
	len = sizeof(r) + r.calls * sizeof(*call);
	for (rank = rank < 0 ? 0 : rank; rank < end; rank++)
		if (rank != lane->comm->rank && lane->peer_state[rank] != PEER_LEFT)
			context_send_struct(lane->context, lane->to_context_rank[rank],
					    tag_control(lane->context_id), CONTROL_REPORT,
					    copy ? (const void *)copy : &r, len);
	free(copy);
}

/* A backend without a transport carries no questions: its control channel does. */
int report_can_ask(const struct lane *lane)
{
	return lane->context->ep &&
	       (lane->context->plugin->backend.transport || lane->traffic->channel);
}

/* If this rank has not moved since its last question, a rank that answered that question lives, even if it is too busy to
 * answer again. */
static void report_forget_answers(struct lane *lane)
{
	struct watch *watch = lane->watch;
	const uint64_t moves = stall_moves(lane);

	for (int r = 0; r < lane->comm->nranks; r++)
		watch->rank[r].answered = watch->rank[r].answered && moves == watch->asked_moves
						  ? ANSWERED_BEFORE
						  : ANSWERED_NOT;
	watch->rank[lane->comm->rank].answered = ANSWERED;
	watch->asked_moves = moves;
}

void report_ask(struct lane *lane)
{
	if (!report_can_ask(lane))
		return;
	report_forget_answers(lane);
	report_send(lane, -1, report_make(lane, REPORT_ASKS));
}

void report_leave(struct lane *lane)
{
	struct report r = report_make(lane, REPORT_LEAVES);

	if (lane->log->hash || !lane->native)
		report_name_calls(lane, &r, lane->seq, lane->log->hash ? REPORT_LAST : LOG_CALLS);
	report_send(lane, -1, r);
}

/* ------------------------------------------------------------------------- comparing calls -- */

static int report_call_differs(struct lane *lane, int rank, uint32_t seq, struct signature theirs)
{
	const struct signature *known = call_log_at(lane, seq);
	struct signature ours = known ? *known : theirs;

	if (lane->log->hash) {
		ours = call_log_plain(&ours);
		theirs = call_log_plain(&theirs);
	}
	if (match_same_call(theirs.meta, ours.meta))
		return 0;
	comm_report_call(lane, rank, seq, theirs.meta, ours.meta);
	return 1;
}

/*
 * Compares calls of a rank, from number `first` on.  Returns 1 if one differs.  bytes: their signatures, which have no
 * alignment.
 */
static int report_calls_differ(struct lane *lane, int rank, uint32_t first, uint32_t calls,
			       const void *bytes)
{
	struct signature call;

	for (uint32_t i = 0; i < calls; i++) {
		memcpy(&call, (const char *)bytes + i * sizeof(call), sizeof(call));
		if (report_call_differs(lane, rank, first + i, call))
			return 1;
	}
	return 0;
}

int report_compare_left(struct lane *lane, int rank)
{
	const struct left_calls *left = watch_left(lane, rank);

	return lane->error || lane->pending.code ||
	       (left && report_calls_differ(lane, rank, left->first, left->calls, left->call));
}

/* Are so many operations queued that two of these operations may have one sequence number in their tags? */
static int report_is_ambiguous(const struct lane *lane)
{
	return lane->issued - lane->finished > TAG_SEQ_APART;
}

int report_message_differs(struct lane *lane, int rank, uint32_t seq, const uint64_t *theirs)
{
	const uint32_t age = (lane->seq - 1 - seq) & TAG_SEQ_MASK;
	const struct signature *ours = call_log_at(lane, lane->seq - 1 - age);

	if (!ours || report_is_ambiguous(lane) || match_same_call(ours->meta, theirs))
		return 0;
	comm_report_call(lane, rank, lane->seq - 1 - age, theirs, ours->meta);
	return 1;
}

static void report_compare_unexpected(void *user, const struct unexpected *e)
{
	struct lane *lane = user;
	const struct signature *ours = call_log_newest_call(lane);

	if (!lane->pending.code && !match_same_call(e->header.meta, ours->meta))
		comm_report_call(lane, lane->to_comm_rank[e->peer], lane->seq - 1, e->header.meta,
				 ours->meta);
}

/* Messages for the newest collective that came before it was issued must have the same signature. */
void report_compare_newest(struct lane *lane)
{
	struct signature hashed;

	if (lane->log->hash) {
		hashed = call_log_hashed(call_log_newest_call(lane));
		if (call_log_add_hash(lane, &hashed))
			report_mark(lane);
	}
	if (!lane->traffic->match.unexpected_count || report_is_ambiguous(lane))
		return;
	call_index_each(&lane->traffic->match.calls, tag_collective(lane, lane->seq - 1, 0),
			report_compare_unexpected, lane);
}

/* ------------------------------------------------------------------------ comparing hashes -- */

/*
 * The hashes of the first `number` collectives differ.  Each rank knows its own calls only, so this rank sends its calls to
 * the peer, which finds the first call that differs, and tells all ranks.
 */
static void report_differ(struct lane *lane, int rank, uint32_t number)
{
	struct compared *c = lane->watch->compared;
	const int64_t now = clock_now_us();
	struct report r;

	if (report_compare_left(lane, rank) ||
	    (c->differ_us && now - c->differ_us <= REPORT_ANSWER_US))
		return;
	if (c->differ_us || lane->peer_state[rank] == PEER_LEFT) {
		comm_report_unnamed(lane, rank, number);
	} else {
		r = report_make(lane, REPORT_DIFFERS);
		report_name_calls(lane, &r, number, LOG_MARK_EVERY);
		report_send(lane, rank, r);
	}
	c->differ_us = now;
	c->differ_rank = rank;
	c->differ_number = number;
}

/* Numbers wrap around. */
static int report_is_ahead(const struct lane *lane, uint32_t number)
{
	return (int32_t)(number - lane->seq) > 0;
}

/* 1: the hashes differ, or this rank has not made as many calls yet as the peer has counted. */
static int report_hash_differs(struct lane *lane, int rank, uint32_t number, uint64_t theirs)
{
	uint64_t ours;

	if (report_is_ahead(lane, number))
		return 1;
	if (!call_log_find_hash(lane, number, &ours) || ours == theirs)
		return 0;
	report_differ(lane, rank, number);
	return 1;
}

/* Compares the hashes of a number that both ranks have reached. */
static void report_compare_hashes(struct lane *lane, int rank, const struct position *theirs)
{
	struct compared *c = lane->watch->compared;
	const uint32_t mark = theirs->number - theirs->number % LOG_MARK_EVERY;

	c->number[rank] = theirs->number;
	if (!report_hash_differs(lane, rank, mark, theirs->mark)) {
		(void)report_hash_differs(lane, rank, theirs->number, theirs->hash);
	} else if (report_is_ahead(lane, mark) && c->ahead_rank < 0) {
		c->ahead_number = mark;
		c->ahead_hash = theirs->mark;
		c->ahead_rank = rank;
	}
}

void report_mark(struct lane *lane)
{
	struct compared *c = lane->watch->compared;

	report_send(lane, (lane->comm->rank + 1) % lane->comm->nranks, report_make(lane, 0));
	if (c->ahead_rank < 0 || report_is_ahead(lane, c->ahead_number))
		return;
	(void)report_hash_differs(lane, c->ahead_rank, c->ahead_number, c->ahead_hash);
	c->ahead_rank = -1;
}

int report_lacks(const struct lane *lane, int rank, uint32_t seq)
{
	const struct compared *c = lane->watch->compared;

	return c && rank != lane->comm->rank && (int32_t)(c->number[rank] - seq) <= 0;
}

/* -------------------------------------------------------------------- ranks that have left -- */

static void report_look_at(struct lane *lane, int rank, int leaves)
{
	const struct left_calls *left = watch_left(lane, rank);
	uint32_t number, at;
	int32_t ahead;

	if (!left || report_compare_left(lane, rank))
		return;
	number = left->first + left->calls;
	ahead = (int32_t)(lane->seq - number);
	at = lane->seq - left->first;
	/* If this rank still waits for the departed rank, the wait tells the program. */
	if (ahead > 0 && lane->finished == lane->issued)
		comm_report_missing(lane, lane->comm->rank, rank, number,
				    call_log_at(lane, number));
	else if (ahead < 0 && leaves)
		comm_report_missing(lane, rank, lane->comm->rank, lane->seq,
				    at < left->calls ? &left->call[at] : NULL);
}

void report_check_left(struct lane *lane, int leaves)
{
	struct compared *c = lane->watch->compared;
	const int waits = lane->finished != lane->issued;

	if (!c || !lane->nleft || (c->left_looked == (uint64_t)lane->seq + 1 && !leaves))
		return;
	c->left_looked = waits ? 0 : (uint64_t)lane->seq + 1;
	for (int r = 0; r < lane->comm->nranks && !lane->error && !lane->pending.code; r++)
		if (r != lane->comm->rank && lane->peer_state[r] == PEER_LEFT)
			report_look_at(lane, r, leaves);
}

static void report_take_leave(struct lane *lane, int rank)
{
	struct compared *c = lane->watch->compared;

	lane->peer_state[rank] = PEER_LEFT;
	lane->nleft++;
	if (!c || lane->error || lane->pending.code)
		return;
	c->left_looked = 0;
	if (c->differ_us && c->differ_rank == rank && !report_compare_left(lane, rank))
		comm_report_unnamed(lane, rank, c->differ_number);
	report_check_left(lane, 0);
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
static void report_check_order(struct lane *lane, int peer, const struct report *theirs)
{
	char our_call[256], their_call[256];
	struct rank_name name, own;
	struct report ours;
	int across_here;

	if (!(theirs->flags & REPORT_OTHER) || !(theirs->here.stalled || theirs->other.stalled) ||
	    lane->error || lane->pending.code)
		return;
	ours = report_make(lane, REPORT_ANSWERS);
	across_here = report_is_across(&ours.here, &ours.other, &theirs->here, &theirs->other);
	if (!(ours.flags & REPORT_OTHER) ||
	    (!across_here &&
	     !report_is_across(&ours.other, &ours.here, &theirs->other, &theirs->here)))
		return;
	stall_describe_position(lane, !across_here, across_here ? &ours.here : &ours.other,
				our_call, sizeof(our_call));
	stall_describe_position(lane, across_here, across_here ? &theirs->other : &theirs->here,
				their_call, sizeof(their_call));
	lane_set_pending(lane, COLL_ERR_MISMATCH,
			 "%s %s, but %s %s: all ranks must make the same calls in the same order%s",
			 comm_rank_name(lane, peer, &name), their_call, comm_own_name(lane, &own),
			 our_call, stall_lanes_share(lane) ? "" : ", on memory of one kind");
}

/* ----------------------------------------------------------------------------------- taking -- */

/* Compares the report of another rank with the log; calls: the signatures that follow the report. */
static void report_compare(struct lane *lane, int rank, const struct report *r, const void *calls)
{
	const struct position *p = &r->here;

	if (lane->error || lane->pending.code)
		return;
	if (!lane->log->hash) {
		if (kind_at(p->kind)->is_collective)
			(void)report_call_differs(lane, rank, p->seq_or_tag,
						  (struct signature){{p->meta[0], p->meta[1]}});
	} else if (!(r->flags & REPORT_DIFFERS)) {
		report_compare_hashes(lane, rank, p);
	} else if (!report_calls_differ(lane, rank, r->first, r->calls, calls)) {
		comm_report_unnamed(lane, rank, r->first + r->calls);
	}
}

static void report_take_where(struct lane *lane, int rank, const struct report *r)
{
	const struct position *p = &r->here;

	if (r->flags & REPORT_ASKS)
		report_send(lane, rank, report_make(lane, REPORT_ANSWERS));
	lane->watch->rank[rank].answered = ANSWERED;
	if (lane->native && p->kind >= 0)
		watch_see(lane, rank, p->meta, p->seq_or_tag);
	watch_keep(lane, rank, r);
}

/* Drops a malformed report; but a rank leaves even if its last report counts more or fewer calls than the message holds. */
int report_take(struct lane *lane, int rank, const void *bytes, size_t len)
{
	const uint32_t most = lane->log->hash ? LOG_MARK_EVERY : LOG_CALLS;
	const void *calls = (const char *)bytes + sizeof(struct report);
	struct report r;
	int leaves, whole;

	if (len < sizeof(r))
		return 0;
	memcpy(&r, bytes, sizeof(r));
	leaves = (r.flags & REPORT_LEAVES) && lane->peer_state[rank] != PEER_LEFT;
	whole = r.calls <= most && len == sizeof(r) + r.calls * sizeof(struct signature);
	/* A rank that leaves too waits for nobody, unless it compares hashes to its end. */
	if (whole && leaves && (!lane->leaving || lane->log->hash))
		watch_keep_left(lane, rank, r.first, r.calls, calls);
	if (whole && (r.flags & REPORT_WHERE))
		report_take_where(lane, rank, &r);
	if (whole) {
		report_compare(lane, rank, &r, calls);
		report_check_order(lane, rank, &r);
	}
	if (leaves)
		report_take_leave(lane, rank);
	return leaves;
}
