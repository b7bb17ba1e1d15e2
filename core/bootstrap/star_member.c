/* SPDX-License-Identifier: BSD-3-Clause */
/* star_member.c - a rank's connection to its parent; the exchange of a rank without children. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/star.h"

/* Ranks near the root give up first, so that those below them hear from them who is missing. */
int64_t star_grace(const struct star *t)
{
	const int levels = star_tree_height(0, t->bootstrap.nranks) - 1;
	int above = 0;

	for (int seat = t->seat; seat > 0; seat = star_tree_parent(seat, t->bootstrap.nranks))
		above++;
	return STAR_GRACE_MS + (int64_t)STAR_ASK_MS * (levels + (above > 1 ? above - 1 : 0));
}

int star_no_answer(const struct star *t, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out: rank %d of %d has not been heard from after %s s (rank %d would know "
		"which other ranks are missing)",
		t->waits_too ? t->root : t->parent, t->bootstrap.nranks,
		bootstrap_seconds(timeout_ms, seconds), t->root);
}

/* ----------------------------------------------------------------------- sending -- */

/*
 * Waits until the connection is ready, at most until the time `deadline`; *events: the events that poll found.  A connection
 * that is ready each time, though hardly a byte moves, counts until the time `last`.
 */
static int member_poll(const struct star *t, short wanted, int64_t deadline, int64_t last,
		       int64_t timeout_ms, int *events)
{
	int code = bootstrap_check_aborted(&t->bootstrap);

	*events = 0;
	while (code == 0 && *events == 0) {
		*events = socket_poll(t->fd, wanted, bootstrap_look(&t->bootstrap, deadline));
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0 && clock_remaining(*events == 0 ? deadline : last) == 0)
			code = star_no_answer(t, timeout_ms);
	}
	return code;
}

/* The parent has as much time again to send the answer as it had to gather the pieces. */
int star_await_bytes(const struct star *t, int64_t deadline, int64_t timeout_ms)
{
	int events;

	return member_poll(t, POLLIN, deadline, deadline + timeout_ms, timeout_ms, &events);
}

int star_send_up(struct star *t, struct star_frame head, const void *body, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	const size_t total = sizeof(head) + (size_t)head.len;
	size_t sent = 0;

	/* The last frame broke off with the connection: the parent's last message, still unread, has the reason. */
	if (t->midway)
		return 0;
	head.round = t->round;
	head.seat = (uint32_t)t->seat;
	star_seal_body(t->body_key, &head, body);
	star_seal(&t->stream, &head);
	while (sent < total) {
		int events;
		int ended = member_poll(t, POLLIN | POLLOUT, deadline, deadline + star_grace(t),
					timeout_ms, &events);
		ssize_t n;

		if (ended)
			return ended;
		/* No space, and the parent has sent something: a question, or why it has stopped reading. */
		if (!(events & POLLOUT)) {
			ended = star_take_answer(t);
			if (ended || t->answered)
				return ended;
			continue;
		}
		n = star_write_frame(t->fd, &head, body, sent);
		/* No error yet: the parent's last message, which is still unread, has the reason. */
		if (n < 0)
			return 0;
		sent += (size_t)n;
		t->midway = sent > 0 && sent < total;
	}
	t->stream.sent++;
	t->pieces += head.type == STAR_PIECE || head.type == STAR_FAILED;
	return 0;
}

void star_tell_parent(struct star *t, int type, int code, const char *text)
{
	struct star_frame head = {.type = (uint32_t)type,
				  .timeout_ms = UINT32_MAX,
				  .code = code,
				  .rank = (uint32_t)t->bootstrap.rank,
				  .seat = (uint32_t)t->seat};

	if (t->fd < 0 || t->midway)
		return;
	/*
	 * The round of the next piece: a rank that finds a wrong frame before it has sent the piece of this
	 * round tells the error in place of this piece.
	 */
	head.round = type == STAR_FAILED ? (uint32_t)t->pieces + 1 : t->round;
	head.len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1);
	star_seal_body(t->body_key, &head, text);
	star_seal(&t->stream, &head);
	if (star_write_frame(t->fd, &head, text, 0) < (ssize_t)sizeof(head))
		log_debug("rank %d could not be told: %s", t->parent, text);
}

/* --------------------------------------------------------------------- receiving -- */

void star_await_answer(struct star *t, uint8_t *table, size_t len,
		       struct bootstrap_failure *failure)
{
	t->table = table;
	t->table_len = len;
	t->failure = failure;
	t->answered = 0;
	t->waits_too = 0;
	t->spoke = 0;
	star_stream_next(&t->stream);
}

static int member_take_head(struct star *t)
{
	const struct star_frame *head = &t->stream.head;
	int code;

	if (head->type == STAR_WHO && head->len == 0)
		return 0;
	if (head->type == STAR_SEAT && t->round == 0 && head->len == sizeof(struct star_seat)) {
		t->stream.body = t->table;
		return 0;
	}
	code = star_check_table(head, t->parent, t->round, t->table_len);
	if (code == 0 && head->type != STAR_FAILURE && !t->spoke)
		code = error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: frame %u of round %u came "
			"before the pieces",
			t->parent, head->type, head->round);
	t->stream.body = head->type == STAR_TABLE ? t->table : (uint8_t *)t->failure->text;
	return code;
}

/* The parent has sent a failure, whose message is in failure->text, in place of the table. */
static int member_take_failure(struct star *t)
{
	const struct star_frame *head = &t->stream.head;
	struct bootstrap_failure *failure = t->failure;

	failure->text[head->len] = '\0';
	if (failure->text[0] == '\0')
		snprintf(failure->text, sizeof(failure->text), "rank %d failed: it sent no message",
			 t->parent);
	failure->code = head->code > 0 ? head->code : COLL_ERR_REMOTE;
	failure->rank = (int)head->rank;
	t->ended = head->type == STAR_FAILURE;
	return t->ended ? error_set(failure->code, "%s", failure->text) : COLL_SUCCESS;
}

/* The frame is there, and nobody has changed it. */
static int member_take_frame(struct star *t)
{
	switch (t->stream.head.type) {
	case STAR_WHO:
		if (t->stream.head.code == STAR_HURRY) {
			t->hurries = 1;
		} else if (t->stream.head.code == STAR_STALLED) {
			t->stall_asked = 1;
		} else {
			t->waits_too = 1;
			t->deadline = clock_now_ms();
		}
		star_stream_next(&t->stream);
		return 0;
	case STAR_TABLE:
	case STAR_SEAT: t->answered = 1; return 0;
	default: t->answered = 1; return member_take_failure(t);
	}
}

int star_take_answer(struct star *t)
{
	enum star_event event;
	size_t room;
	void *at = star_stream_space(&t->stream, NULL, 0, &room);
	ssize_t n = socket_read(t->fd, at, room);
	int code = 0;

	if (n < 0) {
		t->ended = 1;
		return star_lost_error(t, t->parent, t->parent_address, errno);
	}
	event = star_stream_take(&t->stream, (size_t)n);
	if (event == STAR_HEAD) {
		code = member_take_head(t);
		if (code == 0)
			event = star_stream_take(&t->stream, 0);
	}
	if (event == STAR_FORGED)
		code = star_forged_error(t, t->parent, t->parent_address);
	return code == 0 && event == STAR_WHOLE ? member_take_frame(t) : code;
}

/* --------------------------------------------------------------------- exchanging -- */

/* Sends the piece, or the failure of this rank. */
static int member_send(struct star *t, const void *in, size_t len,
		       const struct bootstrap_failure *failure, int64_t timeout_ms)
{
	const struct star_frame head = {.type = failure->code ? STAR_FAILED : STAR_PIECE,
					.len = failure->code ? strlen(failure->text) : len,
					.timeout_ms = star_timeout(timeout_ms),
					.code = failure->code,
					.rank = (uint32_t)t->bootstrap.rank};

	return star_send_up(t, head, failure->code ? failure->text : in, timeout_ms);
}

/*
 * Tells the parent the error of this rank: it would only see a connection that ends.  In a star the error stands in
 * place of this round's piece, if that was not sent.
 */
static void member_tell(struct star *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE];

	if (star_is_tree(t) || t->pieces == t->round) {
		star_tell_parent(t, STAR_FAILURE, bootstrap_remote_code(code), error_text());
		return;
	}
	snprintf(text, sizeof(text), "rank %d: %.*s", t->bootstrap.rank, BOOTSTRAP_TEXT_SIZE - 32,
		 error_text());
	star_tell_parent(t, STAR_FAILED, bootstrap_remote_code(code), text);
}

static int member_run_round(struct star *t, const void *in, size_t len,
			    struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms) + star_grace(t);
	int code;

	t->spoke = 1;
	code = member_send(t, in, len, failure, timeout_ms);
	while (code == 0 && !t->answered) {
		code = star_await_bytes(t, deadline, timeout_ms);
		if (code == 0)
			code = star_take_answer(t);
	}
	if (code && !t->ended)
		member_tell(t, code);
	return code;
}

int star_member_exchange(struct star *t, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int code;

	t->round++;
	star_await_answer(t, out, (size_t)t->bootstrap.nranks * len, failure);
	code = member_run_round(t, in, len, failure, timeout_ms);
	/* The parent learns of the failure at once, and all other ranks through it. */
	if (code)
		shutdown(t->fd, SHUT_RDWR);
	return code;
}

/* Are the next `n` bytes, of the two heads at most that were looked at, no more than a question for the log? */
static int member_is_asked(const struct star *t, const struct star_frame *head, ssize_t n)
{
	if (n > 0 && n < (ssize_t)sizeof(*head))
		return 1; /* perhaps: the rest is on its way */
	return n == (ssize_t)sizeof(*head) && head->type == STAR_WHO &&
	       head->code == STAR_STALLED && star_is_sealed(&t->stream, head);
}

/*
 * Between exchanges the parent sends nothing but a failure, and a question for the log if it is in the next exchange already.
 * The next exchange reads them.  The end of the connection would hide behind a question, so poll() looks for that.
 */
int star_member_failure_waits(struct star *t)
{
	struct pollfd end = {.fd = t->fd, .events = POLLRDHUP};
	struct star_frame heads[2];
	const ssize_t n = recv(t->fd, heads, sizeof(heads), MSG_PEEK | MSG_DONTWAIT);

	if (member_is_asked(t, heads, n))
		return poll(&end, 1, 0) > 0;
	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}
