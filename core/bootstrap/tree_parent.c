/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_parent.c - a rank's connection to its parent. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tree.h"

/* A rank near the root gives up before the ranks below it, so that they hear from it who is missing. */
int64_t tree_grace(const struct tree *t)
{
	const int n = t->bootstrap.nranks;
	const int levels = tree_shape_height(0, n) - 1, above = tree_shape_depth(t->index, n);

	return TREE_GRACE_MS + (int64_t)TREE_ASK_MS * (levels + (above > 1 ? above - 1 : 0));
}

int tree_no_answer(const struct tree *t)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out: rank %d of %d has not been heard from after %s s (rank %d would know "
		"which other ranks are missing)",
		t->parent_waits ? t->root : t->parent.rank, t->bootstrap.nranks,
		bootstrap_seconds(t->timeout_ms, seconds), t->root);
}

/* ----------------------------------------------------------------------- sending -- */

/*
 * Waits until the connection is ready, at most until the time `deadline`; *events: the events that poll found.  A connection
 * that is ready each time, though hardly a byte moves, counts until the time `last`.
 */
static int parent_poll(const struct tree *t, short wanted, int64_t deadline, int64_t last,
		       int *events)
{
	int code = bootstrap_check_aborted(&t->bootstrap);

	*events = 0;
	while (code == 0 && *events == 0) {
		*events =
			socket_poll(t->parent.fd, wanted, bootstrap_look(&t->bootstrap, deadline));
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0 && clock_remaining(*events == 0 ? deadline : last) == 0)
			code = tree_no_answer(t);
	}
	return code;
}

int tree_parent_send(struct tree *t, struct tree_frame head, const void *body, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	const size_t total = sizeof(head) + (size_t)head.len;
	size_t sent = 0;

	/* The last frame broke off with the connection: the parent's last message, still unread, has the reason. */
	if (t->midway)
		return 0;
	head.round = t->round;
	head.index = (uint32_t)t->index;
	tree_seal_body(t->body_key, &head, body);
	tree_seal(&t->parent.stream, &head);
	while (sent < total) {
		int events;
		int ended = parent_poll(t, POLLIN | POLLOUT, deadline, deadline + tree_grace(t),
					&events);
		ssize_t n;

		if (ended)
			return ended;
		/* No space, and the parent has sent something: a question, or why it has stopped reading. */
		if (!(events & POLLOUT)) {
			ended = tree_parent_take(t);
			if (ended || t->answered)
				return ended;
			continue;
		}
		n = tree_link_write(t, &t->parent, &head, body, sent);
		/* No error yet: the parent's last message, which is still unread, has the reason. */
		if (n < 0)
			return 0;
		sent += (size_t)n;
		t->midway = sent > 0 && sent < total;
	}
	t->parent.stream.sent++;
	t->pieces += head.type == TREE_PIECE || head.type == TREE_FAILED;
	return 0;
}

void tree_parent_tell(struct tree *t, int type, int code, const char *text)
{
	/*
	 * The round of the next piece: a rank that finds a wrong frame before it has sent the piece of this
	 * round tells the error in place of this piece.
	 */
	const uint32_t next = (uint32_t)t->pieces + 1;
	const struct tree_frame head = {.type = (uint32_t)type,
					.round = type == TREE_FAILED ? next : t->round,
					.len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1),
					.timeout_ms = UINT32_MAX,
					.code = code,
					.rank = (uint32_t)t->bootstrap.rank,
					.index = (uint32_t)t->index};

	if (t->parent.fd < 0 || t->midway)
		return;
	if (!tree_link_send(t, &t->parent, head, text))
		log_debug("rank %d could not be told: %s", t->parent.rank, text);
}

/* --------------------------------------------------------------------- receiving -- */

void tree_parent_begin(struct tree *t, uint8_t *table, size_t len,
		       struct bootstrap_failure *failure)
{
	t->table = table;
	t->table_len = len;
	t->failure = failure;
	t->answered = 0;
	t->parent_waits = 0;
	t->piece_begun = 0;
	tree_stream_next(&t->parent.stream);
}

static int parent_take_head(struct tree *t, struct tree_link *parent)
{
	const struct tree_frame *head = &parent->stream.head;
	int code;

	if (head->type == TREE_WHO && head->len == 0)
		return 0;
	if (head->type == TREE_INDEX && t->round == 0 && head->len == sizeof(struct tree_place)) {
		parent->stream.body = t->table;
		return 0;
	}
	code = tree_check_table(head, parent->rank, t->round, t->table_len);
	if (code == 0 && head->type != TREE_FAILURE && !t->piece_begun)
		code = error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: frame %u of round %u came "
			"before the pieces",
			parent->rank, head->type, head->round);
	parent->stream.body = head->type == TREE_TABLE ? t->table : (uint8_t *)t->failure->text;
	return code;
}

/* The parent has sent a failure, whose message is in failure->text, in place of the table. */
static int parent_take_failure(struct tree *t, struct tree_link *parent)
{
	const struct tree_frame *head = &parent->stream.head;
	struct bootstrap_failure *failure = t->failure;

	failure->text[head->len] = '\0';
	if (failure->text[0] == '\0')
		snprintf(failure->text, sizeof(failure->text), "rank %d failed: it sent no message",
			 parent->rank);
	failure->code = head->code > 0 ? head->code : COLL_ERR_REMOTE;
	failure->rank = (int)head->rank;
	parent->ended = head->type == TREE_FAILURE;
	return parent->ended ? error_set(failure->code, "%s", failure->text) : COLL_SUCCESS;
}

static void parent_take_question(struct tree *t, struct tree_link *parent)
{
	switch (parent->stream.head.code) {
	case TREE_HURRY: t->hurries = 1; break;
	case TREE_STALLED: t->stall_asked = 1; break;
	default:
		t->parent_waits = 1;
		t->deadline = clock_now_ms();
		break;
	}
	tree_stream_next(&parent->stream);
}

static int parent_take_frame(struct tree *t, struct tree_link *parent)
{
	const uint32_t type = parent->stream.head.type;

	if (type == TREE_WHO) {
		parent_take_question(t, parent);
		return 0;
	}
	t->answered = 1;
	return type == TREE_TABLE || type == TREE_INDEX ? 0 : parent_take_failure(t, parent);
}

int tree_parent_take(struct tree *t)
{
	return tree_link_receive(t, &t->parent, parent_take_head, parent_take_frame);
}

int tree_parent_await(struct tree *t)
{
	const int64_t end = t->deadline + tree_grace(t);
	int code = 0, events;

	while (code == 0 && !t->answered) {
		code = parent_poll(t, POLLIN, end, end + t->timeout_ms, &events);
		if (code == 0)
			code = tree_parent_take(t);
	}
	return code;
}

/* ---------------------------------------------------------------- between rounds -- */

/* Are the next `n` bytes, of the two heads at most that were looked at, no more than a question for the log? */
static int parent_asks(const struct tree *t, const struct tree_frame *head, ssize_t n)
{
	if (n > 0 && n < (ssize_t)sizeof(*head))
		return 1; /* perhaps: the rest is on its way */
	return n == (ssize_t)sizeof(*head) && head->type == TREE_WHO &&
	       head->code == TREE_STALLED && tree_is_sealed(&t->parent.stream, head);
}

/*
 * Between rounds the parent sends nothing but a failure, and a question for the log if it is in the next round already.
 * The next round reads them.  The end of the connection would hide behind a question, so poll() looks for that.
 */
int tree_parent_failure_waits(struct tree *t)
{
	struct pollfd end = {.fd = t->parent.fd, .events = POLLRDHUP};
	struct tree_frame heads[2];
	const ssize_t n = recv(t->parent.fd, heads, sizeof(heads), MSG_PEEK | MSG_DONTWAIT);

	if (parent_asks(t, heads, n))
		return poll(&end, 1, 0) > 0;
	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}
