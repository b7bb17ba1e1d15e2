/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_io.c - receives messages, makes progress, prepares sleep, and reports lost peers. */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TCP_EVENTS = 64 };

const char *tcp_why(int error)
{
	switch (error) {
	case TCP_CLOSED: return "connection closed";
	case TCP_BAD_POSITION: return "it wrote an invalid position into the shared memory";
	case ENOTCONN: return "all paths of the connection have failed (option tcp.multipath)";
	default: return strerror(error);
	}
}

void tcp_lose(struct tcp *t, struct tcp_conn *conn, const char *why)
{
	CANCEL_OFF;
	const coll_host_t *host = t->host;

	tcp_lend_complete(t, conn);
	t->failing -= conn->send_errno != 0;
	t->write_watches -= (conn->events & EPOLLOUT) != 0;
	t->moved = 1;
	conn->lost = 1;
	conn->send_errno = 0;
	conn->events = 0;
	if (conn->fd >= 0) {
		/* A forked child may hold the socket too: then close() alone would not end the stream. */
		epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
		shutdown(conn->fd, SHUT_RDWR);
		close(conn->fd);
	}
	conn->fd = -1;
	tcp_ring_free(t, conn);
	if (conn->receiving && !conn->dropped)
		host->arrived(host, conn->sink.cookie, COLL_ERR_PEER_LOST);
	conn->receiving = 0;
	tcp_fail_sends(t, conn, COLL_ERR_PEER_LOST);
	host->peer_lost(host, conn->peer, why);
}

/* Loses the peer, since the stream has failed or ended.  error: 0 for the end. */
static void tcp_end(struct tcp *t, struct tcp_conn *conn, int error)
{
	const char *closed =
		tcp_records_cut(conn)
			? "its stream was cut off within a record (option tcp.security)"
			: "connection closed";

	tcp_lose(t, conn, error ? tcp_why(error) : closed);
}

/* ------------------------------------------------------------------ receiving -- */

size_t tcp_recvmsg(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	const struct iovec *one = NULL;
	int tries = 0, cancels;
	ssize_t n;

	if (t->ring_size && !conn->inet) {
		msg->msg_control = control.bytes;
		msg->msg_controllen = CMSG_LEN(sizeof(int)); /* one descriptor */
	} else if (msg->msg_iovlen == 1) {
		one = msg->msg_iov;
	}
	cancels = cancel_disable();
	do { /* one piece of memory needs no list */
		n = one ? recv(conn->fd, one->iov_base, one->iov_len, MSG_DONTWAIT)
			: recvmsg(conn->fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (interrupted(n, &tries));
	cancel_restore(cancels);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		/* The peer's last bytes are in the ring, not in the socket. */
		if (conn->in_on)
			tcp_break(t, conn, n ? errno : TCP_CLOSED);
		else
			tcp_end(t, conn, n ? errno : 0);
		return 0;
	}
	if (msg->msg_control && tcp_ring_take(t, conn, msg, (size_t)n))
		return 0;
	tcp_spend(t, (size_t)n);
	return (size_t)n;
}

void tcp_delivered(struct tcp *t, struct tcp_conn *conn, size_t n)
{
	conn->got += n;
	if (conn->got < conn->len)
		return;
	conn->receiving = 0;
	conn->tells = conn->len >= TCP_LENT_BESIDE && tcp_memory_any();
	if (!conn->dropped)
		t->host->arrived(t->host, conn->sink.cookie, COLL_SUCCESS);
}

void tcp_drop(void *ep, uint64_t cookie)
{
	struct tcp *t = ep;

	for (uint32_t i = 0; i < t->nranks; i++) {
		struct tcp_conn *conn = &t->conn[i];

		if (!conn->receiving || conn->sink.cookie != cookie)
			continue;
		conn->sink.buf = NULL;
		conn->dropped = 1;
	}
}

/* Handles a frame; returns as tcp_take_header.  After a switch the remaining bytes have only woken this rank. */
static ssize_t tcp_take_frame(struct tcp *t, struct tcp_conn *conn, const coll_header_t *frame,
			      size_t take, size_t n)
{
	int kind = tcp_ring_frame(t, conn, frame);

	if (kind >= 0)
		return (ssize_t)(kind ? n : take);
	tcp_lose(t, conn, "it sent an invalid message");
	return -1;
}

/* Counts a message of the peer.  The second message brings the peer a ring. */
static void tcp_note_message(struct tcp *t, struct tcp_conn *conn)
{
	if (!conn->offered && conn->has_sent && t->ring_size && !conn->inet && conn->fd >= 0)
		tcp_ring_offer(t, conn);
	conn->has_sent = 1;
}

int tcp_refused(struct tcp *t, struct tcp_conn *conn)
{
	tcp_lose(t, conn, "it sent an invalid message");
	return -1;
}

int tcp_begin(struct tcp *t, struct tcp_conn *conn, const coll_header_t *header)
{
	tcp_note_message(t, conn);
	memset(&conn->sink, 0, sizeof(conn->sink));
	if (t->host->arrive(t->host, conn->peer, header, &conn->sink))
		return tcp_refused(t, conn);
	conn->receiving = 1;
	conn->dropped = 0;
	conn->got = 0;
	conn->len = header->len;
	if (header->len >= TCP_LENT_BESIDE && tcp_memory_any())
		tcp_lend_see(t);
	return 0;
}

/*
 * Adds bytes to the header.  A complete header begins the message.  Returns the number of bytes used, or
 * -1 if the peer was lost.
 */
static ssize_t tcp_take_header(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n)
{
	size_t take = tcp_min(n, sizeof(conn->header) - conn->header_got);
	coll_header_t header;

	if (take == sizeof(header)) {
		memcpy(&header, bytes, sizeof(header));
	} else {
		memcpy(conn->header + conn->header_got, bytes, take);
		conn->header_got += (uint32_t)take;
		if (conn->header_got < sizeof(conn->header))
			return (ssize_t)take;
		memcpy(&header, conn->header, sizeof(header));
		conn->header_got = 0;
	}
	if (header.len == TCP_FRAME)
		return tcp_take_frame(t, conn, &header, take, n);
	if (tcp_begin(t, conn, &header))
		return -1;
	if (!header.len)
		tcp_delivered(t, conn, 0);
	return (ssize_t)take;
}

void tcp_hand_payload(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n)
{
	if (conn->sink.buf && conn->len >= TCP_PAST)
		tcp_copy_past((uint8_t *)conn->sink.buf + conn->got, bytes, n);
	else if (conn->sink.buf)
		copy_payload((uint8_t *)conn->sink.buf + conn->got, bytes, n);
	else if (!conn->dropped)
		t->host->data(t->host, conn->sink.cookie, bytes, (uint64_t)n);
}

static void tcp_take_payload(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n)
{
	tcp_hand_payload(t, conn, bytes, n);
	tcp_delivered(t, conn, n);
}

int tcp_feed_message(struct tcp *t, struct tcp_conn *conn, const coll_header_t *header,
		     const uint8_t *payload)
{
	if (t->message) {
		tcp_note_message(t, conn);
		return tcp_hand_message(t, conn, header, payload);
	}
	if (tcp_begin(t, conn, header))
		return -1;
	if (header->len)
		tcp_take_payload(t, conn, payload, (size_t)header->len);
	else
		tcp_delivered(t, conn, 0);
	return 0;
}

/*
 * Takes a message that lies whole at the beginning of n bytes between two messages.  Returns the number of its bytes, 0 if
 * there is no whole message, or -1 if it had to close the connection.
 */
static ssize_t tcp_take_message(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes,
				size_t n)
{
	coll_header_t header;

	if (!t->message || conn->header_got || n < sizeof(header))
		return 0;
	memcpy(&header, bytes,
	       sizeof(header)); /* read once: a peer may change the bytes of a ring */
	if (header.len > n - sizeof(header))
		return 0;
	if (tcp_feed_message(t, conn, &header, bytes + sizeof(header)))
		return -1;
	return (ssize_t)(sizeof(header) + header.len);
}

int tcp_feed(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n)
{
	while (n) {
		ssize_t used;

		if (!conn->receiving) {
			used = tcp_take_message(t, conn, bytes, n);
			if (!used)
				used = tcp_take_header(t, conn, bytes, n);
			if (used < 0)
				return -1;
		} else {
			used = (ssize_t)tcp_min(tcp_min(n, TCP_SCRATCH), conn->len - conn->got);
			tcp_take_payload(t, conn, bytes, (size_t)used);
		}
		bytes += used;
		n -= (size_t)used;
	}
	return 0;
}

/*
 * Calls recvmsg() once.  The payload of a message goes straight into its receive buffer, all other bytes to the scratch
 * memory.  Returns 1 if the kernel filled both, so that more bytes may be waiting.
 */
static int tcp_pull(struct tcp *t, struct tcp_conn *conn)
{
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};
	uint64_t left = conn->receiving ? conn->len - conn->got : 0;
	size_t direct = conn->receiving && conn->sink.buf ? tcp_min(left, TCP_PIECE) : 0;
	size_t extra = left == direct ? TCP_FIRST : direct ? 0 : TCP_SCRATCH;
	size_t n;

	if (conn->in_on)
		return tcp_ring_pull(t, conn);
	if (conn->records)
		return tcp_records_pull(t, conn);
	if (direct)
		iov[msg.msg_iovlen++] =
			(struct iovec){(uint8_t *)conn->sink.buf + conn->got, direct};
	if (extra)
		iov[msg.msg_iovlen++] = (struct iovec){t->scratch, extra};
	n = tcp_recvmsg(t, conn, &msg);
	if (!n)
		return 0;
	if (direct)
		tcp_delivered(t, conn, tcp_min(n, direct));
	if (n > direct && tcp_feed(t, conn, t->scratch, n - direct))
		return 0;
	return n == direct + extra;
}

/* Receives from one peer, at most its share of the budget. */
static void tcp_receive(struct tcp *t, struct tcp_conn *conn)
{
	size_t begin = t->budget;

	if (conn->fd < 0)
		return;
	while (tcp_pull(t, conn) && t->budget && begin - t->budget < TCP_PIECE)
		;
}

/* Reads the socket of a connection: its stream, or the bytes that wake this rank. */
static void tcp_receive_socket(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->in_on && conn->fd >= 0)
		tcp_ring_drain(t, conn);
	else
		tcp_receive(t, conn);
}

static void tcp_receive_sockets(struct tcp *t)
{
	struct epoll_event events[TCP_EVENTS];
	int n, cancels;

	if (t->nranks <= TCP_DIRECT + 1 && !t->paths.count) {
		for (uint32_t i = 0; i < t->nranks && t->budget; i++)
			tcp_receive_socket(t, &t->conn[i]);
		return;
	}
	cancels = cancel_disable();
	n = epoll_wait(t->epoll_fd, events, TCP_EVENTS, 0);
	cancel_restore(cancels);
	/* A peer beyond the budget stays ready; epoll returns it first next time. */
	for (int i = 0; i < n && t->budget; i++)
		if (events[i].data.u32 == t->nranks)
			tcp_paths_turn_away(t);
		else
			tcp_receive_socket(t, &t->conn[events[i].data.u32]);
}

/* Looks at the sockets, and sets when the next look is due: in the next call, unless rings carry streams. */
static __attribute__((noinline)) void tcp_look_at_sockets(struct tcp *t)
{
	const int only_wake = t->rings && t->rings + 1 == t->nranks;

	t->polls_left = only_wake ? TCP_RING_POLLS : t->rings ? TCP_MIXED_POLLS : 0;
	t->put_off = only_wake ? TCP_RING_PUT_OFF : 0;
	tcp_receive_sockets(t);
	if (t->armed)
		tcp_ring_disarm(t);
	if (t->lends) {
		tcp_lend_look(t);
		tcp_borrow_look(t);
	}
}

/* ------------------------------------------------------------------- progress -- */

/* Moves the messages to the own rank, which pass the same functions as all others, but not the kernel. */
static void tcp_loop_back(struct tcp *t)
{
	struct tcp_conn *conn = &t->conn[t->rank];
	struct iovec iov[2 * TCP_GATHER + 1];
	size_t bytes;
	int n;

	while (tcp_has_work(conn) && t->budget) {
		bytes = tcp_gather(conn, iov, &n);
		for (int i = 0; i < n; i++)
			if (tcp_feed(t, conn, iov[i].iov_base, iov[i].iov_len))
				return;
		tcp_advance(t, conn, bytes);
		tcp_spend(t, bytes);
	}
}

void tcp_send_all(struct tcp *t)
{
	t->next_peer = t->next_peer + 1 < t->nranks ? t->next_peer + 1 : 0;
	for (uint32_t i = 0; i < t->nranks && t->sending && t->budget; i++) {
		struct tcp_conn *conn = &t->conn[(t->next_peer + i) % t->nranks];
		size_t begin = t->budget;

		if (conn->fd < 0 || !tcp_has_work(conn) || conn->send_errno)
			continue;
		while (tcp_push(t, conn) && tcp_has_work(conn) && t->budget &&
		       begin - t->budget < TCP_PIECE)
			;
	}
}

/*
 * Reports the peers to which sending failed, each after its last bytes were read.  Peers beyond the budget follow in the
 * next progress().
 */
static __attribute__((noinline)) void tcp_reap_failed(struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks && t->failing && t->budget; i++) {
		struct tcp_conn *conn = &t->conn[i];
		size_t begin = t->budget;

		if (!conn->send_errno)
			continue;
		tcp_receive(t, conn);
		if (conn->send_errno && t->budget == begin)
			tcp_lose(t, conn, tcp_why(conn->send_errno));
	}
}

/* The part of progress() that most calls do not need. */
static __attribute__((noinline)) void tcp_progress_rest(struct tcp *t)
{
	if (t->lending)
		tcp_lend_reap(t);
	if (t->sending)
		tcp_send_all(t);
	if (tcp_has_work(t->own))
		tcp_loop_back(t);
	if (t->blocked || t->blocked_polls)
		tcp_ring_patience(t);
}

/*
 * Puts off the look at the sockets: it is a system call, which costs as much as two short messages, and a rank that
 * receives messages does not wait for a lost peer.
 */
static inline void tcp_put_off_look(struct tcp *t)
{
	const uint32_t polls = TCP_RING_POLLS - t->polls_left;

	t->put_off -= (uint32_t)tcp_min(polls, t->put_off);
	if (t->put_off)
		t->polls_left = TCP_RING_POLLS;
}

int32_t tcp_progress(void *ep)
{
	struct tcp *t = ep;

	t->budget = TCP_BUDGET;
	t->moved = 0;
	if (t->failing)
		tcp_reap_failed(t);
	if (t->polls_left-- <= 1)
		tcp_look_at_sockets(t);
	tcp_ring_pull_all(t);
	if (t->moved && t->put_off)
		tcp_put_off_look(t);
	if (t->sending || t->lending || t->blocked || t->blocked_polls || tcp_has_work(t->own))
		tcp_progress_rest(t);
	return t->moved;
}

/* ------------------------------------------------------------------- sleeping -- */

int32_t tcp_wait_fd(void *ep)
{
	struct tcp *t = ep;

	return t->epoll_fd;
}

int32_t tcp_arm(void *ep)
{
	struct tcp *t = ep;

	if (t->failing || tcp_has_work(&t->conn[t->rank]))
		return 1;
	for (uint32_t i = 0; i < t->nranks && (t->sending || t->write_watches || t->lending); i++) {
		struct tcp_conn *conn = &t->conn[i];
		struct epoll_event event = {.data.u32 = i};
		int waiting = tcp_has_work(conn);

		if (waiting && conn->out_on && tcp_ring_arm_space(t, conn))
			return 1;
		if (conn->lent.first && conn->out_on && tcp_lend_arm(t, conn))
			return 1;
		event.events = EPOLLIN | (waiting && !conn->out_on ? EPOLLOUT : 0);
		if (conn->fd < 0 || event.events == conn->events)
			continue;
		if (epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event))
			return 1;
		t->write_watches += event.events & EPOLLOUT ? 1 : -1;
		conn->events = event.events;
	}
	return tcp_ring_arm(t);
}
