/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star_stall.c - long before the time of a round is up, the root tells the log which ranks are missing.  In a tree it
 * asks first: a silent child may itself wait for ranks below it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/star.h"

enum { STALL_LEVEL_MS = 500 }; /* the wait for answers, for each level below */

void star_stall_begin(struct star *t)
{
	t->stall_at = star_is_root(t) ? bootstrap_stall_time() : INT64_MAX;
	t->stall_asked = 0;
}

void star_stall_end(struct star *t)
{
	free(t->stall_heard);
	t->stall_heard = NULL;
}

int64_t star_stall_wake(const struct star *t)
{
	const int64_t next = t->stall_heard ? t->stall_end : t->stall_at;

	return next < t->deadline ? next : t->deadline;
}

/* Is this a child that may have an answer? */
static int stall_is_silent(const struct rank_connection *conn)
{
	return conn->fd >= 0 && conn->seated && conn->heard == STAR_SILENT && !conn->says;
}

static int stall_ask(struct star *t)
{
	const struct star_frame who = {.type = STAR_WHO, .round = t->round, .code = STAR_STALLED};
	const int levels = star_tree_height(t->seat, t->bootstrap.nranks) - 1;

	t->stall_at = INT64_MAX;
	t->stall_asked = 0;
	t->stall_end = clock_deadline((int64_t)levels * STALL_LEVEL_MS);
	t->stall_heard = calloc((size_t)t->bootstrap.nranks, 1);
	if (!t->stall_heard)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", t->bootstrap.nranks);
	for (int i = 0; star_is_tree(t) && i < t->nconns; i++) {
		t->conns[i].says = 0;
		if (stall_is_silent(&t->conns[i]) && !star_send_down(t, &t->conns[i], who, NULL))
			log_debug("rank %d could not be asked which ranks are late",
				  t->conns[i].rank);
	}
	return 0;
}

void star_stall_take(struct star *t, struct rank_connection *conn)
{
	conn->says = 1;
	for (int r = 0; t->stall_heard && r < t->bootstrap.nranks; r++)
		if (conn->body[r] == STAR_WAITS || conn->body[r] == STAR_WHOLE_TREE)
			t->stall_heard[r] = conn->body[r];
}

/* The root's log line. */
static void stall_say(const struct star *t)
{
	const int n = t->bootstrap.nranks;
	char list[256], waited[24], left[24];
	int missing;

	star_excuse(t, t->stall_heard);
	missing = bootstrap_list_missing(list, sizeof(list), t->stall_heard, n);
	if (missing == 0)
		return;
	log_warn("rank %d waits for %s %s of %d, not heard from for %s s; the wait ends after %s "
		 "s%s%s",
		 t->bootstrap.rank, missing == 1 ? "rank" : "ranks", list, n,
		 bootstrap_seconds(t->timeout_ms - clock_remaining(t->deadline), waited),
		 bootstrap_seconds(t->timeout_ms, left), t->acceptor.note[0] ? "; " : "",
		 t->acceptor.note);
}

/* The answers are there, as far as any come. */
static int stall_answer(struct star *t)
{
	const struct star_frame head = {.type = STAR_HEARD,
					.len = (uint64_t)t->bootstrap.nranks,
					.timeout_ms = UINT32_MAX,
					.code = STAR_STALLED};
	int code = 0;

	for (int r = 0; r < t->bootstrap.nranks; r++)
		if (t->heard[r] > t->stall_heard[r])
			t->stall_heard[r] = t->heard[r];
	if (star_is_root(t))
		stall_say(t);
	else
		code = star_send_up(t, head, t->stall_heard,
				    clock_remaining(t->deadline) + star_grace(t));
	star_stall_end(t);
	return code;
}

int star_stall(struct star *t)
{
	int silent = 0, code = 0;

	if (!t->stall_heard && (t->stall_asked || clock_remaining(t->stall_at) == 0))
		code = stall_ask(t);
	if (code || !t->stall_heard)
		return code;
	for (int i = 0; i < t->nconns; i++)
		silent |= star_is_tree(t) && stall_is_silent(&t->conns[i]);
	return silent && clock_remaining(t->stall_end) > 0 ? 0 : stall_answer(t);
}
