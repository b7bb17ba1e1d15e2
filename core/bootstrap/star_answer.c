/* SPDX-License-Identifier: BSD-3-Clause */
/* star_answer.c - what a rank sends its children: the table, a failure, and the end of the rendezvous. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

/* The time after a failure in which a rank still tells it to children that connect late. */
enum { LATE_MS = 2000 };

static void answer_unwatch(struct star *t, struct rank_connection *conn)
{
	if (conn->place >= 0)
		t->conn_at[conn->place] = 0;
	poll_set_unwatch(&t->polls, &conn->place);
}

void star_drop(struct star *t, struct rank_connection *conn)
{
	answer_unwatch(t, conn);
	close(conn->fd);
	conn->fd = -1;
}

int star_send_down(struct star *t, struct rank_connection *conn, struct star_frame head,
		   const void *body)
{
	ssize_t n;

	star_seal_body(t->body_key, &head, body);
	star_seal(&conn->stream, &head);
	/* A socket's buffer has space for a kilobyte, unless the rank does not read. */
	n = star_write_frame(conn->fd, &head, body, 0);
	if (n > 0)
		t->bytes += (uint64_t)n;
	if (n != (ssize_t)(sizeof(head) + head.len))
		return 0;
	conn->stream.sent++;
	return 1;
}

/* --------------------------------------------------------------------- scatter -- */

/* Continues to send to the children that have not got everything; returns how many will not have by then. */
static nfds_t answer_send_some(struct star *t, const void *body, size_t len,
			       const struct rank_connection **lost, int *lost_errno)
{
	size_t total = sizeof(struct star_frame) + len;
	nfds_t unsent = 0;

	for (int i = 0; i < t->nconns; i++) {
		struct rank_connection *conn = &t->conns[i];
		ssize_t n;

		if (conn->fd < 0 || conn->sent == total)
			continue;
		n = star_write_frame(conn->fd, &conn->answer, body, conn->sent);
		if (n < 0) {
			*lost = conn;
			*lost_errno = errno;
			star_drop(t, conn);
			continue;
		}
		conn->sent += (size_t)n;
		t->bytes += (uint64_t)n;
		t->heard[conn->rank] = conn->sent == total;
		conn->stream.sent += conn->sent == total;
		if (conn->sent < total)
			t->unsent[unsent++] = (struct pollfd){.fd = conn->fd, .events = POLLOUT};
	}
	return unsent;
}

/* Seals the answer for each child. */
static void answer_prepare(struct star *t, const void *body, size_t len, int failed)
{
	struct star_frame head = {.type = failed ? STAR_FAILED : STAR_TABLE,
				  .round = t->round,
				  .len = len,
				  .code = failed,
				  .rank = failed ? (uint32_t)t->failure->rank : 0};

	star_seal_body(t->body_key, &head, body);
	memset(t->heard, STAR_WAITS, (size_t)t->bootstrap.nranks);
	for (int i = 0; i < t->nconns; i++) {
		t->conns[i].answer = head;
		star_seal(&t->conns[i].stream, &t->conns[i].answer);
		if (t->conns[i].fd >= 0)
			t->heard[t->conns[i].rank] = STAR_SILENT;
	}
}

int star_scatter(struct star *t, const void *body, size_t len, int failed)
{
	const struct rank_connection *lost = NULL;
	int lost_errno = 0;

	answer_prepare(t, body, len, failed);
	for (;;) {
		int code = bootstrap_check_aborted(&t->bootstrap);
		int64_t look = bootstrap_look(&t->bootstrap, t->deadline);
		nfds_t unsent = answer_send_some(t, body, len, &lost, &lost_errno);

		if (unsent == 0)
			return lost == NULL
				       ? 0
				       : star_lost_error(t, lost->rank, lost->address, lost_errno);
		if (code)
			return code;
		if (clock_remaining(t->deadline) == 0)
			return bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms,
						       "they do not take the others' answers");
		look = clock_remaining(look);
		poll(t->unsent, unsent, look > 60000 ? 60000 : (int)look);
	}
}

/* ------------------------------------------------------------------ the failure -- */

/*
 * Sends the error to every connected child that has not got it.  The connections stay open until the
 * bootstrap is closed, so that nothing overtakes the message.
 */
static void answer_send_failure(struct star *t, int code, const char *text)
{
	const struct star_frame head = {.type = STAR_FAILURE,
					.round = t->round,
					.len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1),
					.code = bootstrap_remote_code(code)};

	for (int i = 0; i < t->nconns; i++) {
		struct rank_connection *conn = &t->conns[i];
		const size_t answer = sizeof(conn->answer) + (size_t)conn->answer.len;
		const int midway = conn->sent > 0 && conn->sent < answer;

		if (conn->fd < 0 || conn->told)
			continue;
		conn->told = 1;
		answer_unwatch(t, conn);
		if (midway || !star_send_down(t, conn, head, text))
			log_debug("rank %d could not be told: %s", conn->rank, text);
		shutdown(conn->fd, SHUT_WR);
	}
}

/*
 * The rendezvous has failed before all children were connected.  Waits a short time for the others and
 * tells them why: a rank that finds the port closed cannot know whether this one will still come.
 */
static void answer_tell_late(struct star *t, int code, const char *text)
{
	int64_t end = clock_deadline(LATE_MS);

	if (end > t->deadline)
		end = t->deadline;
	t->acceptor.failed = code;
	t->acceptor.failed_text = text;
	while (t->nconns < t->conns_max && clock_remaining(end) > 0) {
		poll_set_begin(&t->polls, bootstrap_look(&t->bootstrap, end));
		acceptor_prepare(&t->acceptor, &t->polls);
		poll_set_wait(&t->polls);
		if (bootstrap_check_aborted(&t->bootstrap))
			return;
		/* A rank that can never fit is told its own fault; the others are still awaited. */
		if (acceptor_advance(&t->acceptor, &t->polls) != 0)
			log_debug("a late rank was turned away: %s", error_text());
		answer_send_failure(t, code, text);
	}
}

int star_fail(struct star *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", error_text());
	answer_send_failure(t, code, text);
	if (t->acceptor.listeners.count > 0 && code != COLL_ERR_ABORTED)
		answer_tell_late(t, code, text);
	acceptor_close(&t->acceptor);
	return error_set(code, "%s", text);
}
