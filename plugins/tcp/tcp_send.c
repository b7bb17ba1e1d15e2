/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_send.c - queues the messages of each connection and sends them. */
#include "tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum {
	TCP_FLAGS = MSG_NOSIGNAL | MSG_DONTWAIT,
	TCP_FLAT = 1024 /* most bytes to copy together rather than pass to the kernel in pieces */
};

/* Bytes of the message in the stream. */
static uint64_t tcp_size(const coll_send_t *send)
{
	return tcp_is_lent(send) ? TCP_LENT_BYTES : sizeof(send->header) + send->header.len;
}

static void tcp_enqueue(struct tcp *t, struct tcp_conn *conn, coll_send_t *send)
{
	t->sending += conn->peer != t->rank && !tcp_has_work(conn);
	send_queue_append(&conn->queue, send);
}

/* Ends the first send with `status`.  From then on the core may reuse its memory. */
static void tcp_finish_first(struct tcp_conn *conn, int32_t status)
{
	coll_send_t *send = send_queue_take(&conn->queue);

	conn->done = 0;
	send->status = status;
}

void tcp_advance(struct tcp *t, struct tcp_conn *conn, uint64_t n)
{
	if (conn->rest.bytes) {
		uint64_t part = tcp_min(n, conn->rest.size - conn->rest.done);

		conn->rest.done += part;
		n -= part;
		if (conn->rest.done == conn->rest.size)
			send_rest_free(&conn->rest, t->host);
	}
	conn->done += n;
	while (conn->queue.first && conn->done >= tcp_size(conn->queue.first)) {
		uint64_t over = conn->done - tcp_size(conn->queue.first);

		if (tcp_is_lent(conn->queue.first))
			tcp_lend_await(t, conn, send_queue_take(&conn->queue),
				       conn->out.own - over);
		else
			tcp_finish_first(conn, COLL_SUCCESS);
		conn->done = over;
	}
}

/* Adds one piece of memory to iov, without its first *skip bytes, at most `limit` bytes.  Returns the bytes added. */
static size_t tcp_gather_one(struct iovec *iov, int *n, const void *base, uint64_t size,
			     uint64_t *skip, size_t limit)
{
	uint64_t skipped = *skip < size ? *skip : size;
	size_t take = tcp_min(size - skipped, limit);

	*skip -= skipped;
	if (!take)
		return 0;
	iov[*n].iov_base = (uint8_t *)(uintptr_t)base + skipped;
	iov[*n].iov_len = take;
	++*n;
	return take;
}

/* Adds a message, as tcp_gather_one. */
static size_t tcp_gather_message(struct iovec *iov, int *n, const coll_send_t *send, uint64_t *skip,
				 size_t limit)
{
	size_t bytes = 0;

	if (tcp_is_lent(send))
		bytes = tcp_gather_one(iov, n, &send->plugin[TCP_SEND_FRAME], sizeof(coll_header_t),
				       skip, limit);
	bytes += tcp_gather_one(iov, n, &send->header, sizeof(send->header), skip, limit - bytes);
	if (!tcp_is_lent(send))
		bytes += tcp_gather_one(iov, n, send->buf, send->header.len, skip, limit - bytes);
	return bytes;
}

size_t tcp_gather(const struct tcp_conn *conn, struct iovec iov[2 * TCP_GATHER + 1], int *n)
{
	uint64_t skip = conn->rest.done;
	size_t bytes = 0;
	int messages = 0;

	*n = 0;
	if (conn->rest.bytes)
		bytes = tcp_gather_one(iov, n, conn->rest.bytes, conn->rest.size, &skip, TCP_PIECE);
	skip = conn->done;
	for (const coll_send_t *send = conn->queue.first;
	     send && messages < TCP_GATHER && bytes < TCP_PIECE; messages++) {
		bytes += tcp_gather_message(iov, n, send, &skip, TCP_PIECE - bytes);
		send = send_queue_next(send);
	}
	return bytes;
}

void tcp_fail_sends(struct tcp *t, struct tcp_conn *conn, int32_t status)
{
	t->sending -= conn->peer != t->rank && tcp_has_work(conn);
	send_rest_free(&conn->rest, t->host);
	conn->sealed = 0;
	while (conn->queue.first)
		tcp_finish_first(conn, status);
	while (conn->lent.first)
		send_queue_take(&conn->lent)->status = status;
}

/* -------------------------------------------------------------------- sending -- */

size_t tcp_sendmsg(struct tcp *t, struct tcp_conn *conn, const struct msghdr *msg)
{
	const struct iovec *one = msg->msg_iovlen == 1 && !msg->msg_control ? msg->msg_iov : NULL;
	int tries = 0, cancels;
	ssize_t sent;

	if (conn->out_on)
		return tcp_ring_write(t, conn, msg);
	cancels = cancel_disable();
	do { /* one piece of memory needs no list */
		sent = one ? send(conn->fd, one->iov_base, one->iov_len, TCP_FLAGS)
			   : sendmsg(conn->fd, msg, TCP_FLAGS);
	} while (interrupted(sent, &tries));
	cancel_restore(cancels);
	if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
		tcp_break(t, conn, errno);
	if (sent <= 0)
		return 0;
	tcp_spend(t, (size_t)sent);
	return (size_t)sent;
}

/* Copies a header and a short payload to one piece of memory. */
static int tcp_flatten(struct iovec *iov, int n, uint8_t *flat)
{
	size_t at = 0;

	for (int i = 0; i < n; at += iov[i++].iov_len)
		memcpy(flat + at, iov[i].iov_base, iov[i].iov_len);
	iov[0] = (struct iovec){flat, at};
	return 1;
}

int tcp_push(struct tcp *t, struct tcp_conn *conn)
{
	struct iovec iov[2 * TCP_GATHER + 1];
	struct msghdr msg = {.msg_iov = iov};
	uint8_t flat[TCP_FLAT];
	size_t offered, sent;
	int n;

	if (conn->records)
		return tcp_records_push(t, conn);
	if (conn->offering || (conn->out.control && !conn->out_on))
		tcp_ring_settle(t, conn);
	offered = tcp_gather(conn, iov, &n);
	if (n > 1 && offered <= sizeof(flat) && !conn->out_on)
		n = tcp_flatten(iov, n, flat);
	msg.msg_iovlen = (size_t)n;
	sent = tcp_sendmsg(t, conn, &msg);
	if (!sent)
		return 0;
	tcp_advance(t, conn, sent);
	t->sending -= !tcp_has_work(conn);
	return sent == offered;
}

static void tcp_defer(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->is_deferred)
		return;
	conn->is_deferred = 1;
	conn->next_deferred = t->deferred;
	t->deferred = conn;
}

int32_t tcp_start(struct tcp *t, coll_send_t *send, int more, coll_error_t *err)
{
	struct tcp_conn *conn;
	int idle;

	if (send->peer >= t->nranks)
		return error_fill(err, COLL_ERR_INTERNAL,
				  "a message for rank %u, but the communicator has %u ranks",
				  send->peer, t->nranks);
	conn = &t->conn[send->peer];
	if (conn->lost)
		return error_fill(err, COLL_ERR_PEER_LOST,
				  "the connection to rank %u has been lost", send->peer);
	idle = !tcp_has_work(conn) || conn->deferred;
	if (send->header.len >= TCP_LENT_TURNS && conn->out_on && !conn->send_errno &&
	    (tcp_memory_any() || (t->turns && send->header.len >= TCP_BOUNCE_LEAST)))
		tcp_lend(t, conn, send);
	tcp_enqueue(t, conn, send);
	if (!idle || conn->send_errno || send->peer == t->rank)
		return COLL_SUCCESS;
	conn->deferred += tcp_size(send);
	if (more && conn->deferred <= TCP_DEFERRED) {
		tcp_defer(t, conn);
		return COLL_SUCCESS;
	}
	conn->deferred = 0;
	tcp_push(t, conn);
	return COLL_SUCCESS;
}

int32_t tcp_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct tcp *t = ep;
	struct tcp_conn *conn = &t->conn[send->peer < t->nranks ? send->peer : t->rank];

	/* A lost connection has no ring, and a connection with a ring has no records. */
	if (conn->out_on && !tcp_has_work(conn) && !(conn->offering | conn->send_errno))
		return tcp_ring_send(t, conn, send, err);
	return tcp_start(t, send, 0, err);
}

int32_t tcp_send_more(void *ep, coll_send_t *send, coll_error_t *err)
{
	return tcp_start(ep, send, 1, err);
}

void tcp_flush_deferred(void *ep)
{
	struct tcp *t = ep;

	for (struct tcp_conn *conn; (conn = t->deferred);) {
		t->deferred = conn->next_deferred;
		conn->is_deferred = 0;
		if (conn->deferred && tcp_has_work(conn) && !conn->send_errno)
			tcp_push(t, conn);
		conn->deferred = 0;
	}
}

/* -------------------------------------------------------------------- cancelling -- */

/* Copies the rest of the first message: the peer has its beginning and must get the whole. */
static void tcp_keep_rest(struct tcp *t, struct tcp_conn *conn)
{
	coll_send_t *send = conn->queue.first;
	uint64_t skip = conn->done, size = tcp_size(send) - skip;
	struct iovec iov[2];
	uint8_t *to = send_rest_new(&conn->rest, t->host, size);
	int n = 0;

	if (!to) {
		/* Without the rest the peer could not find the next header in the stream. */
		tcp_break(t, conn, ENOMEM);
		return;
	}
	tcp_gather_message(iov, &n, send, &skip, SIZE_MAX);
	if (tcp_is_lent(send))
		tcp_lend_note(conn, send, conn->out.own + size);
	for (int i = 0; i < n; i++) {
		memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
}

/* Takes the message out of the queue. */
static void tcp_unqueue(struct tcp *t, struct tcp_conn *conn, coll_send_t *send)
{
	if (conn->queue.first == send) {
		if (conn->done)
			tcp_keep_rest(t, conn);
		conn->done = 0;
	}
	send_queue_remove(&conn->queue, send);
	t->sending -= conn->peer != t->rank && !tcp_has_work(conn);
}

void tcp_cancel(void *ep, coll_send_t *send)
{
	struct tcp *t = ep;
	struct tcp_conn *conn = &t->conn[send->peer];

	/* A lent message that has an end is in the ring, and waits for its reader. */
	if (tcp_is_lent(send) && send->plugin[TCP_SEND_END])
		send_queue_remove(&conn->lent, send);
	else
		tcp_unqueue(t, conn, send);
	if (tcp_is_lent(send))
		tcp_lend_give_up(t, conn, send);
}
