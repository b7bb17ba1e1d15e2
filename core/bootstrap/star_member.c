/* SPDX-License-Identifier: BSD-3-Clause */
/* star_member.c - connects a member to rank 0; the member's half of an exchange. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "bootstrap/star.h"

/* ------------------------------------------------------------------ connecting -- */

static int member_not_connected(const struct star *t, int code)
{
	return error_set(code, "rank %d cannot meet rank 0: %s%s", t->bootstrap.rank, error_text(),
			 code == COLL_ERR_PEER_LOST
				 ? " (rank 0 has ended, all its ranks are there already, or the "
				   "job has already failed: read the messages of the other ranks)"
				 : "");
}

static int member_dial(struct star *t, struct dial *dial, int64_t deadline, int64_t timeout_ms)
{
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set = {.fds = fds, .capacity = ADDRESS_MAX};
	char seconds[24];
	int code = dial_begin(dial);

	while (code == 0 && dial->fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code)
			return code;
		poll_set_begin(&set, bootstrap_look(&t->bootstrap, deadline));
		code = dial_prepare(dial, &set);
		if (code == 0) {
			poll_set_wait(&set);
			code = dial_advance(dial, &set);
		}
		if (code == 0 && dial->fd < 0 && clock_remaining(deadline) == 0)
			return error_set(
				COLL_ERR_TIMEOUT,
				"timed out: rank 0 of %d has not been heard from after %s s; %s "
				"(rank 0 has not started yet, or the job has already "
				"failed: read the messages of the other ranks)",
				t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds),
				dial->note);
	}
	return code ? member_not_connected(t, code) : 0;
}

int star_connect(struct star *t, const struct address_list *addresses, int retry, int64_t deadline,
		 int64_t timeout_ms)
{
	struct dial dial = {
		.hs = &t->handshake, .addresses = *addresses, .named = retry, .retry = retry};
	int code = member_dial(t, &dial, deadline, timeout_ms);

	dial_end(&dial);
	t->fd = dial.fd;
	if (code)
		return code;
	memcpy(t->root_address, dial.text, sizeof(dial.text));
	star_derive_key(t, dial.salt);
	return 0;
}

/* ------------------------------------------------------------------- exchanging -- */

static int member_timeout(const struct star *t, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out: rank 0 of %d has not been heard from after %s s (rank 0 would know "
		"which other ranks are missing)",
		t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds));
}

/* Waits until the connection to rank 0 is ready; *events: the events that poll found. */
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
 * Sends the piece, or the failure of this rank; ends early without error if rank 0 has sent
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

	while (sent < sizeof(head) + len) {
		int events;
		int ended = member_poll(t, POLLIN | POLLOUT, deadline, timeout_ms, &events);
		ssize_t n;

		if (ended)
			return ended;
		if (events & POLLIN)
			return 0;
		n = star_write_frame(t->fd, &head, in, sent);
		/* No error yet: rank 0's last message, which is still unread, has the reason. */
		if (n < 0)
			return 0;
		sent += (size_t)n;
	}
	return 0;
}

static int member_read(struct star *t, void *buf, size_t len, int64_t deadline, int64_t timeout_ms)
{
	size_t got = 0;

	while (got < len) {
		int events;
		int code = member_poll(t, POLLIN, deadline, timeout_ms, &events);
		ssize_t n;

		if (code)
			return code;
		n = socket_read(t->fd, (char *)buf + got, len - got);
		if (n < 0)
			return star_lost_error(t, 0, errno);
		got += (size_t)n;
	}
	return 0;
}

/* Rank 0 has sent a failure in place of the table. */
static int member_failure(struct star *t, const struct star_frame *head,
			  struct bootstrap_failure *failure, int64_t deadline, int64_t timeout_ms)
{
	int code;

	if (head->len >= sizeof(failure->text))
		return error_set(COLL_ERR_INTERNAL, "rank 0 broke the bootstrap's protocol: its "
						    "error has no end");
	code = member_read(t, failure->text, (size_t)head->len, deadline, timeout_ms);
	if (code)
		return code;
	failure->text[head->len] = '\0';
	failure->code = head->code > 0 ? head->code : COLL_ERR_REMOTE;
	return head->type == STAR_FAILED ? COLL_SUCCESS
					 : error_set(failure->code, "%s", failure->text);
}

static int member_run_round(struct star *t, const void *in, void *out, size_t len,
			    struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms) + STAR_GRACE_MS;
	size_t total = (size_t)t->bootstrap.nranks * len;
	struct star_frame head;
	int code;

	t->round++;
	if (failure->code)
		code = member_send(t, failure->text, strlen(failure->text), failure->code,
				   timeout_ms);
	else
		code = member_send(t, in, len, COLL_SUCCESS, timeout_ms);
	if (code == 0)
		code = member_read(t, &head, sizeof(head), deadline, timeout_ms);
	if (code)
		return code;
	if (head.type == STAR_FAILURE || (head.type == STAR_FAILED && head.round == t->round))
		return member_failure(t, &head, failure, deadline, timeout_ms);
	if (head.type != STAR_TABLE || head.round != t->round || head.len != total)
		return error_set(COLL_ERR_INTERNAL,
				 "rank 0 broke the bootstrap's protocol: frame %u of round %u, "
				 "%llu bytes, where the table of round %u, %zu bytes, was expected",
				 head.type, head.round, (unsigned long long)head.len, t->round,
				 total);
	return member_read(t, out, total, deadline, timeout_ms);
}

int star_member_exchange(struct star *t, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int code = member_run_round(t, in, out, len, failure, timeout_ms);

	/* Rank 0 learns of the failure at once, and all other ranks through rank 0. */
	if (code)
		shutdown(t->fd, SHUT_RDWR);
	return code;
}
