/* SPDX-License-Identifier: BSD-3-Clause */
/* stall_words.c - where the ranks of an operation that does not move are, in words. */
#include "watch/stall_words.h"
#include "comm/task.h"
#include "transport/traffic.h"
#include "comm/lane.h"
#include "page/page_process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int stall_mark_awaited(const struct lane *lane, uint8_t *from)
{
	int any = lane->waited && lane->waited->kind->awaits(lane->waited, from);

	for (const struct op *op = lane->queue.head; op; op = op->next)
		if (op->state == OP_RUNNING && op->engine->awaits)
			any |= op->engine->awaits(op, from);
	return any;
}

int stall_lanes_share(const struct lane *lane)
{
	return lane_has_one_order(lane->native ? lane : lane_other(lane));
}

/* Which calls one of two lanes has: " on host memory", or " over the companion"; of a single lane "". */
static const char *stall_lane_words(const struct lane *lane, int native)
{
	if (!lane_other(lane))
		return "";
	if (stall_lanes_share(lane))
		return native ? " by the backend" : " over the companion";
	return native ? " on device memory" : " on host memory";
}

void stall_describe_own(const struct lane *lane, char *text, size_t size)
{
	const struct engine *busy = engines_busy(lane);
	size_t used;

	if (busy)
		busy->describe(lane, text, size);
	else if (lane->queue.head)
		call_describe(lane, &lane->queue.head->call, text, size);
	else
		lane->waited->kind->describe(lane->waited, text, size);
	/* Another rank may make another call here, in the other lane (comm/lane.h). */
	used = strlen(text);
	if (lane_other(lane) && (!lane->native || lane->comm->host_issued))
		snprintf(text + used, size - used, ",%s",
			 stall_lane_words(lane, lane->native != NULL));
}

static void stall_see_unexpected(void *user, const struct unexpected *e)
{
	struct stall_unexpected *unexpected = user;
	const struct lane *lane = unexpected->lane;
	const struct signature signature = {{e->header.meta[0], e->header.meta[1]}};
	struct rank_name name;
	char what[160], which[48];

	if (e->header.tag & MATCH_CONTROL || lane->to_comm_rank[e->peer] < 0)
		return;
	if ((e->header.tag & (TAG_USER | TAG_PIECES)) == (TAG_USER | TAG_PIECES))
		return; /* the message before the pieces has a name */
	if (unexpected->messages++)
		return;
	if (tag_is_unordered(e->header.tag))
		snprintf(what, sizeof(what), "isend of %llu bytes",
			 (unsigned long long)e->header.len);
	else
		signature_describe(lane, &signature, what, sizeof(what));
	if (tag_is_unordered(e->header.tag))
		snprintf(which, sizeof(which), "with tag %llu",
			 (unsigned long long)e->header.meta[1]);
	else if (e->header.tag & TAG_USER)
		snprintf(which, sizeof(which), "with tag %u", (unsigned)(uint32_t)e->header.tag);
	else
		snprintf(which, sizeof(which), "as collective number %u",
			 ((unsigned)(e->header.tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK) + 1);
	snprintf(unexpected->text, sizeof(unexpected->text),
		 "; %s has called %s %s, for which nothing waits here",
		 comm_rank_name(lane, lane->to_comm_rank[e->peer], &name), what, which);
}

const char *stall_unexpected(const struct lane *lane, struct stall_unexpected *unexpected)
{
	const uint64_t tag = (uint64_t)lane->context_id << TAG_CONTEXT_SHIFT;

	*unexpected = (struct stall_unexpected){.lane = lane};
	match_each(&lane->traffic->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, tag,
		   stall_see_unexpected, unexpected);
	return unexpected->text;
}

/* Writes "rank 1, 4": the ranks of which is_in() is 1; or "none".  marks: for is_in(). */
static void stall_list_ranks(const struct lane *lane,
			     int (*is_in)(const struct lane *lane, int rank, const uint8_t *marks),
			     const uint8_t *marks, char *text, size_t size)
{
	struct rank_name name;
	size_t at = 0;

	snprintf(text, size, "none");
	for (int r = 0; r < lane->comm->nranks && at < size; r++)
		if (is_in(lane, r, marks))
			at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "",
					       comm_rank_name(lane, r, &name) +
						       (at ? strlen("rank ") : 0));
}

static int stall_is_marked(const struct lane *lane, int rank, const uint8_t *marks)
{
	(void)lane;
	return marks[rank];
}

static int stall_is_silent(const struct lane *lane, int rank, const uint8_t *marks)
{
	(void)marks;
	return lane->watch->rank[rank].answered == ANSWERED_NOT;
}

void stall_list_silent(const struct lane *lane, char *text, size_t size)
{
	stall_list_ranks(lane, stall_is_silent, NULL, text, size);
}

int stall_is_behind(const struct lane *lane, int rank)
{
	const struct report *report = watch_report(lane, rank);

	return rank != lane->comm->rank &&
	       (!report || (int32_t)(report->here.number - lane->seq) < 0);
}

static int stall_lists_behind(const struct lane *lane, int rank, const uint8_t *marks)
{
	(void)marks;
	return stall_is_behind(lane, rank);
}

void stall_list_behind(const struct lane *lane, char *text, size_t size)
{
	stall_list_ranks(lane, stall_lists_behind, NULL, text, size);
}

void stall_describe_awaited(const struct lane *lane, char *text, size_t size)
{
	uint8_t *from = calloc((size_t)lane->comm->nranks, 1);

	snprintf(text, size, "%s",
		 !lane->queue.head || lane->queue.head->call.args.kind == COLL_KIND_RECV
			 ? "any rank"
			 : "none");
	if (from && stall_mark_awaited(lane, from))
		stall_list_ranks(lane, stall_is_marked, from, text, size);
	free(from);
}

/* ------------------------------------------------------------------------ in words -- */

/* "broadcast as collective number 117", or "a message". */
static void stall_describe_last_seen(const struct rank_status *status, char *text, size_t size)
{
	if (kind_at(status->seen_kind)->is_p2p)
		snprintf(text, size, "a message");
	else
		snprintf(text, size, "%s as collective number %llu",
			 signature_kind_name(status->seen_kind), status->seen_seq + 1ULL);
}

/* "waits in coll_probe of a message from any rank with tag 7" */
static void stall_describe_unordered(const struct lane *lane, const struct position *p, char *text,
				     size_t size)
{
	struct rank_name name;
	char tag[32] = "any tag";

	if ((int32_t)p->seq_or_tag != COLL_ANY_TAG)
		snprintf(tag, sizeof(tag), "tag %u", p->seq_or_tag);
	snprintf(text, size, "waits in %s from %s with %s",
		 p->kind == POSITION_PROBE ? "coll_probe of a message" : "coll_irecv",
		 comm_rank_name(lane, p->peer, &name), tag);
}

/* "waits in send to rank 1 with tag 7", or "last called send to rank 1, after 7 collectives". */
static void stall_describe_p2p(const struct lane *lane, int native, const struct position *p,
			       const char *verb, char *text, size_t size)
{
	struct rank_name name;
	size_t at = (size_t)snprintf(text, size, "%s %s %s %s", verb, kind_name(p->kind),
				     p->kind == COLL_KIND_RECV ? "from" : "to",
				     comm_rank_name(lane, p->peer, &name));

	if (native)
		snprintf(text + at, size - at, ", after %u collectives%s", p->number,
			 stall_lane_words(lane, 1));
	else
		snprintf(text + at, size - at, " with tag %u", p->seq_or_tag);
}

void stall_describe_position(const struct lane *lane, int other, const struct position *p,
			     char *text, size_t size)
{
	const struct signature signature = {{p->meta[0], p->meta[1]}};
	const int native = (lane->native != NULL) != other; /* it may have finished the call */
	const char *which = stall_lane_words(lane, native);
	const char *verb = native && p->stalled != STALLED_WAITS ? "last called" : "waits in";
	char call[160];

	if (p->kind == POSITION_PROBE || p->kind == POSITION_IRECV) {
		stall_describe_unordered(lane, p, text, size);
	} else if (p->kind < 0 && native) {
		snprintf(text, size, "has called nothing yet%s", which);
	} else if (p->kind < 0) {
		snprintf(text, size, "has called %u collective%s%s and waits in none", p->number,
			 p->number == 1 ? "" : "s", which);
	} else if (kind_at(p->kind)->is_collective) {
		signature_describe(lane, &signature, call, sizeof(call));
		snprintf(text, size, "%s %s as collective number %u%s%s", verb, call,
			 p->seq_or_tag + 1, which[0] ? " of those" : "", which);
	} else {
		stall_describe_p2p(lane, native, p, verb, text, size);
	}
}

/* Has the rank called anything there? */
static int stall_is_used(const struct report *r)
{
	return (r->flags & REPORT_OTHER) && (r->other.kind != POSITION_NONE || r->other.number);
}

/* Behind "waits in none": ", but in barrier on another communicator"; or "". */
static void stall_describe_elsewhere(const struct report *r, char *text, size_t size)
{
	text[0] = '\0';
	if (r->elsewhere == ELSEWHERE_SHRINK)
		snprintf(text, size, ", but in coll_comm_shrink");
	else if (r->elsewhere > 0)
		snprintf(text, size, ", but in %s on another communicator",
			 signature_kind_name(r->elsewhere));
}

static void stall_describe_report(const struct lane *lane, const struct report *r, char *text,
				  size_t size)
{
	char here[320], other[250];

	stall_describe_position(lane, 0, &r->here, here, sizeof(here));
	stall_describe_elsewhere(r, here + strlen(here), sizeof(here) - strlen(here));
	if (!stall_is_used(r)) {
		snprintf(text, size, "%s", here);
		return;
	}
	stall_describe_position(lane, 1, &r->other, other, sizeof(other));
	snprintf(text, size, "%s, and %s", here, other);
}

/*
 * Writes the end of a sentence about a rank that has not answered: ": its process 4711 is stopped", if this rank can see that
 * process and it is stopped; else "".
 */
static void stall_describe_process(const struct lane *lane, int rank, char *text, size_t size)
{
	const struct context *context = lane->context;
	const int there = lane->to_context_rank[rank];
	const int pid = bootstrap_peer(context->bootstrap, there)->pid;

	text[0] = '\0';
	if (lane->watch->rank[rank].answered != ANSWERED &&
	    bootstrap_shares(context->bootstrap, context->rank, there) & COLL_SHARES_PIDS &&
	    page_process_is_stopped(pid))
		snprintf(text, size, ": its process %d is stopped", pid);
}

/* Writes where another rank is in its calls: by its answer, or by its last message. */
static void stall_describe_status(const struct lane *lane, int rank, char *text, size_t size)
{
	const struct rank_status *status = &lane->watch->rank[rank];
	const struct report *report = watch_report(lane, rank);
	struct rank_name name;
	char what[512];

	comm_rank_name(lane, rank, &name);
	if (report) {
		stall_describe_report(lane, report, what, sizeof(what));
		snprintf(text, size, "%s %s%s", name.text, what,
			 status->answered == ANSWERED_BEFORE ? " (an earlier answer)" : "");
	} else if (lane->peer_state[rank] == PEER_LEFT) {
		snprintf(text, size, "%s has destroyed its communicator", name.text);
	} else if (status->seen_kind) {
		stall_describe_last_seen(status, what, sizeof(what));
		snprintf(text, size, "%s does not answer, and was last heard from in %s", name.text,
			 what);
	} else {
		/* Operations that are complete may have had its data from another rank. */
		snprintf(text, size, "%s does not answer, and %s%s%s", name.text,
			 lane->finished && !lane->native && !lane_other(lane)
				 ? "has sent nothing directly to this rank"
				 : "was never heard from",
			 lane_other(lane) ? " in a call" : "",
			 stall_lane_words(lane, lane->native != NULL));
	}
}

static void stall_describe_rank(const struct lane *lane, int rank, char *text, size_t size)
{
	size_t used;

	stall_describe_status(lane, rank, text, size);
	used = strlen(text);
	stall_describe_process(lane, rank, text + used, size - used);
}

/* Has the rank called as many collectives as this one?  They say nothing of a message. */
static int stall_is_level(const struct lane *lane, int rank)
{
	const struct record *last = report_newest_call(lane);
	const struct report *report = watch_report(lane, rank);

	return report && last && kind_at(last->kind)->is_collective &&
	       report->here.number == lane->seq;
}

/* Is a rank at the same collective as this one? */
static int stall_is_here(const struct lane *lane, int rank)
{
	const struct report *report = watch_report(lane, rank);
	const struct op *op = lane->queue.head;

	if (lane->native)
		return rank == lane->comm->rank || stall_is_level(lane, rank);
	return rank == lane->comm->rank ||
	       (report && op && report->here.kind == op->call.args.kind &&
		kind_at(report->here.kind)->is_collective && report->here.seq_or_tag == op->seq);
}

void stall_describe_ranks(const struct lane *lane, char *text, size_t size)
{
	const struct report own = report_make(lane, REPORT_ANSWERS);
	struct rank_name name;
	size_t at = 0;
	char one[640];

	text[0] = '\0';
	if (stall_is_used(&own)) {
		stall_describe_position(lane, 1, &own.other, one, sizeof(one));
		at += (size_t)snprintf(text, size, "; %s itself %s", comm_own_name(lane, &name),
				       one);
	}
	for (int answered = 0; answered < 2; answered++)
		for (int r = 0; r < lane->comm->nranks && at < size; r++)
			if ((lane->watch->rank[r].answered != ANSWERED_NOT) == answered &&
			    !stall_is_here(lane, r)) {
				stall_describe_rank(lane, r, one, sizeof(one));
				at += (size_t)snprintf(text + at, size - at, "; %s", one);
			}
	if (at >= size)
		memcpy(text + size - sizeof("..."), "...", sizeof("..."));
}
