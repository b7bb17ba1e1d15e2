/* SPDX-License-Identifier: BSD-3-Clause */
/* stall.c - operations that do not move: when the other ranks are asked, and when the wait is over. */
#include "watch/stall.h"
#include "watch/message_words.h"
#include "comm/counts.h"
#include "comm/lane.h"
#include "watch/report.h"
#include "watch/stall_words.h"
#include "base/clock.h"
#include "comm/lane_log.h"
#include "transport/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stall_check_left(struct lane *lane)
{
	uint8_t *from = calloc((size_t)lane->comm->nranks, 1);
	char what[160] = "";
	struct rank_name name, own;
	struct stall_unexpected unexpected;

	if (from && stall_mark_awaited(lane, from))
		for (int r = 0; r < lane->comm->nranks; r++)
			if (from[r] && lane->peer_state[r] == PEER_LEFT) {
				if (report_compare_left(lane, r))
					break;
				call_describe(lane, &lane->queue.head->call, what, sizeof(what));
				comm_fail(lane, 0, COLL_ERR_PEER_LOST,
					  "%s destroyed its communicator while %s still waits "
					  "for it in %s%s",
					  comm_rank_name(lane, r, &name), comm_own_name(lane, &own),
					  what, stall_unexpected(lane, &unexpected));
				break;
			}
	free(from);
}

void stall_check_left_native(struct lane *lane)
{
	char what[160];
	struct rank_name name, own;

	report_check_left(lane, 0);
	if (!lane->log->hash || !lane->seq || !stall_is_busy(lane) || lane->leaving ||
	    lane->pending.code)
		return;
	for (int r = 0; r < lane->comm->nranks; r++)
		if (lane->peer_state[r] == PEER_LEFT && report_lacks(lane, r, lane->seq - 1)) {
			lane->engine[ENGINE_NATIVE]->describe(lane, what, sizeof(what));
			comm_fail(
				lane, 0, COLL_ERR_PEER_LOST,
				"%s destroyed its communicator while %s still waits for it: %s has "
				"called %u collectives, %s only %u; %s",
				comm_rank_name(lane, r, &name), comm_own_name(lane, &own), own.text,
				lane->seq, name.text, lane->watch->compared->number[r], what);
			return;
		}
}

/* ------------------------------------------------------------- asking the other ranks -- */

/* The answers to a question are awaited for so long at most; by a call that gives up, for so long. */
enum { STALL_ANSWER_US = 100000, STALL_LAST_ANSWER_US = 1000000 };

/* A wait looks at the clock, and at the timeout, which another thread may have changed, at least so often. */
enum { STALL_SLICE_US = 1000000 };

/*
 * Calls that poll look at the time at most once in so long: a count of calls would tell nothing of the time between
 * them.  A program that has not polled for so long has not waited.
 */
enum { STALL_LOOK_US = 1000, STALL_NO_POLL_US = 10000000 };

/* A program that polls says when it begins, but not when it goes on without. */
int stall_waits(const struct lane *lane)
{
	const struct stall *polled = &lane->watch->polled;
	const int polls = polled->steps == lane->steps && polled->finished == lane->finished &&
			  clock_tick_us() - polled->polled_us < STALL_NO_POLL_US;

	return lane->watch->stalled > (polled->counted && !polls);
}

static void stall_warn(const struct lane *lane, int64_t idle_us)
{
	struct rank_name name;
	struct stall_unexpected unexpected;
	char what[160], ranks[1024];

	stall_describe_own(lane, what, sizeof(what));
	stall_describe_ranks(lane, ranks, sizeof(ranks));
	lane_log(lane, COLL_LOG_WARN, "%s waits in %s, and nothing has moved for %.3g s%s%s",
		 comm_own_name(lane, &name), what, (double)idle_us / 1e6, ranks,
		 stall_unexpected(lane, &unexpected));
}

/* ---------------------------------------------------------------------- timing out -- */

static void stall_describe_behind(const struct lane *lane, char *text, size_t size)
{
	char list[128];
	int n;

	stall_list_behind(lane, list, sizeof(list));
	n = snprintf(text, size, "; behind: %s", list);
	stall_describe_ranks(lane, text + n, size - (size_t)n);
}

static int stall_all_answered(const struct lane *lane)
{
	for (int r = 0; r < lane->comm->nranks; r++)
		if (lane->watch->rank[r].answered != ANSWERED && lane->peer_state[r] == PEER_ALIVE)
			return 0;
	return 1;
}

/*
 * Asks the other ranks, and awaits their answers for so long.  Returns 1 if all ranks have answered.  drive: nobody
 * else drives the transport.
 */
static int stall_await_answers(struct lane *lane, int64_t us, int drive)
{
	const int64_t deadline = clock_now_us() + us;

	report_ask(lane);
	do {
		if (drive)
			context_progress(lane->context);
		clock_nap(1000);
		context_check(lane->context);
	} while (!lane->error && !stall_all_answered(lane) && clock_now_us() < deadline);
	return stall_all_answered(lane);
}

void stall_name_behind(struct lane *lane, char *text, size_t size)
{
	text[0] = '\0';
	if (!lane->native || !report_can_ask(lane) || lane->error)
		return;
	(void)stall_await_answers(lane, STALL_ANSWER_US, 0);
	stall_describe_behind(lane, text, size);
}

void stall_name_silent(struct lane *lane, char *text, size_t size)
{
	char silent[256];

	text[0] = '\0';
	if (!report_can_ask(lane) || lane->error ||
	    stall_await_answers(lane, STALL_LAST_ANSWER_US, 1) || lane->error)
		return;
	stall_list_silent(lane, silent, sizeof(silent));
	snprintf(text, size, "; not heard from: %s", silent);
}

/*
 * A rank that does not answer is stopped, or busy elsewhere before its call.  The positions of the ranks that answer tell
 * which rank the waiting ranks lack.
 */
void stall_describe_missing(struct lane *lane, int asked, char *text, size_t size)
{
	char silent[256], awaited[256], ranks[288] = "";
	struct stall_unexpected unexpected;

	if (engines_busy(lane)) {
		text[0] = '\0';
		if (asked)
			stall_describe_behind(lane, text, size);
		return;
	}
	stall_describe_awaited(lane, awaited, sizeof(awaited));
	lane->watch->rank[lane->comm->rank].answered = ANSWERED;
	stall_list_silent(lane, silent, sizeof(silent));
	if (asked)
		stall_describe_ranks(lane, ranks, sizeof(ranks));
	snprintf(text, size, "%s%s; still needs data from: %s%s%s%s",
		 asked ? "; not heard from: " : "", asked ? silent : "", awaited,
		 lane->queue.head && lane->queue.head->stream_events
			 ? "; its stream has not come to the call"
		 : lane->traffic->copies.pending
			 ? "; copies to or from a device are still under way"
			 : "",
		 stall_unexpected(lane, &unexpected), ranks);
}

static void stall_time_out(struct lane *lane, int64_t timeout_us)
{
	char what[160], missing[640] = "; without a companion (option `companion`) nobody knows "
				       "which ranks are missing: read the messages of the others";
	struct rank_name name;

	if (!engines_busy(lane) || report_can_ask(lane))
		stall_describe_missing(lane, 1, missing, sizeof(missing));
	stall_describe_own(lane, what, sizeof(what));
	comm_fail(lane, 0, COLL_ERR_TIMEOUT, "%s: %s timed out: nothing has moved for %.3g s%s",
		  comm_own_name(lane, &name), what, (double)timeout_us / 1e6, missing);
}

/* ------------------------------------------------------------------------- a wait -- */

/* The last question comes so long before the timeout. */
static int64_t stall_answer_us(const struct lane *lane)
{
	int64_t quarter = lane->comm->timeout_us / 4;

	return quarter < STALL_ANSWER_US ? quarter : STALL_ANSWER_US;
}

static int64_t stall_last_us(const struct lane *lane)
{
	return lane->comm->timeout_us - stall_answer_us(lane);
}

static int64_t stall_first_us(const struct lane *lane)
{
	return lane->context->stall_us ? lane->context->stall_us : INT64_MAX;
}

/* Nothing has moved since `since_us`. */
static void stall_restart(struct stall *stall, struct lane *lane, int64_t since_us)
{
	const struct context *context = lane->context;

	stall_end(stall, lane);
	stall->since_us = since_us;
	stall->next_us = stall_first_us(lane);
	stall->asked_us = 0;
	stall->steps = lane->steps;
	stall->finished = lane->finished;
	stall->moves = context_moves(context);
	stall->other_moves = lane_moves(lane);
}

/* The idle time at which this rank asks next; the last question comes before the timeout. */
static int64_t stall_next_us(const struct stall *stall, const struct lane *lane)
{
	int64_t last = stall_last_us(lane);

	return stall->next_us < last ? stall->next_us : last;
}

int64_t stall_slice(struct stall *stall, const struct lane *lane)
{
	const int64_t most = lane->slot ? STALL_NOTED_US : STALL_SLICE_US;
	int64_t until;

	if (stall->asked_us)
		return stall_answer_us(lane);
	if (!stall->since_us)
		stall->next_us = stall_first_us(lane);
	until = stall_next_us(stall, lane);
	if (stall->since_us)
		until -= clock_now_us() - stall->since_us;
	return until < 0 ? 0 : until < most ? until : most;
}

/*
 * Counts the ranks that are behind: that have called fewer collectives by their answer, or that do not answer while their data
 * are missing.
 */
static void stall_count_behind(struct lane *lane)
{
	uint8_t *awaited = calloc((size_t)lane->comm->nranks, 1);
	struct page_peer *peer;

	if (awaited)
		(void)stall_mark_awaited(lane, awaited);
	for (int r = 0; awaited && r < lane->comm->nranks; r++) {
		const int silent = lane->watch->rank[r].answered == ANSWERED_NOT;

		peer = counts_peer(lane, r);
		if (peer && (silent && !lane->native ? awaited[r] : stall_is_behind(lane, r)))
			peer->behind++;
	}
	free(awaited);
}

/* The answers have come, or are missing. */
static int stall_conclude(struct stall *stall, struct lane *lane, int64_t idle)
{
	/* A stall counts once, however long it lasts. */
	if (lane->counts && stall->next_us == stall_first_us(lane) && report_can_ask(lane))
		stall_count_behind(lane);
	if (idle >= lane->comm->timeout_us) {
		stall_time_out(lane, idle);
		return 1;
	}
	if (report_can_ask(lane) && !lane->error && !lane->pending.code)
		stall_warn(lane, idle);
	while (stall->next_us <= idle)
		stall->next_us *= 2;
	stall->asked_us = 0;
	stall->moves = context_moves(lane->context);
	return 0;
}

static int stall_has_moved(const struct stall *stall, const struct lane *lane)
{
	return stall->steps != lane->steps || stall->finished != lane->finished ||
	       stall->other_moves != lane_moves(lane) ||
	       (!stall->asked_us && stall->moves != context_moves(lane->context) &&
		stall_flows(lane));
}

int stall_step(struct stall *stall, struct lane *lane, int64_t idle_us)
{
	int64_t now = clock_now_us();

	if (!lane->queue.head && !lane->waited && !engines_busy(lane)) {
		stall_end(stall, lane);
		stall->since_us = 0;
	}
	if (lane->error || (!lane->queue.head && !lane->waited && !engines_busy(lane)))
		return lane->error != 0;
	if (!stall->since_us || stall_has_moved(stall, lane))
		stall_restart(stall, lane, now - idle_us);
	if (stall->asked_us && now - stall->asked_us >= stall_answer_us(lane))
		return stall_conclude(stall, lane, now - stall->since_us);
	if (stall->asked_us || now - stall->since_us < stall_next_us(stall, lane))
		return 0;
	stall->asked_us = now;
	if (!stall->counted) {
		stall->counted = 1;
		lane->watch->stalled++;
		if (lane->counts)
			lane->counts->stalls++;
	}
	report_ask(lane);
	return 0;
}

void stall_poll(struct lane *lane)
{
	struct stall *stall = &lane->watch->polled;
	const int64_t now = clock_tick_us(), since = now - stall->polled_us;

	if (since < STALL_LOOK_US)
		return;
	if (since > STALL_NO_POLL_US)
		stall_restart(stall, lane, now);
	stall->polled_us = now;
	(void)stall_step(stall, lane, 0);
}
