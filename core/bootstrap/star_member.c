/* SPDX-License-Identifier: BSD-3-Clause */
/* star_member.c - connects a member to the root; the member's half of an exchange. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/star.h"

/* ------------------------------------------------------------------ connecting -- */

enum { MEMBER_ROOT_SIZE = 64 };

/* Before it has a connection a member knows an id's maker only as such. */
static const char *member_root(const struct star *t, char text[MEMBER_ROOT_SIZE])
{
	if (t->root < 0)
		return "the maker of the unique id, usually rank 0,";
	snprintf(text, MEMBER_ROOT_SIZE, "rank %d", t->root);
	return text;
}

static int member_not_connected(const struct star *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE], root[MEMBER_ROOT_SIZE];

	snprintf(text, sizeof(text), "%s", error_text());
	return error_set(code, "rank %d cannot meet %s: %s%s", t->bootstrap.rank,
			 member_root(t, root), text,
			 code == COLL_ERR_PEER_LOST
				 ? " (it has ended, all its ranks are there already, or the "
				   "job has already failed: read the messages of the other ranks)"
				 : "");
}

static int member_dial(struct star *t, struct dial *dial, struct poll_set *set, int64_t deadline,
		       int64_t timeout_ms)
{
	char seconds[24], root[MEMBER_ROOT_SIZE];
	int code = dial_begin(dial);

	while (code == 0 && dial->fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code)
			return code;
		poll_set_begin(set, bootstrap_look(&t->bootstrap, deadline));
		code = dial_prepare(dial, set);
		if (code == 0) {
			poll_set_wait(set);
			code = dial_advance(dial, set);
		}
		if (code == 0 && dial->fd < 0 && clock_remaining(deadline) == 0)
			return error_set(
				COLL_ERR_TIMEOUT,
				"timed out: %s of %d has not been heard from after %s s; %s "
				"(%s has not started yet, or the job has already "
				"failed: read the messages of the other ranks)",
				member_root(t, root), t->bootstrap.nranks,
				bootstrap_seconds(timeout_ms, seconds), dial->note,
				t->root < 0 ? "it" : "rank 0");
	}
	return code ? member_not_connected(t, code) : 0;
}

int star_connect(struct star *t, const struct address_list *addresses, int retry, int64_t deadline,
		 int64_t timeout_ms)
{
	struct dial dial = {.hs = &t->handshake,
			    .any_peer = t->root < 0,
			    .addresses = *addresses,
			    .named = retry,
			    .retry = retry};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = member_dial(t, &dial, &set, deadline, timeout_ms);
	dial_end(&dial);
	t->fd = dial.fd;
	if (code)
		return code;
	if (dial.peer >= (uint32_t)t->bootstrap.nranks)
		return error_set(
			COLL_ERR_INTERNAL,
			"%s broke the bootstrap's protocol: it says that it is rank %u of %d",
			dial.text, dial.peer, t->bootstrap.nranks);
	t->root = (int)dial.peer;
	memcpy(t->root_address, dial.text, sizeof(dial.text));
	star_derive_keys(t, dial.salt);
	star_stream_init(&t->stream, 0, dial.key, t->body_key);
	return 0;
}

/* ------------------------------------------------------------------- exchanging -- */

static int member_timeout(const struct star *t, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out: rank %d of %d has not been heard from after %s s (rank %d would know "
		"which other ranks are missing)",
		t->root, t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds), t->root);
}

/* Waits until the connection to the root is ready; *events: the events that poll found. */
static int member_poll(const struct star *t, short wanted, int64_t deadline, int64_t timeout_ms,
		       int *events)
{
	int code = bootstrap_check_aborted(&t->bootstrap);

	*events = 0;
	while (code == 0 && *events == 0) {
		*events = socket_poll(t->fd, wanted, bootstrap_look(&t->bootstrap, deadline));
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0 && *events == 0 && clock_remaining(deadline) == 0)
			code = member_timeout(t, timeout_ms);
	}
	return code;
}

/*
 * Sends the piece, or the failure of this rank; ends early without error if the root has sent
 * something.
 */
static int member_send(struct star *t, const void *in, size_t len, int code, int64_t timeout_ms)
{
	struct star_frame head = {.type = code ? STAR_FAILED : STAR_PIECE,
				  .round = t->round,
				  .len = len,
				  .code = code,
				  .timeout_ms = timeout_ms < UINT32_MAX ? (uint32_t)timeout_ms
									: UINT32_MAX};
	int64_t deadline = clock_deadline(timeout_ms);
	size_t sent = 0;

	star_seal_body(t->body_key, &head, in);
	star_seal(&t->stream, &head);
	while (sent < sizeof(head) + len) {
		int events;
		int ended = member_poll(t, POLLIN | POLLOUT, deadline, timeout_ms, &events);
		ssize_t n;

		if (ended)
			return ended;
		if (events & POLLIN)
			return 0;
		n = star_write_frame(t->fd, &head, in, sent);
		/* No error yet: the root's last message, which is still unread, has the reason. */
		if (n < 0)
			return 0;
		sent += (size_t)n;
	}
	t->stream.sent++;
	return 0;
}

/*
 * Reads bytes of the root's frame.  Returns STAR_MORE and a code if the connection or the time has ended.
 */
static enum star_event member_read(struct star *t, int64_t deadline, int64_t timeout_ms, int *code)
{
	size_t room;
	void *at = star_stream_space(&t->stream, NULL, 0, &room);
	int events;
	ssize_t n;

	*code = member_poll(t, POLLIN, deadline, timeout_ms, &events);
	if (*code)
		return STAR_MORE;
	n = socket_read(t->fd, at, room);
	if (n < 0) {
		*code = star_lost_error(t, t->root, errno);
		return STAR_MORE;
	}
	return star_stream_take(&t->stream, (size_t)n);
}

/*
 * Tells the root the error of this rank in place of the next piece, if the message fits into the socket's buffer:
 * the root would only see a connection that ends.
 */
static void member_tell(struct star *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE];
	struct star_frame head = {.type = STAR_FAILED, .timeout_ms = UINT32_MAX, .code = code};

	/*
	 * The round of the next piece: a rank that finds a wrong frame before it has sent the piece of this
	 * round tells the error in place of this piece.
	 */
	head.round = (uint32_t)t->stream.sent + 1;
	head.len = (uint64_t)snprintf(text, sizeof(text), "rank %d: %.*s", t->bootstrap.rank,
				      BOOTSTRAP_TEXT_SIZE - 32, error_text());
	star_seal_body(t->body_key, &head, text);
	star_seal(&t->stream, &head);
	if (star_write_frame(t->fd, &head, text, 0) < (ssize_t)sizeof(head))
		log_debug("rank %d could not be told: %s", t->root, text);
}

/* Receives the root's frame, whose body is the table or the message of a failure. */
static int member_recv(struct star *t, void *out, size_t total, char *message, int64_t deadline,
		       int64_t timeout_ms)
{
	enum star_event event = STAR_MORE;
	int code = 0;

	star_stream_next(&t->stream);
	while (event == STAR_MORE) {
		event = member_read(t, deadline, timeout_ms, &code);
		if (code)
			return code;
		if (event != STAR_HEAD)
			continue;
		code = star_check_table(&t->stream.head, t->root, t->round, total);
		if (code)
			break;
		t->stream.body = t->stream.head.type == STAR_TABLE ? out : (void *)message;
		event = star_stream_take(&t->stream, 0);
	}
	if (event == STAR_FORGED)
		code = star_forged_error(t, t->root);
	if (code)
		member_tell(t, code);
	return code;
}

/* The root has sent a failure, whose message is in failure->text, in place of the table. */
static int member_failure(const struct star *t, const struct star_frame *head,
			  struct bootstrap_failure *failure)
{
	failure->text[head->len] = '\0';
	if (failure->text[0] == '\0')
		snprintf(failure->text, sizeof(failure->text), "rank %d failed: it sent no message",
			 t->root);
	failure->code = head->code > 0 ? head->code : COLL_ERR_REMOTE;
	return head->type == STAR_FAILED ? COLL_SUCCESS
					 : error_set(failure->code, "%s", failure->text);
}

static int member_run_round(struct star *t, const void *in, void *out, size_t len,
			    struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms) + STAR_GRACE_MS;
	int code;

	t->round++;
	if (failure->code)
		code = member_send(t, failure->text, strlen(failure->text), failure->code,
				   timeout_ms);
	else
		code = member_send(t, in, len, COLL_SUCCESS, timeout_ms);
	if (code == 0)
		code = member_recv(t, out, (size_t)t->bootstrap.nranks * len, failure->text,
				   deadline, timeout_ms);
	if (code || t->stream.head.type == STAR_TABLE)
		return code;
	return member_failure(t, &t->stream.head, failure);
}

int star_member_exchange(struct star *t, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int code = member_run_round(t, in, out, len, failure, timeout_ms);

	/* The root learns of the failure at once, and all other ranks through the root. */
	if (code)
		shutdown(t->fd, SHUT_RDWR);
	return code;
}

/* Between exchanges the root sends nothing but a failure.  The next exchange reads it. */
int star_member_failure_waits(struct star *t)
{
	char byte;
	ssize_t n = recv(t->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}
