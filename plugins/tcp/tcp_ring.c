/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.c - moves the stream between two ranks of one host through shared memory; tcp_ring_offer.c makes it.
 *
 * Who goes to sleep sets a flag in the ring, then reads the other side's position once more.  Who moves a
 * position reads the flag afterwards.  All four accesses are sequentially consistent, so one of the two sees the
 * other.
 */
#include "tcp_ring.h"

#include <poll.h>
#include <string.h>
#include <sys/uio.h>

/* -------------------------------------------------------------------- writing -- */

/* Updates the room of the ring; 0: the peer has written nonsense, and the connection breaks. */
static int tcp_ring_look(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->out;
	uint64_t taken = atomic_load_explicit(&ring->control->taken, memory_order_acquire);

	if (taken - ring->seen > ring->own - ring->seen) {
		tcp_break(t, conn, TCP_BAD_POSITION);
		return 0;
	}
	ring->seen = taken;
	return 1;
}

static void tcp_ring_publish(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->out;

	atomic_store(&ring->control->written, ring->own);
	if (atomic_load(&ring->control->reader_sleeps) &&
	    atomic_exchange(&ring->control->reader_sleeps, 0))
		tcp_ring_wake(t, conn);
}

/* Copies one piece of memory; publishes each TCP_RING_PIECE bytes, so that the reader runs beside the writer. */
static size_t tcp_ring_copy(struct tcp *t, struct tcp_conn *conn, const uint8_t *from, size_t n)
{
	struct tcp_ring *ring = &conn->out;
	size_t done = 0;

	while (done < n) {
		uint64_t at = ring->own & (ring->size - 1), room;
		size_t part;

		if (ring->own - ring->seen == ring->size && !tcp_ring_look(t, conn))
			break;
		room = ring->size - (ring->own - ring->seen);
		part = tcp_min(tcp_min(n - done, TCP_RING_PIECE), tcp_min(room, ring->size - at));
		if (!part)
			break;
		memcpy(ring->data + at, from + done, part);
		ring->own += part;
		done += part;
		if (done < n)
			tcp_ring_publish(t, conn);
	}
	return done;
}

size_t tcp_ring_write(struct tcp *t, struct tcp_conn *conn, const struct msghdr *msg)
{
	size_t sum = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const struct iovec *iov = &msg->msg_iov[i];
		size_t n = tcp_ring_copy(t, conn, iov->iov_base, iov->iov_len);

		sum += n;
		if (n < iov->iov_len)
			break;
	}
	if (sum) {
		tcp_ring_publish(t, conn);
		tcp_spend(t, sum);
	}
	return sum;
}

/* -------------------------------------------------------------------- reading -- */

/* Room for the writer counts once half of the ring is free, so that a full ring does not wake it for each piece. */
static void tcp_ring_release(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	struct tcp_ring_control *control = conn->in.control;

	atomic_store(&control->taken, conn->in.own);
	if (left <= conn->in.size / 2 && atomic_load(&control->writer_sleeps) &&
	    atomic_exchange(&control->writer_sleeps, 0) && !conn->send_errno)
		tcp_ring_wake(t, conn);
}

int tcp_ring_pull(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->in;
	uint64_t written = atomic_load_explicit(&ring->control->written, memory_order_acquire);
	uint64_t left = written - ring->own, at = ring->own & (ring->size - 1);
	size_t n = tcp_min(tcp_min(left, TCP_RING_PIECE), ring->size - at);

	if (!left)
		return 0;
	if (left > ring->size) {
		tcp_lose(t, conn, tcp_why(TCP_BAD_POSITION));
		return 0;
	}
	tcp_spend(t, n);
	/* Headers are copied before they are read; only payload is handed on in place. */
	if (tcp_feed(t, conn, ring->data + at, n))
		return 0;
	ring->own += n;
	tcp_ring_release(t, conn, left - n);
	return 1;
}

void tcp_ring_drain(struct tcp *t, struct tcp_conn *conn)
{
	struct iovec iov = {t->scratch, TCP_FIRST};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	tcp_recvmsg(t, conn, &msg);
}

void tcp_ring_watch(struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++) {
		struct tcp_conn *conn = &t->conn[i];
		struct pollfd end = {.fd = conn->fd, .events = POLLRDHUP};

		if (conn->out_on && tcp_has_work(conn) && !conn->send_errno && poll(&end, 1, 0) > 0)
			tcp_break(t, conn, TCP_CLOSED);
	}
}

/* ------------------------------------------------------------------- sleeping -- */

int tcp_ring_arm(struct tcp *t)
{
	t->armed = 1;
	for (uint32_t i = 0; i < t->rings; i++) {
		const struct tcp_ring *ring = &t->conn[t->ring_peers[i]].in;

		atomic_store(&ring->control->reader_sleeps, 1);
		if (atomic_load(&ring->control->written) != ring->own)
			return 1;
	}
	return 0;
}

int tcp_ring_arm_room(struct tcp *t, const struct tcp_conn *conn)
{
	t->armed = 1;
	atomic_store(&conn->out.control->writer_sleeps, 1);
	return atomic_load(&conn->out.control->taken) + conn->out.size != conn->out.own;
}

void tcp_ring_disarm(struct tcp *t)
{
	t->armed = 0;
	for (uint32_t i = 0; i < t->nranks; i++) {
		if (t->conn[i].in_on)
			atomic_store_explicit(&t->conn[i].in.control->reader_sleeps, 0,
					      memory_order_relaxed);
		if (t->conn[i].out_on)
			atomic_store_explicit(&t->conn[i].out.control->writer_sleeps, 0,
					      memory_order_relaxed);
	}
}
