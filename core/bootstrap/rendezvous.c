/* SPDX-License-Identifier: BSD-3-Clause */
/* rendezvous.c - rank 0 in the middle of the star: gathers pieces, hands round the table. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

int tcp_root_init(struct star *t)
{
	size_t n = (size_t)t->bootstrap.nranks;

	t->conns = calloc(n, sizeof(*t->conns));
	t->polls = calloc(n + TCP_MAX_PENDING + ADDRESS_INET_MAX, sizeof(*t->polls));
	t->heard = calloc(n, 1);
	if (t->conns == NULL || t->polls == NULL || t->heard == NULL) {
		free(t->conns);
		t->conns = NULL;
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", t->bootstrap.nranks);
	}
	for (size_t r = 0; r < n; r++)
		t->conns[r].fd = -1;
	return random_bytes(t->salt, sizeof(t->salt));
}

void tcp_root_close_listeners(struct star *t)
{
	for (int i = 0; i < t->nlisteners; i++)
		close(t->listener[i]);
	t->nlisteners = 0;
	acceptor_close(t);
}

void tcp_root_close(struct star *t)
{
	tcp_root_close_listeners(t);
	for (int r = 1; t->conns != NULL && r < t->bootstrap.nranks; r++) {
		if (t->conns[r].fd >= 0)
			close(t->conns[r].fd);
		free(t->conns[r].failed);
	}
	free(t->conns);
	free(t->polls);
	free(t->heard);
}

/* ---------------------------------------------------------------------- gather -- */

/* A rank has failed: makes room for its sentence.  Without memory the sentence is not kept. */
static int root_check_failed(struct star *t, int rank)
{
	struct rank_connection *conn = &t->conns[rank];

	if (conn->head.len >= BOOTSTRAP_TEXT_SIZE)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: its error has no end",
				 rank);
	if (conn->failed == NULL)
		conn->failed = malloc(BOOTSTRAP_TEXT_SIZE);
	return 0;
}

static int root_check_head(struct star *t, int rank, void *out, size_t len)
{
	const struct tcp_frame *head = &t->conns[rank].head;

	if ((head->type != TCP_PIECE && head->type != TCP_FAILED) || head->round != t->round)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: frame %u of round %u "
				 "in round %u",
				 rank, head->type, head->round, t->round);
	if (head->type == TCP_PIECE && out != NULL && head->len != len)
		return error_set(COLL_ERR_MISMATCH,
				 "rank %d exchanges %llu bytes where rank 0 exchanges %zu", rank,
				 (unsigned long long)head->len, len);
	/* Whose patience ends first decides for all: only here is it known who is missing. */
	if (head->timeout_ms != UINT32_MAX && clock_now_ms() + head->timeout_ms < t->deadline) {
		t->deadline = clock_now_ms() + head->timeout_ms;
		t->timeout_ms = head->timeout_ms;
	}
	return head->type == TCP_FAILED ? root_check_failed(t, rank) : 0;
}

/* A rank that has sent its piece has nothing to say before it gets the table. */
static int root_recv_again(struct star *t, int rank)
{
	char byte;
	ssize_t n = socket_read(t->conns[rank].fd, &byte, 1);

	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	if (n > 0)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: it speaks out of turn",
				 rank);
	return 0;
}

static int root_recv_head(struct star *t, int rank, void *out, size_t len)
{
	struct rank_connection *conn = &t->conns[rank];
	ssize_t n = socket_read(conn->fd, (char *)&conn->head + conn->head_got,
				sizeof(conn->head) - conn->head_got);

	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	conn->head_got += (size_t)n;
	return conn->head_got == sizeof(conn->head) ? root_check_head(t, rank, out, len) : 0;
}

/*
 * Reads some of the piece or the sentence of a rank; -1 with errno.  A piece is thrown away where
 * rank 0 itself has failed.
 */
static ssize_t root_recv_body(struct rank_connection *conn, uint8_t *piece)
{
	char thrown_away[4096];
	size_t left = (size_t)conn->head.len - conn->got;

	if (conn->head.type == TCP_FAILED)
		piece = (uint8_t *)conn->failed;
	if (piece != NULL)
		return socket_read(conn->fd, piece + conn->got, left);
	return socket_read(conn->fd, thrown_away,
			   left < sizeof(thrown_away) ? left : sizeof(thrown_away));
}

/* All ranks have been heard: which of their failures is to be told? */
static void root_merge_failures(struct star *t, struct bootstrap_failure *failure)
{
	for (int r = 1; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];
		char failed[32];

		if (!t->heard[r] || conn->head.type != TCP_FAILED)
			continue;
		if (conn->failed != NULL)
			conn->failed[conn->head.len] = '\0';
		snprintf(failed, sizeof(failed), "rank %d failed", r);
		bootstrap_merge_failure(failure, r, conn->head.code,
					conn->failed != NULL ? conn->failed : failed);
		free(conn->failed);
		conn->failed = NULL;
	}
}

/* Reads what rank has sent of its piece; out is NULL if rank 0 itself has failed. */
static int root_recv(struct star *t, int rank, uint8_t *out, size_t len)
{
	struct rank_connection *conn = &t->conns[rank];
	ssize_t n = 0;
	int code = 0;

	if (t->heard[rank])
		return root_recv_again(t, rank);
	if (conn->head_got < sizeof(conn->head))
		code = root_recv_head(t, rank, out, len);
	if (code || conn->head_got < sizeof(conn->head))
		return code;
	if (conn->got < conn->head.len)
		n = root_recv_body(conn, out != NULL ? out + (size_t)rank * len : NULL);
	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	conn->got += (size_t)n;
	if (conn->got == conn->head.len) {
		t->heard[rank] = 1;
		t->missing--;
	}
	return 0;
}

static int64_t root_wake_time(const struct star *t)
{
	int64_t wake = t->deadline;

	if (t->npending > 0 && t->pending[0].since + TCP_PENDING_LIFE_MS < wake)
		wake = t->pending[0].since + TCP_PENDING_LIFE_MS;
	if (t->nlisteners > 0 && t->accept_after > clock_now_ms() && t->accept_after < wake)
		wake = t->accept_after;
	return wake;
}

/* Fills t->polls and waits until something happens. */
static void root_poll(struct star *t)
{
	int n = 0, accepting = clock_now_ms() >= t->accept_after;
	int64_t left;

	for (int i = 0; i < t->nlisteners; i++)
		t->polls[n++] =
			(struct pollfd){.fd = accepting ? t->listener[i] : -1, .events = POLLIN};
	for (int i = 0; i < t->npending; i++)
		t->polls[n++] = (struct pollfd){.fd = t->pending[i].fd, .events = POLLIN};
	for (int r = 1; r < t->bootstrap.nranks; r++)
		t->polls[n++] = (struct pollfd){.fd = t->conns[r].fd, .events = POLLIN};
	left = clock_remaining(bootstrap_look(&t->bootstrap, root_wake_time(t)));
	/* A failed poll (EINTR) is a turn in which nothing has happened. */
	if (poll(t->polls, (nfds_t)n, left > 60000 ? 60000 : (int)left) < 0)
		for (int i = 0; i < n; i++)
			t->polls[i].revents = 0;
}

/* One turn of rank 0's loop. */
static int root_turn(struct star *t, uint8_t *out, size_t len)
{
	int nlisteners = t->nlisteners, npending = t->npending, code;
	int before = nlisteners + npending - 1; /* rank 0 has no entry */

	root_poll(t);
	code = bootstrap_check_aborted(&t->bootstrap);
	for (int r = 1; code == 0 && r < t->bootstrap.nranks; r++)
		if (t->conns[r].fd >= 0 && t->polls[before + r].revents)
			code = root_recv(t, r, out, len);
	/* Backwards, since who is let in or turned away leaves the list. */
	for (int i = npending - 1; code == 0 && i >= 0; i--)
		if (t->polls[nlisteners + i].revents)
			code = acceptor_recv(t, i);
	acceptor_sweep(t);
	for (int i = 0; code == 0 && i < nlisteners; i++)
		if (t->polls[i].revents)
			acceptor_accept(t, t->listener[i]);
	if (code == 0 && t->missing > 0 && clock_now_ms() >= t->deadline)
		code = bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms,
					       t->note);
	return code;
}

static int root_gather(struct star *t, const void *in, uint8_t *out, size_t len)
{
	int code = 0;

	if (out != NULL && len > 0)
		memmove(out, in, len);
	memset(t->heard, 0, (size_t)t->bootstrap.nranks);
	t->heard[0] = 1;
	t->missing = t->bootstrap.nranks - 1;
	for (int r = 1; r < t->bootstrap.nranks; r++)
		t->conns[r].head_got = t->conns[r].got = t->conns[r].sent = 0;
	while (code == 0 && t->missing > 0)
		code = root_turn(t, out, len);
	/* Before anyone gets the table and may come again for another meeting. */
	tcp_root_close_listeners(t);
	return code;
}

/* --------------------------------------------------------------------- scatter -- */

/* Sends on to all that have not got everything; how many those are. */
static int root_send_some(struct star *t, const struct tcp_frame *head, const void *table,
			  int *lost, int *lost_errno)
{
	size_t total = sizeof(*head) + (size_t)head->len;
	int waiting = 0;

	for (int r = 1; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];
		ssize_t n;

		t->polls[r] = (struct pollfd){.fd = -1, .events = POLLOUT};
		if (conn->fd < 0 || conn->sent == total)
			continue;
		n = tcp_write_frame(conn->fd, head, table, conn->sent);
		if (n < 0) {
			*lost = r;
			*lost_errno = errno;
			close(conn->fd);
			conn->fd = -1;
			continue;
		}
		conn->sent += (size_t)n;
		t->heard[r] = conn->sent == total;
		if (conn->sent < total) {
			t->polls[r].fd = conn->fd;
			waiting++;
		}
	}
	return waiting;
}

/* Sends everyone the table, or the failure of a rank. */
static int root_scatter(struct star *t, const void *body, size_t len, int failed)
{
	struct tcp_frame head = {.type = failed ? TCP_FAILED : TCP_TABLE,
				 .round = t->round,
				 .len = len,
				 .code = failed};
	int lost = 0, lost_errno = 0;

	t->polls[0].fd = -1;
	while (root_send_some(t, &head, body, &lost, &lost_errno) > 0) {
		int64_t left = clock_remaining(bootstrap_look(&t->bootstrap, t->deadline));
		int code = bootstrap_check_aborted(&t->bootstrap);

		if (code)
			return code;
		if (clock_remaining(t->deadline) == 0)
			return bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms,
						       "they do not take the others' answers");
		poll(t->polls, (nfds_t)t->bootstrap.nranks, left > 60000 ? 60000 : (int)left);
	}
	return lost ? tcp_lost_error(t, lost, lost_errno) : 0;
}

/*
 * Tells everyone the error of this rank.  The connections stay open until the boot is closed, so
 * that nothing overtakes the sentence.
 */
static void root_send_failure(struct star *t, int code, size_t body_len)
{
	const char *text = error_text();
	size_t len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1);
	struct tcp_frame head = {.type = TCP_FAILURE,
				 .round = t->round,
				 .len = len,
				 .code = bootstrap_remote_code(code)};

	for (int r = 1; r < t->bootstrap.nranks; r++) {
		struct rank_connection *conn = &t->conns[r];
		int midway = conn->sent > 0 && conn->sent < sizeof(head) + body_len;

		/* A kilobyte fits into the socket's buffer, or the rank is not reading. */
		if (conn->fd < 0)
			continue;
		if (midway || tcp_write_frame(conn->fd, &head, text, 0) < (ssize_t)sizeof(head))
			log_debug("rank %d could not be told: %s", r, text);
		shutdown(conn->fd, SHUT_WR);
	}
}

int tcp_root_exchange(struct star *t, const void *in, void *out, size_t len,
		      struct bootstrap_failure *failure, int64_t timeout_ms)
{
	size_t body_len = (size_t)t->bootstrap.nranks * len;
	const void *body = out;
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = clock_deadline(timeout_ms);
	code = root_gather(t, in, failure->code ? NULL : out, len);
	root_merge_failures(t, failure);
	if (failure->code) {
		body = failure->text;
		body_len = strlen(failure->text);
	}
	if (code == 0)
		code = root_scatter(t, body, body_len, failure->code);
	/* A rank may be missing because of the failure that another rank has told of. */
	if (code && failure->code)
		code = error_set(failure->code, "%s", failure->text);
	if (code)
		root_send_failure(t, code, body_len);
	return code;
}
