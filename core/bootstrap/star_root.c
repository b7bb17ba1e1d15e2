/* SPDX-License-Identifier: BSD-3-Clause */
/* star_root.c - the root's half of an exchange: it gathers the pieces and sends the table of all pieces. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

/* The time after a failure in which the root still tells it to members that connect late. */
enum { ROOT_LATE_MS = 2000 };

/* Waits for bytes of a member from now on. */
static void root_watch(struct star *t, uint32_t rank)
{
	struct rank_connection *conn = &t->conns[rank];

	poll_set_watch(&t->polls, &conn->place, conn->fd, POLLIN);
	if (conn->place >= 0)
		t->rank_at[conn->place] = 1 + (int)rank;
}

static void root_unwatch(struct star *t, struct rank_connection *conn)
{
	if (conn->place >= 0)
		t->rank_at[conn->place] = 0;
	poll_set_unwatch(&t->polls, &conn->place);
}

/* Takes the connection of a member that has proved the key. */
static void root_connected(void *owner, uint32_t rank, int fd,
			   const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct star *t = owner;
	struct rank_connection *conn = &t->conns[rank];

	conn->fd = fd;
	star_stream_init(&conn->stream, 1, key, t->body_key);
	socket_no_delay(fd);
	address_format_peer(fd, conn->address);
	root_watch(t, rank);
}

int star_root_init(struct star *t)
{
	size_t n = (size_t)t->bootstrap.nranks, places = n + acceptor_poll_size(&t->handshake);
	int code;

	t->acceptor.hs = &t->handshake;
	t->acceptor.connected = root_connected;
	t->acceptor.owner = t;
	t->conns = calloc(n, sizeof(*t->conns));
	t->heard = calloc(n, 1);
	t->unsent = calloc(n, sizeof(*t->unsent));
	t->rank_at = calloc(places, sizeof(*t->rank_at));
	if (t->conns == NULL || t->heard == NULL || t->unsent == NULL || t->rank_at == NULL) {
		free(t->conns);
		t->conns = NULL;
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", t->bootstrap.nranks);
	}
	for (size_t r = 0; r < n; r++) {
		t->conns[r].fd = -1;
		t->conns[r].place = -1;
	}
	code = acceptor_begin(&t->acceptor);
	if (code == 0)
		code = poll_set_init(&t->polls, places);
	return code ? code : random_bytes(t->acceptor.salt, sizeof(t->acceptor.salt));
}

void star_root_close(struct star *t)
{
	acceptor_end(&t->acceptor);
	for (int r = 0; t->conns != NULL && r < t->bootstrap.nranks; r++) {
		if (t->conns[r].fd >= 0)
			close(t->conns[r].fd);
		free(t->conns[r].failed);
	}
	free(t->conns);
	free(t->heard);
	free(t->unsent);
	free(t->rank_at);
	poll_set_free(&t->polls);
}

/* ---------------------------------------------------------------------- gather -- */

/* Checks the head of a rank's frame and chooses the memory for the body. */
static int root_take_head(struct star *t, int rank, uint8_t *out, size_t len)
{
	struct rank_connection *conn = &t->conns[rank];
	const struct star_frame *head = &conn->stream.head;
	int code = star_check_piece(head, rank, t->root, t->round, len, t->failed);

	if (code)
		return code;
	/*
	 * The shortest timeout counts for all ranks: only the root knows which ranks are missing, so the
	 * root must be the one to give up.
	 */
	if (head->timeout_ms != UINT32_MAX && clock_now_ms() + head->timeout_ms < t->deadline) {
		t->deadline = clock_now_ms() + head->timeout_ms;
		t->timeout_ms = head->timeout_ms;
	}
	conn->stream.body = len > 0 && !t->failed ? out + (size_t)rank * len : NULL;
	if (head->type == STAR_FAILED) {
		/* Without memory the message is lost, but not the code. */
		if (conn->failed == NULL)
			conn->failed = malloc(BOOTSTRAP_TEXT_SIZE);
		conn->stream.body = (uint8_t *)conn->failed;
	}
	return COLL_SUCCESS;
}

/* A rank that has sent its piece sends nothing more before it has the table. */
static int root_recv_again(struct star *t, int rank)
{
	char byte;
	ssize_t n = socket_read(t->conns[rank].fd, &byte, 1);

	if (n < 0)
		return star_lost_error(t, rank, errno);
	return n > 0 ? star_forged_error(t, rank) : 0;
}

/* All ranks have sent: chooses the failure that every rank gets. */
static void root_merge_failures(struct star *t, struct bootstrap_failure *failure)
{
	for (int r = 0; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];

		if (!t->heard[r] || conn->stream.head.type != STAR_FAILED)
			continue;
		if (conn->failed != NULL)
			conn->failed[conn->stream.head.len] = '\0';
		bootstrap_merge_failure(failure, r, conn->stream.head.code,
					conn->failed != NULL ? conn->failed : "");
		free(conn->failed);
		conn->failed = NULL;
	}
}

/* Reads the bytes that the rank has sent of its frame. */
static int root_recv(struct star *t, int rank, uint8_t *out, size_t len)
{
	struct rank_connection *conn = &t->conns[rank];
	enum star_event event;
	uint8_t scrap[4096];
	size_t room;
	ssize_t n;
	void *at;

	if (t->heard[rank])
		return root_recv_again(t, rank);
	at = star_stream_space(&conn->stream, scrap, sizeof(scrap), &room);
	n = socket_read(conn->fd, at, room);
	if (n < 0)
		return star_lost_error(t, rank, errno);
	event = star_stream_take(&conn->stream, (size_t)n);
	if (event == STAR_HEAD) {
		int code = root_take_head(t, rank, out, len);

		if (code)
			return code;
		event = star_stream_take(&conn->stream, 0);
	}
	if (event == STAR_WHOLE) {
		t->heard[rank] = 1;
		t->missing--;
	}
	return event == STAR_FORGED ? star_forged_error(t, rank) : 0;
}

/* One step of the root's loop: polls, then handles all events. */
static int root_step(struct star *t, uint8_t *out, size_t len)
{
	int code, place, cursor = 0;

	poll_set_begin(&t->polls, bootstrap_look(&t->bootstrap, t->deadline));
	acceptor_prepare(&t->acceptor, &t->polls);
	poll_set_wait(&t->polls);
	code = bootstrap_check_aborted(&t->bootstrap);
	while (code == 0 && (place = poll_set_next(&t->polls, &cursor)) >= 0)
		if (t->rank_at[place] > 0)
			code = root_recv(t, t->rank_at[place] - 1, out, len);
	if (code == 0)
		code = acceptor_advance(&t->acceptor, &t->polls);
	if (code == 0 && t->missing > 0 && clock_remaining(t->deadline) == 0)
		code = bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms,
					       t->acceptor.note);
	return code;
}

static int root_gather(struct star *t, const void *in, uint8_t *out, size_t len)
{
	int code = 0;

	if (len > 0 && !t->failed)
		memmove(out + (size_t)t->root * len, in, len);
	memset(t->heard, 0, (size_t)t->bootstrap.nranks);
	t->heard[t->root] = 1;
	t->missing = t->bootstrap.nranks - 1;
	for (int r = 0; r < t->bootstrap.nranks; r++) {
		star_stream_next(&t->conns[r].stream);
		t->conns[r].sent = 0;
	}
	while (code == 0 && t->missing > 0)
		code = root_step(t, out, len);
	/*
	 * Closes the listeners before any rank has the table: with it a rank may begin another
	 * rendezvous.  After a failure members may still come: star_root_exchange tells them.
	 */
	if (code == 0)
		acceptor_close(&t->acceptor);
	return code;
}

/* --------------------------------------------------------------------- scatter -- */

/* Continues to send to the members that have not got everything; returns how many will not have by then. */
static nfds_t root_send_some(struct star *t, const void *body, size_t len, int *lost,
			     int *lost_errno)
{
	size_t total = sizeof(struct star_frame) + len;
	nfds_t unsent = 0;

	for (int r = 0; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];
		ssize_t n;

		if (conn->fd < 0 || conn->sent == total)
			continue;
		n = star_write_frame(conn->fd, &conn->answer, body, conn->sent);
		if (n < 0) {
			*lost = r;
			*lost_errno = errno;
			root_unwatch(t, conn);
			close(conn->fd);
			conn->fd = -1;
			continue;
		}
		conn->sent += (size_t)n;
		t->heard[r] = conn->sent == total;
		conn->stream.sent += conn->sent == total;
		if (conn->sent < total)
			t->unsent[unsent++] = (struct pollfd){.fd = conn->fd, .events = POLLOUT};
	}
	return unsent;
}

/* Sends every member the table, or the failure of a rank. */
static int root_scatter(struct star *t, const void *body, size_t len, int failed)
{
	struct star_frame head = {.type = failed ? STAR_FAILED : STAR_TABLE,
				  .round = t->round,
				  .len = len,
				  .code = failed};
	int lost = -1, lost_errno = 0;

	star_seal_body(t->body_key, &head, body);
	for (int r = 0; r < t->bootstrap.nranks; r++) {
		t->conns[r].answer = head;
		star_seal(&t->conns[r].stream, &t->conns[r].answer);
	}
	for (;;) {
		int code = bootstrap_check_aborted(&t->bootstrap);
		int64_t look = bootstrap_look(&t->bootstrap, t->deadline);
		nfds_t unsent = root_send_some(t, body, len, &lost, &lost_errno);

		if (unsent == 0)
			return lost >= 0 ? star_lost_error(t, lost, lost_errno) : 0;
		if (code)
			return code;
		if (clock_remaining(t->deadline) == 0)
			return bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms,
						       "they do not take the others' answers");
		look = clock_remaining(look);
		poll(t->unsent, unsent, look > 60000 ? 60000 : (int)look);
	}
}

/*
 * Sends the error to every connected member that has not got it.  The connections stay open until the
 * bootstrap is closed, so that nothing overtakes the message.
 */
static void root_send_failure(struct star *t, int code, const char *text, size_t body_len)
{
	size_t len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1);
	struct star_frame head = {.type = STAR_FAILURE,
				  .round = t->round,
				  .len = len,
				  .code = bootstrap_remote_code(code)};

	star_seal_body(t->body_key, &head, text);
	for (int r = 0; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];
		int midway = conn->sent > 0 && conn->sent < sizeof(head) + body_len;

		if (conn->fd < 0 || conn->told)
			continue;
		conn->told = 1;
		root_unwatch(t, conn);
		star_seal(&conn->stream, &head);
		/* A socket's buffer has space for a kilobyte, unless the rank does not read. */
		if (midway || star_write_frame(conn->fd, &head, text, 0) < (ssize_t)sizeof(head))
			log_debug("rank %d could not be told: %s", r, text);
		shutdown(conn->fd, SHUT_WR);
	}
}

static int root_count_absent(const struct star *t)
{
	int absent = 0;

	for (int r = 0; r < t->bootstrap.nranks; r++)
		absent += r != t->root && t->conns[r].fd < 0;
	return absent;
}

/*
 * The rendezvous has failed before all members were connected.  Waits a short time for the others and
 * tells them why: a member that finds the port closed cannot know whether the root will still come.
 */
static void root_tell_late(struct star *t, int code, const char *text)
{
	int64_t end = clock_deadline(ROOT_LATE_MS);

	if (end > t->deadline)
		end = t->deadline;
	while (root_count_absent(t) > 0 && clock_remaining(end) > 0) {
		poll_set_begin(&t->polls, bootstrap_look(&t->bootstrap, end));
		acceptor_prepare(&t->acceptor, &t->polls);
		poll_set_wait(&t->polls);
		if (bootstrap_check_aborted(&t->bootstrap))
			return;
		/* A member that can never fit is told its own fault; the others are still awaited. */
		if (acceptor_advance(&t->acceptor, &t->polls) != 0)
			log_debug("a late rank was turned away: %s", error_text());
		root_send_failure(t, code, text, 0);
	}
}

/* Ends the rendezvous: tells all members the error of this rank, and returns it. */
static int root_fail(struct star *t, int code, size_t body_len)
{
	char text[BOOTSTRAP_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", error_text());
	root_send_failure(t, code, text, body_len);
	if (t->acceptor.listeners.count > 0 && code != COLL_ERR_ABORTED)
		root_tell_late(t, code, text);
	acceptor_close(&t->acceptor);
	return error_set(code, "%s", text);
}

/*
 * Between exchanges every member's next bytes are the head of a frame.  The next exchange reports a wrong
 * mac.
 */
int star_root_failure_waits(struct star *t)
{
	for (int r = 0; r < t->bootstrap.nranks; r++) {
		struct star_frame head;
		ssize_t n = -1;

		if (t->conns[r].fd >= 0)
			n = recv(t->conns[r].fd, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
		if (n == 0)
			return 1;
		if (n == (ssize_t)sizeof(head) &&
		    (!star_is_sealed(&t->conns[r].stream, &head) || head.type == STAR_FAILED))
			return 1;
	}
	return 0;
}

int star_root_exchange(struct star *t, const void *in, void *out, size_t len,
		       struct bootstrap_failure *failure, int64_t timeout_ms)
{
	size_t body_len = (size_t)t->bootstrap.nranks * len;
	const void *body = out;
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = clock_deadline(timeout_ms);
	t->failed = failure->code != COLL_SUCCESS;
	code = root_gather(t, in, out, len);
	root_merge_failures(t, failure);
	if (failure->code) {
		body = failure->text;
		body_len = strlen(failure->text);
	}
	if (code == 0)
		code = root_scatter(t, body, body_len, failure->code);
	/*
	 * A rank may be missing because of the failure that another rank has sent.  But if ranks only
	 * know that another one failed, the missing rank is the one.
	 */
	if (code && failure->code && failure->code != COLL_ERR_REMOTE)
		code = error_set(failure->code, "%s", failure->text);
	return code ? root_fail(t, code, body_len) : 0;
}
