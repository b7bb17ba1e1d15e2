/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.c - moves the stream between two ranks of one host through shared memory, which tcp_ring_offer.c
 * makes.
 *
 * A side that goes to sleep sets a flag in the ring, then reads its peer's position once more.  A side that
 * moves its position reads the peer's flag afterwards.  All four accesses are sequentially consistent, so at
 * least one side sees the peer's store.
 */
#include "tcp_ring.h"

#include <poll.h>
#include <string.h>
#include <sys/uio.h>

/* -------------------------------------------------------------------- writing -- */

/* Fetches a cache line that will be written. */
static void tcp_prefetch_write(const void *at)
{
#ifdef __x86_64__
	/* On x86-64 compilers turn the builtin into a fetch for reading. */
	__asm__("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

int tcp_ring_look(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->out;
	const uint64_t taken = atomic_load_explicit(&ring->control->taken, memory_order_acquire);

	if (taken - ring->seen > ring->own - ring->seen) {
		tcp_break(t, conn, TCP_BAD_POSITION);
		return 0;
	}
	ring->seen = taken;
	return 1;
}

static inline void tcp_ring_publish(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->out;

	atomic_store(&ring->control->written, ring->own);
	if (atomic_load(&ring->control->reader_sleeps) &&
	    atomic_exchange(&ring->control->reader_sleeps, 0))
		tcp_ring_wake(t, conn);
}

/*
 * Returns the bytes of the next piece, which begins at the place `at` of a ring.  It ends with a line, since the reader may fetch
 * that line before the writer goes on.
 */
static inline size_t tcp_ring_piece(uint64_t at)
{
	return TCP_RING_PIECE + TCP_RING_LINE - (size_t)(at % TCP_RING_LINE);
}

/*
 * Maps the pages of the ring up to `end`, since a fault for each page would take longer; where ranks take turns, and rings are short,
 * some more for the messages that follow.  A system that cannot do so maps each page when it is used.
 */
static __attribute__((noinline)) void tcp_ring_map_pages(const struct tcp *t, struct tcp_ring *ring,
							 uint64_t end)
{
	const uint64_t begin = ring->mapped, unit = t->turns ? TCP_RING_MAPPED : TCP_RING_PAGE;

	ring->mapped = tcp_min(ring->size, (end + unit - 1) / unit * unit);
	madvise(ring->data + begin, ring->mapped - begin, MADV_POPULATE_WRITE);
}

/* Do long messages go past the caches? */
static int tcp_ring_writes_past(const struct tcp *t, const struct tcp_ring *ring)
{
	if (t->past != TCP_PAST_AUTO)
		return t->past == TCP_PAST_ALWAYS;
	return atomic_load_explicit(&ring->control->far, memory_order_relaxed) != 0;
}

/* Copies one piece of memory.  Publishes it in pieces, so that the reader runs beside the writer. */
static size_t tcp_ring_copy(struct tcp *t, struct tcp_conn *conn, const uint8_t *from, size_t n)
{
	struct tcp_ring *ring = &conn->out;
	const int past = n >= TCP_PAST_FAR && tcp_ring_writes_past(t, ring);
	size_t done = 0;

	while (done < n) {
		uint64_t at = ring->own & (ring->size - 1), space;
		size_t part;

		if (ring->own - ring->seen == ring->size && !tcp_ring_look(t, conn))
			break;
		space = ring->size - (ring->own - ring->seen);
		part = tcp_min(tcp_min(n - done, tcp_ring_piece(at)),
			       tcp_min(space, ring->size - at));
		if (!part)
			break;
		if (n >= TCP_RING_BLOCKED && at + part > ring->mapped)
			tcp_ring_map_pages(t, ring, at + tcp_min(n - done, space));
		if (past)
			tcp_copy_past(ring->data + at, from + done, part);
		else
			copy_payload(ring->data + at, from + done, part);
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

static void tcp_ring_set_word(struct tcp_ring_control *control, size_t i, uint64_t word)
{
	atomic_store_explicit(&control->last[i], word, memory_order_release);
}

/* Writes word i of a short message to `last`, and to the ring at `to`.  Returns the address behind the word. */
static uint8_t *tcp_ring_put(struct tcp_ring_control *control, uint8_t *to, size_t i, uint64_t word)
{
	tcp_ring_set_word(control, i, word);
	memcpy(to, &word, sizeof(word));
	return to + sizeof(word);
}

/*
 * Writes a message that fits into `last`, there and into the ring at `to`; its end is at `end`.  Each store to `last`
 * is a release, so a reader that sees the word sees the new `last_end` too.  Words are copied one by one: the core has
 * just written some words, and a processor that reads two such words at once waits for the writes.
 */
static inline void tcp_ring_write_short(struct tcp_ring_control *control, uint8_t *to,
					const coll_send_t *send, uint64_t end)
{
	const uint8_t *from = send->buf;
	uint64_t len = send->header.len, word = 0;
	size_t i = TCP_RING_HEADER;

	atomic_store_explicit(&control->last_end, end, memory_order_relaxed);
	to = tcp_ring_put(control, to, 0, send->header.tag);
	to = tcp_ring_put(control, to, 1, send->header.meta[0]);
	to = tcp_ring_put(control, to, 2, send->header.meta[1]);
	to = tcp_ring_put(control, to, 3, send->header.len);
	for (; len >= sizeof(word); len -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		to = tcp_ring_put(control, to, i++, word);
	}
	if (len) {
		word = 0;
		memcpy(&word, from, len);
		memcpy(to, &word, len);
		tcp_ring_set_word(control, i, word);
	}
}

/*
 * Fetches the cache lines of the next message, which is likely to be as long, while this rank waits anyway: the reader's
 * processor has these lines.  A reader reads shorter messages beside the position, so their lines have stayed here.
 */
static void tcp_ring_prepare(const struct tcp_ring *ring, uint64_t n)
{
	for (uint64_t i = 0; i < n; i += TCP_RING_LINE / 2)
		tcp_prefetch_write(ring->data + ((ring->own + i) & (ring->size - 1)));
}

int32_t tcp_ring_send(struct tcp *t, struct tcp_conn *conn, coll_send_t *send, coll_error_t *err)
{
	struct tcp_ring *ring = &conn->out;
	uint64_t at = ring->own & (ring->size - 1), len = send->header.len;
	uint64_t n = sizeof(send->header) + len;
	uint8_t *to = ring->data + at;

	if (len > TCP_RING_SHORT || at + n > ring->size ||
	    n > ring->size - (ring->own - ring->seen))
		return tcp_start(t, send, 0, err);
	ring->own += n;
	if (n <= sizeof(ring->control->last)) {
		tcp_ring_write_short(ring->control, to, send, ring->own);
		tcp_ring_publish(t, conn);
	} else {
		memcpy(to, &send->header, sizeof(send->header));
		memcpy(to + sizeof(send->header), send->buf, (size_t)len);
		tcp_ring_publish(t, conn);
		tcp_ring_prepare(ring, n);
	}
	send->status = COLL_SUCCESS;
	return COLL_SUCCESS;
}

/* -------------------------------------------------------------------- reading -- */

/*
 * Tells the writer how far the reader is.  The reader does so once a quarter of the ring is free that the writer does not
 * know of, or when the writer sleeps.  A store for each message would take the line with the sleep flag from the writer,
 * which reads the flag for each message.  A writer sleeps only when the ring is full, and the reader then reads on to the
 * next quarter.  The reader wakes the writer once half of the ring is free, so that a full ring does not wake it for each
 * piece.
 */
void tcp_ring_tell(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	struct tcp_ring_control *control = conn->in.control;

	conn->in.seen = conn->in.own;
	conn->tells = 0;
	if (t->learns)
		tcp_far_tell(t, conn);
	else
		atomic_store(&control->taken, conn->in.own);
	if (left <= conn->in.size / 2 && atomic_load(&control->writer_sleeps) &&
	    atomic_exchange(&control->writer_sleeps, 0) && !conn->send_errno)
		tcp_ring_wake(t, conn);
}

static inline void tcp_ring_release(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	if (conn->in.own - conn->in.seen >= conn->in.size / 4 || conn->tells ||
	    atomic_load_explicit(&conn->in.control->writer_sleeps, memory_order_relaxed))
		tcp_ring_tell(t, conn, left);
}

static uint64_t tcp_ring_word(const struct tcp_ring_control *control, size_t i)
{
	return atomic_load_explicit(&control->last[i], memory_order_acquire);
}

/* Fetches all lines of a message before the first is read, so that they come at the same time. */
static void tcp_ring_fetch(const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i += TCP_RING_LINE / 2)
		__builtin_prefetch(at + i);
}

/*
 * The core would copy the message to memory, and once more to its receive buffer, which the next operation is likely to post
 * soon.  Its sender waits meanwhile, for space or until a lent message is read.
 */
int tcp_ring_blocks(struct tcp *t, const struct tcp_conn *conn, const coll_header_t *header)
{
	if (header->len < TCP_RING_BLOCKED || header->len == TCP_FRAME || !t->posted ||
	    conn->send_errno)
		return 0;
	if (!t->posted(t->host, conn->peer, header)) {
		t->blocked |= !t->owed;
		return !t->owed;
	}
	if (t->owed)
		t->owed--;
	else if (t->blocked_polls)
		t->penalty /= 2;
	return 0;
}

void tcp_ring_peek(const struct tcp_ring *ring, void *to, size_t n)
{
	const uint64_t at = ring->own & (ring->size - 1);
	const size_t first = tcp_min(n, ring->size - at);

	memcpy(to, ring->data + at, first);
	memcpy((uint8_t *)to + first, ring->data, n - first);
}

/*
 * Returns how many of the next n bytes come before a message that stays in the ring, or is lent.  If a lent message may come,
 * the bytes end with a header or before it, so that tcp_feed gets no frame.
 */
static size_t tcp_ring_before_blocked(struct tcp *t, const struct tcp_conn *conn,
				      const uint8_t *from, size_t n)
{
	size_t at = conn->receiving ? tcp_min(conn->len - conn->got, n) : 0;
	coll_header_t header;

	if (conn->header_got)
		return conn->borrower ? tcp_min(n, sizeof(header) - conn->header_got) : n;
	for (; n - at >= sizeof(header); at += sizeof(header) + (size_t)header.len) {
		memcpy(&header, from + at, sizeof(header));
		if ((conn->borrower && header.len == TCP_FRAME) ||
		    tcp_ring_blocks(t, conn, &header))
			return at;
		if (header.len > n - at - sizeof(header))
			return n;
	}
	return conn->borrower && at ? at : n;
}

/*
 * Takes a message that has stayed too long, since the core may be waiting for a message behind it.  Ranks to which that
 * happens again and again are not in phase.  Each time, twice as many long messages must come with posted receives before a
 * message may stay again.
 */
void tcp_ring_patience(struct tcp *t)
{
	if (!t->blocked) {
		t->blocked_polls = t->blocked_idle = t->blocked_sleeps = 0;
		return;
	}
	t->blocked = 0;
	if (t->moved)
		t->blocked_idle = t->blocked_sleeps = 0;
	t->blocked_idle++;
	if (++t->blocked_polls < TCP_BLOCK_POLLS && t->blocked_idle < TCP_BLOCK_IDLE &&
	    t->blocked_sleeps < TCP_BLOCK_SLEEPS)
		return;
	t->penalty = t->penalty ? (uint32_t)tcp_min(2 * t->penalty, TCP_BLOCK_PENALTY) : 1;
	t->owed = t->penalty;
}

/*
 * Takes the message beside the writer's position, if it is the only message that this rank has not read.  Returns 1 if it
 * took a message, -1 if it had to close the connection, else 0.  It copies the whole message before it hands it on.
 */
static int tcp_ring_take_last(struct tcp *t, struct tcp_conn *conn, uint64_t written)
{
	const struct tcp_ring_control *control = conn->in.control;
	const uint64_t n = written - conn->in.own;
	uint64_t payload[TCP_RING_LAST - TCP_RING_HEADER];
	coll_header_t header;

	if (n < sizeof(header) || n > sizeof(control->last) || conn->receiving ||
	    conn->header_got ||
	    atomic_load_explicit(&control->last_end, memory_order_acquire) != written)
		return 0;
	header.tag = tcp_ring_word(control, 0);
	header.meta[0] = tcp_ring_word(control, 1);
	header.meta[1] = tcp_ring_word(control, 2);
	header.len = tcp_ring_word(control, 3);
	for (size_t i = 0; i * sizeof(*payload) < n - sizeof(header); i++)
		payload[i] = tcp_ring_word(control, TCP_RING_HEADER + i);
	if (header.len != n - sizeof(header) ||
	    atomic_load_explicit(&control->last_end, memory_order_relaxed) != written)
		return 0;
	if (t->message ? tcp_hand_message(t, conn, &header, payload)
		       : tcp_feed_message(t, conn, &header, (const uint8_t *)payload))
		return -1;
	tcp_spend(t, (size_t)n);
	conn->in.own = written;
	tcp_ring_release(t, conn, 0);
	return 1;
}

/* Handles bytes in the ring up to `written`.  Returns 1 if more may be there. */
static __attribute__((noinline)) int tcp_ring_read(struct tcp *t, struct tcp_conn *conn,
						   uint64_t written)
{
	struct tcp_ring *ring = &conn->in;
	uint64_t left = written - ring->own, at = ring->own & (ring->size - 1);
	size_t n = tcp_min(tcp_min(left, tcp_ring_piece(at)), ring->size - at);
	const uint8_t *from = ring->data + at;

	if (left > ring->size) {
		tcp_lose(t, conn, tcp_why(TCP_BAD_POSITION));
		return 0;
	}
	if (conn->borrower) {
		const int more = tcp_borrow(t, conn, left);

		if (more != TCP_NOT_LENT)
			return more;
	}
	if (n <= TCP_RING_SHORT)
		tcp_ring_fetch(from, n);
	else if (left >= TCP_RING_BLOCKED && at + n > ring->mapped)
		tcp_ring_map_pages(t, ring, at + left);
	/* Headers are copied before they are read; only payload is handed on within the ring. */
	n = tcp_ring_before_blocked(t, conn, from, n);
	if (tcp_feed(t, conn, from, n) || !n)
		return 0;
	tcp_spend(t, n);
	ring->own += n;
	tcp_ring_release(t, conn, left - n);
	/* After a few short messages more are unlikely: leave them to the next progress(). */
	return n < left || n > TCP_RING_SHORT;
}

static uint64_t tcp_ring_written(const struct tcp_conn *conn)
{
	return atomic_load_explicit(&conn->in.control->written, memory_order_acquire);
}

int tcp_ring_pull(struct tcp *t, struct tcp_conn *conn)
{
	uint64_t written = tcp_ring_written(conn);

	if (written == conn->in.own || tcp_ring_take_last(t, conn, written))
		return 0;
	return tcp_ring_read(t, conn, written);
}

/* Handles the bytes in one ring, up to `written` and beyond, within its share of the budget. */
static __attribute__((noinline)) void tcp_ring_pull_share(struct tcp *t, struct tcp_conn *conn,
							  uint64_t written)
{
	size_t begin = t->budget;
	int more = tcp_ring_read(t, conn, written);

	while (more && t->budget && begin - t->budget < TCP_PIECE)
		more = tcp_ring_pull(t, conn);
}

/* Handles the bytes in one ring.  Most often there are none, or one short message, behind which more are unlikely. */
static inline void tcp_ring_pull_any(struct tcp *t, struct tcp_conn *conn)
{
	const uint64_t written = tcp_ring_written(conn), n = written - conn->in.own;

	if (n && (n > TCP_RING_LAST * sizeof(uint64_t) || !tcp_ring_take_last(t, conn, written)))
		tcp_ring_pull_share(t, conn, written);
}

static __attribute__((noinline)) void tcp_ring_pull_turns(struct tcp *t)
{
	uint32_t at = t->next_ring + 1 < t->rings ? t->next_ring + 1 : 0;

	t->next_ring = at;
	for (uint32_t i = 0; i < t->rings && t->budget; i++) {
		tcp_ring_pull_any(t, &t->conn[t->ring_peers[at]]);
		at = at + 1 < t->rings ? at + 1 : 0;
	}
}

void tcp_ring_pull_all(struct tcp *t)
{
	if (t->rings == 1)
		tcp_ring_pull_any(t, &t->conn[t->ring_peers[0]]);
	else
		tcp_ring_pull_turns(t);
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

		if (conn->out_on && (tcp_has_work(conn) || conn->lent.first) && !conn->send_errno &&
		    poll(&end, 1, 0) > 0)
			tcp_break(t, conn, TCP_CLOSED);
	}
}

/* ------------------------------------------------------------------- sleeping -- */

/* Makes the next call of progress() look at the sockets and clear the sleep flags. */
static void tcp_ring_will_sleep(struct tcp *t)
{
	t->armed = 1;
	t->polls_left = 0;
}

int tcp_ring_arm(struct tcp *t)
{
	tcp_ring_will_sleep(t);
	for (uint32_t i = 0; i < t->rings; i++) {
		const struct tcp_ring *ring = &t->conn[t->ring_peers[i]].in;

		atomic_store(&ring->control->reader_sleeps, 1);
		if (atomic_load(&ring->control->written) != ring->own) {
			t->blocked_sleeps += t->blocked_polls > 0;
			return 1;
		}
	}
	return 0;
}

int tcp_ring_arm_space(struct tcp *t, const struct tcp_conn *conn)
{
	tcp_ring_will_sleep(t);
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
