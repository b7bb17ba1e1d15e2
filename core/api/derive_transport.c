/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * derive_transport.c - communicators made from others over a transport.
 *
 * Split: rank 0 of the parent draws the context id of the new communicators, and all ranks exchange their
 * votes by an allgather over the parent.  A rank that dies during it may have sent its vote to some ranks
 * and not to other ranks.  A rank whose split fails therefore says so to all ranks of the parent, and each new
 * communicator that contains this rank fails, instead of waiting for it.
 *
 * Shrink: the parent may have failed, so its operations are of no use.  Each survivor sends a control
 * message with the ranks that it excludes to the lowest survivor, the leader.  The leader alone decides,
 * so that all survivors get the same answer: the new communicator's context id once all have sent the
 * same list, or the rank of a survivor that has failed.
 */
#include "api/derive.h"
#include "api/group.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/comm_wait.h"
#include "comm/observed.h"
#include "comm/op.h"
#include "comm/life.h"
#include "comm/shrinks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int members_none(int n)
{
	return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
}

/* Makes the lane, which takes over the endpoint for the backend's own functions. */
static int derive_transport_lane(struct lane *parent, const struct derived *derived,
				 const int *to_context_rank, struct lane **made)
{
	const struct members *m = derived->members;
	struct native_split **native = derived->native_split;
	const int code = lane_new(made, comm_blank(m->place, m->n), parent->index, parent->context,
				  derived->context_id, to_context_rank, native ? *native : NULL);

	if (*made && native)
		*native = NULL;
	return code;
}

int derive_transport_new(struct lane *parent, const struct derived *derived, struct lane **out)
{
	const struct members *m = derived->members;
	struct context *context = parent->context;
	struct lane *made = NULL;
	int *to_context_rank, code;

	if (derived->context_id == UINT32_MAX)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "a rank has made %" PRIu32 " communicators on the connections of "
				 "these %d ranks, and cannot make more: make a communicator with a "
				 "new id",
				 comm_most_context_ids(context), context->nranks);
	to_context_rank = malloc((size_t)m->n * sizeof(*to_context_rank));
	if (!to_context_rank)
		return members_none(m->n);
	for (int r = 0; r < m->n; r++)
		to_context_rank[r] = parent->to_context_rank[m->rank[r]];
	code = derive_transport_lane(parent, derived, to_context_rank, &made);
	free(to_context_rank);
	if (!code)
		made->comm->parent = observed_number(parent->comm);
	if (!code &&
	    parent->index == LANE_FIRST) /* else init_comm makes the handle of both lanes */
		code = comm_publish(made->comm);
	if (!code) {
		context_ref(context);
		made->birth = derived->birth;
		made->comm->timeout_us =
			derived->timeout_us ? derived->timeout_us : parent->comm->timeout_us;
		*out = made;
		/* A rank may have told already that it could not make its own, and the end of the parent drops that. */
		lane_check(made);
	} else if (made) {
		lane_free_unmade(made);
	}
	return code;
}

/* ------------------------------------------------------------------------ split -- */

/* Does rank a of the parent come before rank b in the new communicator? */
static int split_before(const struct split_vote *all, int a, int b)
{
	return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

/* For qsort_r: two ranks by their votes. */
static int split_compare(const void *a, const void *b, void *all)
{
	const int first = *(const int *)a, second = *(const int *)b;

	return split_before(all, second, first) - split_before(all, first, second);
}

int members_of_color(struct members *m, const struct lane *parent, const struct split_vote *all)
{
	const int self = parent->comm->rank;
	int sorted = 1;

	*m = (struct members){.rank = malloc((size_t)parent->comm->nranks * sizeof(*m->rank))};
	if (!m->rank)
		return members_none(parent->comm->nranks);
	for (int r = 0; r < parent->comm->nranks; r++) {
		if (all[r].color != all[self].color)
			continue;
		sorted &= !m->n || split_before(all, m->rank[m->n - 1], r);
		m->rank[m->n++] = r;
	}
	if (!sorted)
		qsort_r(m->rank, (size_t)m->n, sizeof(*m->rank), split_compare,
			(void *)(uintptr_t)all);
	while (m->rank[m->place] != self)
		m->place++;
	return COLL_SUCCESS;
}

/* Issues an allgather of the votes over the parent, in the order of its operations. */
static int split_issue_vote(struct lane *lane, struct split *split)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLGATHER,
				  .dtype = COLL_UINT8,
				  .sendbuf = &split->own,
				  .recvbuf = split->all,
				  .count = sizeof(split->own),
				  .flags = CALL_OF_SPLIT};

	return op_issue(lane, &args, group_current());
}

int split_vote(struct lane *lane, struct split *split)
{
	int code;

	if (lane->comm->rank == 0)
		split->own.context_id = comm_draw_context_id(lane->context);
	code = group_join(lane);
	if (!code)
		code = split_issue_vote(lane, split);
	split->task.number = lane->issued;
	split->seq = lane->seq - 1;
	return code;
}

int split_vote_again(struct lane *lane, struct split *split)
{
	const int code = split_issue_vote(lane, split);
	struct rank_name name;

	if (!code)
		return lane_wait(lane, lane->issued, 0);
	/* The other ranks wait for this vote. */
	comm_fail(lane, 0, code, "%s: %s", comm_own_name(lane, &name), error_text());
	return comm_error(lane);
}

static int derive_transport_take(struct lane *lane, const struct split *split,
				 struct native_split **native_split)
{
	struct derived derived = {.context_id = split->all[0].context_id,
				  .timeout_us = split->timeout_us,
				  .birth = tag_birth(lane->context_id, split->seq),
				  .native_split = native_split};
	struct lane *made = NULL;
	struct members m;
	int code;

	if (split->own.color < 0)
		return COLL_SUCCESS;
	code = members_of_color(&m, lane, split->all);
	derived.members = &m;
	if (!code)
		code = derive_transport_new(lane, &derived, &made);
	if (made)
		*split->out = made->comm->handle;
	free(m.rank);
	return code;
}

/* On an error the operation that writes to the votes has been cancelled. */
int derive_transport_join(struct lane *lane, struct split *split, int code,
			  struct native_split **native_split)
{
	if (!code)
		code = derive_transport_take(lane, split, native_split);
	if (code)
		comm_send_unmade(lane, split->seq, code, error_text());
	return code;
}

static int derive_transport_make(struct lane *lane, struct split *split, int code)
{
	return derive_transport_join(lane, split, code, NULL);
}

/* ------------------------------------------------------------------------ shrink -- */

int members_but(struct members *m, const struct lane *parent, const uint8_t *excluded)
{
	*m = (struct members){.rank = malloc((size_t)parent->comm->nranks * sizeof(*m->rank))};
	if (!m->rank)
		return members_none(parent->comm->nranks);
	for (int r = 0; r < parent->comm->nranks; r++) {
		if (r == parent->comm->rank)
			m->place = m->n;
		if (!excluded[r])
			m->rank[m->n++] = r;
	}
	return COLL_SUCCESS;
}

/* A wait looks at the timeout, which may have changed, after so long at most. */
enum { SHRINK_SLICE_US = 1000000 };

struct shrink {
	struct lane *lane;
	const uint8_t *excluded; /* per rank */
	uint64_t hash;           /* the hash of the list of excluded ranks, never 0 */
	int leader;
	int aborted; /* comm->aborted when the call began */
};

/* Hashes the list of excluded ranks and finds the leader. */
static void shrink_init(struct shrink *s)
{
	s->hash = SIGNATURE_HASH_BEGIN;
	for (int r = 0; r < s->lane->comm->nranks; r++)
		s->hash = signature_hash(s->hash, (uint64_t)s->excluded[r] + 1);
	s->hash |= 1;
	while (s->excluded[s->leader])
		s->leader++;
}

/*
 * A survivor that has failed or left, or -1.  A rank that has left may have given up because of one that has failed, of
 * which it has told this rank before.
 */
static int shrink_missing(const struct shrink *s)
{
	int left = -1, reported = -1;

	for (int r = 0; r < s->lane->comm->nranks; r++) {
		const int state = s->excluded[r] ? PEER_ALIVE : s->lane->peer_state[r];

		if (state == PEER_FAILED)
			return r;
		if (state == PEER_LEFT && left < 0)
			left = r;
		if (state == PEER_REPORTED && reported < 0)
			reported = r;
	}
	return left < 0 || reported < 0 ? left : reported;
}

static int shrink_agreed(const struct shrink *s)
{
	const struct lane *lane = s->lane;

	for (int r = 0; r < lane->comm->nranks; r++)
		if (!s->excluded[r] && r != lane->comm->rank && lane->shrinks->asked[r] != s->hash)
			return 0;
	return 1;
}

/* Has another thread aborted or destroyed the communicator meanwhile? */
static int shrink_aborted(const struct shrink *s)
{
	return atomic_load(&s->lane->comm->aborted) != s->aborted;
}

static int shrink_over(void *arg)
{
	const struct shrink *s = arg;
	const struct lane *lane = s->lane;

	if (!lane->context->ep || shrink_aborted(s))
		return 1;
	if (lane->comm->rank == s->leader)
		return shrink_agreed(s) || shrink_missing(s) >= 0;
	return lane->shrinks->answer.hash || shrink_missing(s) >= 0;
}

/* Waits in slices: another thread may set a new timeout. */
static int shrink_wait(struct shrink *s)
{
	struct lane *lane = s->lane;
	const int64_t begun = clock_now_us();
	struct wait_told told;
	int64_t left;
	int code;

	wait_tell_begin(&told, lane, 0, 0);
	do {
		left = begun + lane->comm->timeout_us - clock_now_us();
		code = context_wait(lane->context, shrink_over, s,
				    left < SHRINK_SLICE_US ? left : SHRINK_SLICE_US);
	} while (code && clock_now_us() < begun + lane->comm->timeout_us);
	wait_tell_end(&told);
	return code;
}

/* "rank 3, 5 (excludes others)": the survivors that have not sent the leader the same list. */
static void shrink_list_missing(const struct shrink *s, char *text, size_t size)
{
	struct rank_name name;
	size_t at = 0;

	for (int r = 0; r < s->lane->comm->nranks && at < size; r++)
		if (!s->excluded[r] && r != s->lane->comm->rank &&
		    s->lane->shrinks->asked[r] != s->hash)
			at += (size_t)snprintf(
				text + at, size - at, "%s%s%s", at ? ", " : "",
				comm_rank_name(s->lane, r, &name) + (at ? strlen("rank ") : 0),
				s->lane->shrinks->asked[r] ? " (excludes others)" : "");
}

static int shrink_timed_out(const struct shrink *s)
{
	struct rank_name name;
	char missing[256] = "";

	if (s->lane->comm->rank != s->leader)
		return error_set(COLL_ERR_TIMEOUT,
				 "coll_comm_shrink timed out: %s, the lowest that stays, does not "
				 "answer: all ranks "
				 "that stay must call it with the same list",
				 comm_rank_name(s->lane, s->leader, &name));
	shrink_list_missing(s, missing, sizeof(missing));
	return error_set(
		COLL_ERR_TIMEOUT,
		"coll_comm_shrink timed out: not heard from %s: all ranks that stay must call "
		"it with the same list",
		missing);
}

/* A survivor that takes no part may live: its own call, with another list, has ended before this one. */
static const char *shrink_reason(const struct shrink *s, int rank)
{
	switch (s->lane->peer_state[rank]) {
	case PEER_FAILED: return "is gone too: exclude it as well";
	case PEER_LEFT:
		return "has destroyed its communicator, and has not called it with the same list: "
		       "all ranks that stay must; exclude those that do not";
	default:
		return rank == s->leader
			       ? "has given it up: exclude it as well, or call it again on all "
				 "ranks"
			       : "has failed or left, as the lowest rank that stays reports: "
				 "exclude it as well";
	}
}

static int shrink_lost(const struct shrink *s, int rank)
{
	struct rank_name name;

	return error_set(COLL_ERR_PEER_LOST, "coll_comm_shrink: %s %s",
			 comm_rank_name(s->lane, rank, &name), shrink_reason(s, rank));
}

/* The error of a wait that ended without an answer. */
static int shrink_broken(const struct shrink *s)
{
	const struct lane *lane = s->lane;
	struct rank_name name;

	if (!lane->context->ep)
		return error_set(COLL_ERR_ABORTED, "the endpoint of backend '%s' had to be closed",
				 lane->context->plugin->backend.name);
	if (shrink_aborted(s))
		return error_set(COLL_ERR_ABORTED, "coll_comm_shrink: %s aborted the communicator",
				 comm_own_name(lane, &name));
	return shrink_timed_out(s);
}

/* The leader's answer to all survivors: a context id, or the rank that failed. */
static void shrink_answer(const struct shrink *s, uint32_t context_id, int lost)
{
	struct lane *lane = s->lane;
	char text[40];

	snprintf(text, sizeof(text), "%" PRIx64 " %d", s->hash, lost);
	for (int r = 0; r < lane->comm->nranks; r++) {
		if (s->excluded[r] || r == lane->comm->rank)
			continue;
		if (lane->shrinks->asked[r] ==
		    s->hash) /* else the rank is in its next shrink already */
			lane->shrinks->asked[r] = 0;
		context_send_control(lane->context, lane->to_context_rank[r],
				     tag_control(lane->context_id), CONTROL_SHRUNK, (int)context_id,
				     text);
	}
}

static int shrink_lead(struct shrink *s, uint32_t *context_id)
{
	struct lane *lane = s->lane;
	int timed_out = shrink_wait(s);
	int broken = timed_out || !lane->context->ep || shrink_aborted(s);
	int lost = broken ? lane->comm->rank : shrink_agreed(s) ? -1 : shrink_missing(s);

	if (!broken && lost < 0)
		*context_id = comm_draw_context_id(lane->context);
	if (!timed_out) /* after a timeout the other survivors time out too */
		shrink_answer(s, *context_id, lost);
	if (broken)
		return shrink_broken(s);
	return lost < 0 ? COLL_SUCCESS : shrink_lost(s, lost);
}

/*
 * To the leader: the hash of the list, or 0 if this rank takes part no more.  The messages keep their order, so a 0 also
 * withdraws a question that the leader gets after its answer, and that must not count in its next call.
 */
static void shrink_tell(const struct shrink *s, uint64_t hash)
{
	const struct lane *lane = s->lane;
	char text[24];

	snprintf(text, sizeof(text), "%" PRIx64, hash);
	context_send_control(lane->context, lane->to_context_rank[s->leader],
			     tag_control(lane->context_id), CONTROL_SHRINK, 0, text);
}

/* Asks the leader.  Returns 1 and its *answer, or 0: the answer has not come in time, or is not awaited any more. */
static int shrink_ask(struct shrink *s, struct shrunk *answer)
{
	struct lane *lane = s->lane;

	lane->shrinks->awaited = s->hash;
	shrink_tell(s, s->hash);
	(void)shrink_wait(s);
	lane->shrinks->awaited = 0;
	*answer = lane->shrinks->answer;
	lane->shrinks->answer.hash = 0;
	if (!answer->hash || answer->failed_rank >= 0)
		shrink_tell(s, 0);
	return answer->hash != 0;
}

static int shrink_follow(struct shrink *s, uint32_t *context_id)
{
	struct lane *lane = s->lane;
	struct shrunk answer;
	int lost;

	if (shrinks_before(lane, s->hash, &answer) || shrink_ask(s, &answer)) {
		*context_id = answer.context_id;
		return answer.failed_rank < 0 ? COLL_SUCCESS : shrink_lost(s, answer.failed_rank);
	}
	/*
	 * The leader may have heard of a lost rank in its last communicator, and may never make this call.  A
	 * late answer is refused, so that no rank waits for this one.
	 */
	lane->shrinks->lost = lost = shrink_missing(s);
	return lost < 0 || shrink_aborted(s) ? shrink_broken(s) : shrink_lost(s, lost);
}

static int shrink_is_free(void *arg)
{
	const struct shrink *s = arg;

	return !s->lane->shrinks->waits || shrink_aborted(s);
}

/* The place for the answer is of one call: the calls of several threads follow one another. */
static int shrink_take_turn(struct shrink *s)
{
	struct lane *lane = s->lane;
	struct wait_told told = {0};
	int code;

	if (!shrink_is_free(s))
		wait_tell_begin(&told, lane, 0, 0);
	code = context_wait(lane->context, shrink_is_free, s, lane->comm->timeout_us);
	wait_tell_end(&told);
	if (code)
		return error_set(COLL_ERR_TIMEOUT,
				 "coll_comm_shrink timed out: another thread of this rank shrinks "
				 "the same communicator, and has not ended");
	return lane->shrinks->waits ? shrink_broken(s) : COLL_SUCCESS;
}

static int shrink_agree(struct shrink *s, uint32_t *context_id)
{
	struct lane *lane = s->lane;
	int code;

	s->aborted = atomic_load(&lane->comm->aborted);
	code = shrink_take_turn(s);
	if (code)
		return code;
	lane->shrinks->waits = 1;
	code = lane->comm->rank == s->leader ? shrink_lead(s, context_id)
					     : shrink_follow(s, context_id);
	lane->shrinks->waits = 0;
	return code;
}

static int shrink_make(const struct shrink *s, uint32_t context_id, int64_t timeout_us,
		       struct lane **newcomm)
{
	struct lane *lane = s->lane;
	struct members m;
	const struct derived derived = {
		.members = &m, .context_id = context_id, .timeout_us = timeout_us};
	int code = members_but(&m, lane, s->excluded);

	if (!code)
		code = derive_transport_new(lane, &derived, newcomm);
	free(m.rank);
	if (code)
		comm_refuse(lane, context_id, code, error_text());
	return code;
}

int derive_transport_shrunk(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
			    struct lane **out)
{
	struct shrink s = {.lane = lane, .excluded = excluded};
	uint32_t context_id = 0;
	int code;

	*out = NULL;
	shrink_init(&s);
	code = shrink_agree(&s, &context_id);
	return code ? code : shrink_make(&s, context_id, timeout_us, out);
}

static int derive_transport_shrink(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
				   coll_comm_t *out)
{
	struct lane *made;
	const int code = derive_transport_shrunk(lane, excluded, timeout_us, &made);

	if (!code)
		*out = made->comm->handle;
	return code;
}

const struct derive derive_transport = {
	.make = derive_transport_make,
	.shrink = derive_transport_shrink,
};
