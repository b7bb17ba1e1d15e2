/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_round.c - a round, which is the same on every rank: the rank gathers the pieces of its children, sends them up or makes
 * the table, and passes the answer down.  A leaf gathers from no children; the root has no parent to send to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"
#include "meet/tree.h"

/* The wait for the answers of a stalled round, for each level below. */
enum { STALL_LEVEL_MS = 500 };

/* Waits until `wake` at most, then handles all events of the parent, the children and the newcomers. */
static int round_step(struct tree *t, int64_t wake)
{
	int code, place, cursor = 0;

	if (t->parent.fd >= 0)
		poll_set_watch(&t->polls, &t->parent.place, t->parent.fd, POLLIN);
	code = tree_wait(t, wake);
	/* The parent first: its reason is better than the end of a child which had it too. */
	if (code == 0 && t->parent.fd >= 0 && poll_set_events(&t->polls, t->parent.place))
		code = tree_parent_take(t);
	while (code == 0 && (place = poll_set_next(&t->polls, &cursor)) >= 0)
		if (t->conn_at[place] > 0)
			code = tree_child_take(t, &t->conns[t->conn_at[place] - 1]);
	return code ? code : acceptor_advance(&t->acceptor, &t->polls);
}

/* The number of levels below the children. */
static int round_levels(const struct tree *t)
{
	return tree_shape_height(t->index, t->bootstrap.nranks) - 1;
}

/* ------------------------------------------------------------------ who is missing -- */

/*
 * Is this silent rank not to blame?  It waits for the index of its parent; or its parent is silent, so that nobody
 * hears from it; or its parent's piece has come, so that it is there.
 */
static int missing_is_excused(const struct tree *t, const uint8_t *status, int index)
{
	const struct tree_child *child = tree_at_index(t, index);
	const int parent = tree_shape_parent(index, t->bootstrap.nranks);

	if (!child->placed && child->here[0] != '\0')
		return 1;
	return parent != 0 && status[tree_at_index(t, parent)->link.rank] != TREE_WAITS;
}

/* The root marks in status[] the ranks that cannot be blamed for their silence. */
static void missing_excuse(const struct tree *t, uint8_t *status)
{
	/* From the leaves to the root, so that an index's judgement sees its parent's own. */
	for (int index = t->nconns; index > 0; index--) {
		const int rank = tree_at_index(t, index)->link.rank;

		if (status[rank] == TREE_SILENT && missing_is_excused(t, status, index))
			status[rank] = TREE_WAITS;
	}
}

/* The root's error when the time is up: names the ranks that are missing. */
static int missing_error(struct tree *t)
{
	char note[ACCEPTOR_NOTE_SIZE];

	missing_excuse(t, t->status);
	snprintf(note, sizeof(note), "%s", t->acceptor.note);
	if (!note[0] && t->left_out[0])
		snprintf(note, sizeof(note),
			 "the unique id has no room for %s (see option interface)", t->left_out);
	return bootstrap_timeout_error(t->status, t->bootstrap.nranks, t->timeout_ms, note);
}

/* Sends the children a WHO with that code: to all that have their place, or to the silent ones. */
static void ask_children(struct tree *t, int code, int silent_only)
{
	const struct tree_frame who = {.type = TREE_WHO, .round = t->round, .code = code};

	for (int i = 0; i < t->nconns; i++) {
		struct tree_child *child = &t->conns[i];

		if (child->link.fd >= 0 && child->placed &&
		    (child->status == TREE_SILENT || !silent_only) &&
		    !tree_link_send(t, &child->link, who, NULL))
			log_debug("rank %d could not be asked which ranks are missing",
				  child->link.rank);
	}
}

/*
 * In a deep tree, when the time is up: tells the children once that this rank waits too, and asks the silent ones which
 * ranks are missing.  Returns 1 while an answer may come.
 */
static int missing_ask(struct tree *t)
{
	const int first = t->overdue == TREE_IN_TIME;
	int waits = 0;

	t->overdue = TREE_CHILDREN_ASKED;
	if (!tree_is_deep(t))
		return 0;
	if (first) {
		t->ask_end = clock_deadline((int64_t)round_levels(t) * TREE_ASK_MS);
		ask_children(t, 0, 0);
	}
	for (int i = 0; i < t->nconns; i++)
		waits |= tree_child_is_silent(&t->conns[i]);
	return waits && clock_remaining(t->ask_end) > 0;
}

/*
 * The time is up, and the children have had time to answer.  The root's round ends; any other rank tells its parent,
 * once, which ranks of its subtree it has heard from, and waits on for the root's error.
 */
static int missing_tell(struct tree *t)
{
	const struct tree_frame head = {.type = TREE_STATUS,
					.len = (uint64_t)t->bootstrap.nranks,
					.timeout_ms = tree_timeout(t->timeout_ms)};

	if (tree_is_root(t))
		return missing_error(t);
	if (t->overdue != TREE_PARENT_TOLD) {
		t->overdue = TREE_PARENT_TOLD;
		return tree_parent_send(t, head, t->status, TREE_GRACE_MS);
	}
	return clock_remaining(t->deadline + tree_grace(t)) > 0 ? 0 : tree_no_answer(t);
}

/* ---------------------------------------------------------------- a stalled round -- */

/*
 * Long before the time of a round is up, the root tells the log which ranks are missing.  In a deep tree it asks
 * first, because a silent child may itself wait for ranks below it: ranks with children pass the question down and
 * the answers up.
 */

static int stall_ask(struct tree *t)
{
	t->stall_at = INT64_MAX;
	t->stall_asked = 0;
	t->stall_end = clock_deadline((int64_t)round_levels(t) * STALL_LEVEL_MS);
	t->stall_status = calloc((size_t)t->bootstrap.nranks, 1);
	if (!t->stall_status)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", t->bootstrap.nranks);
	for (int i = 0; i < t->nconns; i++)
		t->conns[i].stall_answered = !tree_is_deep(t);
	if (tree_is_deep(t))
		ask_children(t, TREE_STALLED, 1);
	return 0;
}

/* The root's log line. */
static void stall_say(const struct tree *t)
{
	const int n = t->bootstrap.nranks;
	char list[256], waited[24], left[24];
	int missing;

	missing_excuse(t, t->stall_status);
	missing = bootstrap_list_missing(list, sizeof(list), t->stall_status, n);
	if (missing == 0)
		return;
	log_warn("rank %d waits for %s %s of %d, not heard from for %s s; the wait ends after %s "
		 "s%s%s",
		 t->bootstrap.rank, missing == 1 ? "rank" : "ranks", list, n,
		 bootstrap_seconds(t->timeout_ms - clock_remaining(t->deadline), waited),
		 bootstrap_seconds(t->timeout_ms, left), t->acceptor.note[0] ? "; " : "",
		 t->acceptor.note);
}

static void stall_end(struct tree *t)
{
	free(t->stall_status);
	t->stall_status = NULL;
}

/* The answers are there, as far as any come. */
static int stall_answer(struct tree *t)
{
	const struct tree_frame head = {.type = TREE_STATUS,
					.len = (uint64_t)t->bootstrap.nranks,
					.timeout_ms = UINT32_MAX,
					.code = TREE_STALLED};
	int code = 0;

	for (int r = 0; r < t->bootstrap.nranks; r++)
		if (t->status[r] > t->stall_status[r])
			t->stall_status[r] = t->status[r];
	if (tree_is_root(t))
		stall_say(t);
	else
		code = tree_parent_send(t, head, t->stall_status,
					clock_remaining(t->deadline) + tree_grace(t));
	stall_end(t);
	return code;
}

static int stall_advance(struct tree *t)
{
	int silent = 0, code = 0;

	if (!t->stall_status && (t->stall_asked || clock_remaining(t->stall_at) == 0))
		code = stall_ask(t);
	if (code || !t->stall_status)
		return code;
	for (int i = 0; i < t->nconns; i++)
		silent |= tree_child_is_silent(&t->conns[i]) && !t->conns[i].stall_answered;
	return silent && clock_remaining(t->stall_end) > 0 ? 0 : stall_answer(t);
}

/* ---------------------------------------------------------------------- gathering -- */

/* When the loop of round_gather must look again. */
static int64_t gather_wake(const struct tree *t)
{
	const int64_t stall = t->stall_status ? t->stall_end : t->stall_at;

	if (t->overdue == TREE_PARENT_TOLD)
		return clock_deadline(BOOTSTRAP_LOOK_MS);
	if (t->overdue == TREE_CHILDREN_ASKED)
		return t->ask_end;
	return stall < t->deadline ? stall : t->deadline;
}

/*
 * A rank has failed: children that have not come may wait for that rank in their plugins.  The frame makes them look here
 * (tree_link_failure_waits).
 */
static void gather_hurry(struct tree *t)
{
	if (t->hurried || !(t->hurries || t->failure->code))
		return;
	t->hurried = 1;
	ask_children(t, TREE_HURRY, 1);
}

/* Gathers the pieces of all children.  While there are listeners it also accepts children. */
static int round_gather(struct tree *t)
{
	int code = 0;

	while (code == 0 && t->missing > 0) {
		gather_hurry(t);
		code = round_step(t, gather_wake(t));
		if (code == 0 && t->missing > 0 && t->overdue == TREE_IN_TIME)
			code = stall_advance(t);
		if (code || t->missing == 0 || clock_remaining(t->deadline) > 0)
			continue;
		if (t->overdue == TREE_PARENT_TOLD || !missing_ask(t))
			code = missing_tell(t);
	}
	stall_end(t);
	/*
	 * Closes the listeners before any rank has the table: with it a rank may begin another
	 * rendezvous.  After a failure children may still come: tree_fail tells them.
	 */
	if (code == 0)
		acceptor_close(&t->acceptor);
	return code;
}

/* ------------------------------------------------------------------------- a round -- */

/* Makes memory for the pieces of the subtree, and puts this rank's own piece there first. */
static int round_begin(struct tree *t, const void *in)
{
	const uint32_t rank = (uint32_t)t->bootstrap.rank;
	const int size = tree_shape_size(t->index, t->bootstrap.nranks);

	t->failed = t->failure->code != COLL_SUCCESS;
	t->missing = t->nchildren;
	t->overdue = TREE_IN_TIME;
	t->hurries = t->hurried = 0;
	t->stall_at = tree_is_root(t) ? bootstrap_stall_time() : INT64_MAX;
	t->stall_asked = 0;
	memset(t->status, TREE_SILENT, (size_t)t->bootstrap.nranks);
	t->status[rank] = tree_is_root(t) ? TREE_PLACED : TREE_WAITS;
	for (int i = 0; i < t->nconns; i++)
		t->conns[i].status = TREE_SILENT;
	if (t->nchildren == 0)
		return 0;
	t->entries = malloc((size_t)size * (sizeof(rank) + t->len));
	if (t->entries == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", size);
	memcpy(t->entries, &rank, sizeof(rank));
	if (!t->failed && t->len > 0)
		memcpy(t->entries + sizeof(rank), in, t->len);
	t->nentries = 1;
	return 0;
}

/* The root has the pieces of all ranks. */
static void round_make_table(struct tree *t)
{
	const uint8_t *entry = t->entries;

	if (t->failure->code || t->len == 0) /* a barrier has no table */
		return;
	for (int i = 0; i < t->nentries; i++, entry += sizeof(uint32_t) + t->len) {
		uint32_t rank;

		memcpy(&rank, entry, sizeof(rank));
		memcpy(t->table + rank * t->len, entry + sizeof(rank), t->len);
	}
}

/* Sends the parent the pieces of the whole subtree, or the failure of one of its ranks. */
static int round_send_up(struct tree *t, const void *in)
{
	const struct bootstrap_failure *failure = t->failure;
	const int is_leaf = t->nchildren == 0;
	const int64_t left = is_leaf ? t->timeout_ms : clock_remaining(t->deadline);
	const void *body = is_leaf ? in : t->entries;
	struct tree_frame head = {.type = TREE_PIECE, .timeout_ms = tree_timeout(left)};

	head.len = is_leaf ? t->len : (uint64_t)t->nentries * (sizeof(uint32_t) + t->len);
	if (failure->code) {
		body = failure->text;
		head.type = TREE_FAILED;
		head.len = strlen(failure->text);
		head.code = failure->code;
		head.rank = (uint32_t)failure->rank;
	}
	t->piece_begun = 1;
	/* A rank with children may have used up its time to gather. */
	return tree_parent_send(t, head, body, left + (is_leaf ? 0 : tree_grace(t)));
}

/*
 * Waits for the parent's answer.  At the end of the time only a silent parent is an error: it has as much time again
 * to send an answer whose bytes come.
 */
static int round_await_answer(struct tree *t)
{
	const int64_t end = t->deadline + tree_grace(t);
	int code = 0;

	while (code == 0 && !t->answered) {
		const uint64_t before = t->parent.received;

		code = round_step(t, t->overdue == TREE_IN_TIME ? t->deadline : end);
		if (code || t->answered)
			break;
		if (t->overdue == TREE_IN_TIME && clock_remaining(t->deadline) == 0)
			missing_ask(t);
		if (clock_remaining(t->parent.received == before ? end : end + t->timeout_ms) == 0)
			code = tree_no_answer(t);
	}
	/* The children have the same time for the answer as for their pieces. */
	if (code == 0)
		t->deadline = clock_deadline(t->timeout_ms);
	return code;
}

static int round_run(struct tree *t, const void *in)
{
	const struct bootstrap_failure *failure = t->failure;
	int code = round_begin(t, in);

	if (code == 0)
		code = round_gather(t);
	if (code == 0 && tree_is_root(t))
		round_make_table(t);
	else if (code == 0)
		code = round_send_up(t, in);
	if (code == 0 && !tree_is_root(t))
		code = round_await_answer(t);
	if (code)
		return code;
	return failure->code
		       ? tree_pass_down(t, failure->text, strlen(failure->text), failure->code)
		       : tree_pass_down(t, t->table, t->table_len, 0);
}

/*
 * Tells the parent the error of this rank: it would only see a connection that ends.  In a flat tree the error stands
 * in place of this round's piece, if that was not sent.
 */
static void round_tell_parent(struct tree *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE];

	if (tree_is_deep(t) || t->piece_sent) {
		tree_parent_tell(t, TREE_FAILURE, bootstrap_remote_code(code), error_text());
		return;
	}
	snprintf(text, sizeof(text), "rank %d: %.*s", t->bootstrap.rank, BOOTSTRAP_TEXT_SIZE - 32,
		 error_text());
	tree_parent_tell(t, TREE_FAILED, bootstrap_remote_code(code), text);
}

int tree_exchange(struct tree *t, const void *in, void *out, size_t len,
		  struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = clock_deadline(timeout_ms);
	t->len = len;
	tree_parent_begin(t, out, (size_t)t->bootstrap.nranks * len, failure);
	code = round_run(t, in);
	free(t->entries);
	t->entries = NULL;
	if (code == 0)
		return 0;
	/* The only failure that a leaf knows is its own, which bootstrap_exchange_fail adds. */
	if (t->nchildren > 0 && !t->parent.ended)
		code = bootstrap_failed_too(failure, code);
	/* The parent first: it tells all ranks that are not below this one. */
	if (!tree_is_root(t) && !t->parent.ended)
		round_tell_parent(t, code);
	code = tree_fail(t, code);
	if (!tree_is_root(t))
		shutdown(t->parent.fd, SHUT_RDWR);
	return code;
}
