/* SPDX-License-Identifier: BSD-3-Clause */
/* rendezvous.c - rank 0 in the middle of the star: gathers pieces, hands round the table. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

int tcp_root_init(struct tcp_boot *t)
{
	size_t n = (size_t)t->boot.nranks;

	t->seats = calloc(n, sizeof(*t->seats));
	t->polls = calloc(n + TCP_MAX_STRANGERS + NET_MAX_ADDRS, sizeof(*t->polls));
	t->heard = calloc(n, 1);
	if (t->seats == NULL || t->polls == NULL || t->heard == NULL) {
		free(t->seats);
		t->seats = NULL;
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", t->boot.nranks);
	}
	for (size_t r = 0; r < n; r++)
		t->seats[r].fd = -1;
	return boot_random(t->salt, sizeof(t->salt));
}

void tcp_root_close_listeners(struct tcp_boot *t)
{
	for (int i = 0; i < t->nlisteners; i++)
		close(t->listener[i]);
	t->nlisteners = 0;
	tcp_door_close(t);
}

void tcp_root_close(struct tcp_boot *t)
{
	tcp_root_close_listeners(t);
	for (int r = 1; t->seats != NULL && r < t->boot.nranks; r++)
		if (t->seats[r].fd >= 0)
			close(t->seats[r].fd);
	free(t->seats);
	free(t->polls);
	free(t->heard);
}

/* ---------------------------------------------------------------------- gather -- */

static int root_check_head(struct tcp_boot *t, int rank, size_t len)
{
	const struct tcp_frame *head = &t->seats[rank].head;

	if (head->type != TCP_PIECE || head->round != t->round)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: frame %u of round %u "
				 "in round %u",
				 rank, head->type, head->round, t->round);
	if (head->len != len)
		return error_set(COLL_ERR_MISMATCH,
				 "rank %d exchanges %llu bytes where rank 0 exchanges %zu", rank,
				 (unsigned long long)head->len, len);
	/* Whose patience ends first decides for all: only here is it known who is missing. */
	if (head->timeout_ms != UINT32_MAX && boot_now() + head->timeout_ms < t->deadline) {
		t->deadline = boot_now() + head->timeout_ms;
		t->timeout_ms = head->timeout_ms;
	}
	return 0;
}

/* A rank that has sent its piece has nothing to say before it gets the table. */
static int root_hear_again(struct tcp_boot *t, int rank)
{
	char byte;
	ssize_t n = net_read(t->seats[rank].fd, &byte, 1);

	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	if (n > 0)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: it speaks out of turn",
				 rank);
	return 0;
}

static int root_hear_head(struct tcp_boot *t, int rank, size_t len)
{
	struct tcp_seat *seat = &t->seats[rank];
	ssize_t n = net_read(seat->fd, (char *)&seat->head + seat->head_got,
			     sizeof(seat->head) - seat->head_got);

	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	seat->head_got += (size_t)n;
	return seat->head_got == sizeof(seat->head) ? root_check_head(t, rank, len) : 0;
}

/* Reads what rank has sent of its piece. */
static int root_hear(struct tcp_boot *t, int rank, uint8_t *out, size_t len)
{
	struct tcp_seat *seat = &t->seats[rank];
	ssize_t n = 0;
	int code = 0;

	if (t->heard[rank])
		return root_hear_again(t, rank);
	if (seat->head_got < sizeof(seat->head))
		code = root_hear_head(t, rank, len);
	if (code || seat->head_got < sizeof(seat->head))
		return code;
	if (seat->got < len)
		n = net_read(seat->fd, out + (size_t)rank * len + seat->got, len - seat->got);
	if (n < 0)
		return tcp_lost_error(t, rank, errno);
	seat->got += (size_t)n;
	if (seat->got == len) {
		t->heard[rank] = 1;
		t->missing--;
	}
	return 0;
}

static int64_t root_wake_time(const struct tcp_boot *t)
{
	int64_t wake = t->deadline;

	if (t->nstrangers > 0 && t->strangers[0].since + TCP_STRANGER_LIFE_MS < wake)
		wake = t->strangers[0].since + TCP_STRANGER_LIFE_MS;
	if (t->nlisteners > 0 && t->accept_after > boot_now() && t->accept_after < wake)
		wake = t->accept_after;
	return wake;
}

/* Fills t->polls and waits until something happens. */
static void root_poll(struct tcp_boot *t)
{
	int n = 0, accepting = boot_now() >= t->accept_after;
	int64_t left;

	for (int i = 0; i < t->nlisteners; i++)
		t->polls[n++] =
			(struct pollfd){.fd = accepting ? t->listener[i] : -1, .events = POLLIN};
	for (int i = 0; i < t->nstrangers; i++)
		t->polls[n++] = (struct pollfd){.fd = t->strangers[i].fd, .events = POLLIN};
	for (int r = 1; r < t->boot.nranks; r++)
		t->polls[n++] = (struct pollfd){.fd = t->seats[r].fd, .events = POLLIN};
	left = boot_remaining(boot_look(&t->boot, root_wake_time(t)));
	/* A failed poll (EINTR) is a turn in which nothing has happened. */
	if (poll(t->polls, (nfds_t)n, left > 60000 ? 60000 : (int)left) < 0)
		for (int i = 0; i < n; i++)
			t->polls[i].revents = 0;
}

/* One turn of rank 0's loop. */
static int root_turn(struct tcp_boot *t, uint8_t *out, size_t len)
{
	int nlisteners = t->nlisteners, nstrangers = t->nstrangers, code;
	int before = nlisteners + nstrangers - 1; /* rank 0 has no entry */

	root_poll(t);
	code = boot_check_aborted(&t->boot);
	for (int r = 1; code == 0 && r < t->boot.nranks; r++)
		if (t->seats[r].fd >= 0 && t->polls[before + r].revents)
			code = root_hear(t, r, out, len);
	/* Backwards, since who is let in or turned away leaves the list. */
	for (int i = nstrangers - 1; code == 0 && i >= 0; i--)
		if (t->polls[nlisteners + i].revents)
			code = tcp_door_hear(t, i);
	tcp_door_sweep(t);
	for (int i = 0; code == 0 && i < nlisteners; i++)
		if (t->polls[i].revents)
			tcp_door_accept(t, t->listener[i]);
	if (code == 0 && t->missing > 0 && boot_now() >= t->deadline)
		code = boot_timeout_error(t->heard, t->boot.nranks, t->timeout_ms, t->note);
	return code;
}

static int root_gather(struct tcp_boot *t, const void *in, uint8_t *out, size_t len)
{
	int code = 0;

	if (len > 0)
		memmove(out, in, len);
	memset(t->heard, 0, (size_t)t->boot.nranks);
	t->heard[0] = 1;
	t->missing = t->boot.nranks - 1;
	for (int r = 1; r < t->boot.nranks; r++)
		t->seats[r].head_got = t->seats[r].got = t->seats[r].sent = 0;
	while (code == 0 && t->missing > 0)
		code = root_turn(t, out, len);
	/* Before anyone gets the table and may come again for another meeting. */
	tcp_root_close_listeners(t);
	return code;
}

/* --------------------------------------------------------------------- scatter -- */

/* Sends on to all that have not got everything; how many those are. */
static int root_send_some(struct tcp_boot *t, const struct tcp_frame *head, const void *table,
			  int *lost, int *lost_errno)
{
	size_t total = sizeof(*head) + (size_t)head->len;
	int waiting = 0;

	for (int r = 1; r < t->boot.nranks; r++) {
		struct tcp_seat *seat = &t->seats[r];
		ssize_t n;

		t->polls[r] = (struct pollfd){.fd = -1, .events = POLLOUT};
		if (seat->fd < 0 || seat->sent == total)
			continue;
		n = tcp_write_frame(seat->fd, head, table, seat->sent);
		if (n < 0) {
			*lost = r;
			*lost_errno = errno;
			close(seat->fd);
			seat->fd = -1;
			continue;
		}
		seat->sent += (size_t)n;
		t->heard[r] = seat->sent == total;
		if (seat->sent < total) {
			t->polls[r].fd = seat->fd;
			waiting++;
		}
	}
	return waiting;
}

static int root_scatter(struct tcp_boot *t, const void *table, size_t len)
{
	struct tcp_frame head = {
		.type = TCP_TABLE, .round = t->round, .len = (uint64_t)t->boot.nranks * len};
	int lost = 0, lost_errno = 0;

	t->polls[0].fd = -1;
	while (root_send_some(t, &head, table, &lost, &lost_errno) > 0) {
		int64_t left = boot_remaining(boot_look(&t->boot, t->deadline));
		int code = boot_check_aborted(&t->boot);

		if (code)
			return code;
		if (boot_remaining(t->deadline) == 0)
			return boot_timeout_error(t->heard, t->boot.nranks, t->timeout_ms,
						  "they do not take the others' answers");
		poll(t->polls, (nfds_t)t->boot.nranks, left > 60000 ? 60000 : (int)left);
	}
	return lost ? tcp_lost_error(t, lost, lost_errno) : 0;
}

/*
 * Tells everyone the error of this rank.  The connections stay open until the boot is closed, so
 * that nothing overtakes the sentence.
 */
static void root_tell_failure(struct tcp_boot *t, int code, size_t table_len)
{
	const char *text = error_text();
	size_t len = strnlen(text, BOOT_TEXT_SIZE - 1);
	struct tcp_frame head = {
		.type = TCP_FAILURE, .round = t->round, .len = len, .code = boot_remote_code(code)};

	for (int r = 1; r < t->boot.nranks; r++) {
		struct tcp_seat *seat = &t->seats[r];
		int midway = seat->sent > 0 && seat->sent < sizeof(head) + table_len;

		/* A kilobyte fits into the socket's buffer, or the rank is not reading. */
		if (seat->fd < 0)
			continue;
		if (midway || tcp_write_frame(seat->fd, &head, text, 0) < (ssize_t)sizeof(head))
			log_debug("rank %d could not be told: %s", r, text);
		shutdown(seat->fd, SHUT_WR);
	}
}

int tcp_root_exchange(struct tcp_boot *t, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = boot_deadline(timeout_ms);
	code = root_gather(t, in, out, len);
	if (code == 0)
		code = root_scatter(t, out, len);
	if (code)
		root_tell_failure(t, code, (size_t)t->boot.nranks * len);
	return code;
}
