/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring.c - carries the stream between two ranks of one host through shared memory.
 *
 * Each direction has a ring of its own.  The reader makes it, in a sealed memfd, when the first message of the
 * peer arrives over the socket, and offers its descriptor there (SCM_RIGHTS).  The writer maps it and sends
 * TCP_FRAME_SWITCH between two messages: all that follows is in the ring.  A writer that cannot map the ring
 * sends nothing and stays on the socket, so no side waits for an answer.
 *
 * From then on the socket of this direction carries single bytes, which wake the other side, and its end is the
 * end of the peer.  Before the switch a TCP_FRAME_NOTE between two messages serves the same purpose.
 *
 * Who goes to sleep sets a flag in the ring, then reads the other side's position once more.  Who moves a
 * position reads the flag afterwards.  All four accesses are sequentially consistent, so one of the two sees the
 * other.
 */
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	TCP_RING_CONTROL = 4096, /* bytes before the data */
	TCP_RING_LEAST = 4096,
	TCP_RING_MOST = 1 << 30,
	TCP_RING_TRIES = 16, /* at an allocation that signals interrupt */
	TCP_RING_LINE = 128  /* two cache lines: processors fetch pairs */
};

/* Positions count the bytes of the stream.  The peer may write anything anywhere at any time. */
struct tcp_ring_control {
	_Alignas(TCP_RING_LINE) _Atomic uint64_t written; /* by the writer */
	_Atomic uint32_t writer_sleeps;                   /* until there is room */
	_Alignas(TCP_RING_LINE) _Atomic uint64_t taken;   /* by the reader */
	_Atomic uint32_t reader_sleeps;                   /* until there are bytes */
};

static const int tcp_ring_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static _Atomic uint64_t tcp_ring_bytes; /* of all rings that this process has made */

static void tcp_ring_unmap(struct tcp_ring *ring)
{
	if (ring->control)
		munmap(ring->control, TCP_RING_CONTROL + ring->size);
	memset(ring, 0, sizeof(*ring));
}

/* Returns 0, or -1 with errno. */
static int tcp_ring_map(struct tcp_ring *ring, int fd, uint64_t size)
{
	void *at = mmap(NULL, TCP_RING_CONTROL + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -1;
	/* A forked child must not share the positions. */
	if (madvise(at, TCP_RING_CONTROL + size, MADV_DONTFORK)) {
		int reason = errno;

		munmap(at, TCP_RING_CONTROL + size);
		errno = reason;
		return -1;
	}
	*ring = (struct tcp_ring){
		.control = at, .data = (uint8_t *)at + TCP_RING_CONTROL, .size = size};
	return 0;
}

/* Tells the user once why some pairs of ranks stay on their sockets. */
static void tcp_ring_tell(struct tcp *t, const char *why)
{
	if (t->ring_told)
		return;
	t->ring_told = 1;
	kit_log(t->host, COLL_LOG_INFO,
		"no shared memory (option tcp.ring) between this rank and some ranks of its host: "
		"%s; "
		"their messages pass the socket",
		why);
}

/* ------------------------------------------------------------------ the offer -- */

/* Between two messages of the stream?  Only there a frame can be told from the messages. */
static int tcp_ring_is_between(const struct tcp_conn *conn)
{
	return !conn->done && !conn->rest.bytes;
}

/*
 * Sends a frame, or a single byte where the stream has left the socket, with the descriptor if it is not -1.
 * Returns 1 if it is sent, 0 if the socket is full or has failed; the end of a socket is found by reading.
 */
static int tcp_ring_signal(struct tcp *t, struct tcp_conn *conn, uint64_t kind, int fd)
{
	coll_header_t frame = {.tag = kind, .len = TCP_FRAME};
	struct iovec iov = {&frame, conn->out_on ? 1 : sizeof(frame)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *part;
	ssize_t sent;

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		part = CMSG_FIRSTHDR(&msg);
		part->cmsg_level = SOL_SOCKET;
		part->cmsg_type = SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	}
	do {
		sent = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	if (sent == (ssize_t)iov.iov_len)
		return 1;
	/* The kernel takes so few bytes whole or not at all. */
	if (sent >= 0)
		tcp_break(t, conn, EPROTO);
	return 0;
}

/* The other side sleeps.  Within a message more bytes follow on the socket, and they wake it too. */
static void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->out_on || tcp_ring_is_between(conn))
		tcp_ring_signal(t, conn, TCP_FRAME_NOTE, -1);
}

void tcp_ring_settle(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->fd < 0 || conn->send_errno || (!conn->out_on && !tcp_ring_is_between(conn)))
		return;
	if (conn->offering && tcp_ring_signal(t, conn, TCP_FRAME_NOTE, conn->offer_fd)) {
		close(conn->offer_fd);
		conn->offering = 0;
	}
	if (conn->out.control && !conn->out_on && !conn->send_errno)
		conn->out_on = tcp_ring_signal(t, conn, TCP_FRAME_SWITCH, -1);
}

/* The kernel would answer a file above the limit with a signal, which ends the process. */
static int tcp_ring_exceeds_limit(uint64_t size)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < TCP_RING_CONTROL + size;
}

/* Makes a file of the size that no process can resize: its descriptor, or -1 with errno. */
static int tcp_ring_file(uint64_t size)
{
	int reason = EINTR, fd;

	if (tcp_ring_exceeds_limit(size)) {
		errno = EFBIG;
		return -1;
	}
	fd = memfd_create("coll-tcp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	/* Without the allocation a lack of memory would be a SIGBUS later. */
	for (int i = 0; i < TCP_RING_TRIES && reason == EINTR; i++)
		reason = posix_fallocate(fd, 0, (off_t)(TCP_RING_CONTROL + size));
	if (!reason && !fcntl(fd, F_ADD_SEALS, tcp_ring_seals))
		return fd;
	reason = reason ? reason : errno;
	close(fd);
	errno = reason;
	return -1;
}

void tcp_ring_offer(struct tcp *t, struct tcp_conn *conn)
{
	uint64_t size = t->ring_size, used;
	int fd;

	conn->offered = 1;
	used = atomic_fetch_add(&tcp_ring_bytes, size);
	if (used + size > t->ring_memory) {
		atomic_fetch_sub(&tcp_ring_bytes, size);
		tcp_ring_tell(t, "the memory of option tcp.ring_memory is spent");
		return;
	}
	fd = tcp_ring_file(size);
	if (fd < 0 || tcp_ring_map(&conn->in, fd, size)) {
		tcp_ring_tell(t, strerror(errno));
		atomic_fetch_sub(&tcp_ring_bytes, size);
		if (fd >= 0)
			close(fd);
		return;
	}
	conn->offer_fd = fd;
	conn->offering = 1;
	tcp_ring_settle(t, conn);
}

/* ---------------------------------------------------------------- taking an offer -- */

/* Returns why the file is no ring, or NULL with the size of its data. */
static const char *tcp_ring_check(int fd, uint64_t *size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & tcp_ring_seals) != tcp_ring_seals)
		return "it offered shared memory without the seals against a change of its size";
	if (fstat(fd, &st) || st.st_size < TCP_RING_CONTROL + TCP_RING_LEAST ||
	    st.st_size > (off_t)TCP_RING_CONTROL + TCP_RING_MOST)
		return "it offered shared memory of an invalid size";
	*size = (uint64_t)st.st_size - TCP_RING_CONTROL;
	return *size & (*size - 1) ? "it offered shared memory of an invalid size" : NULL;
}

/* The descriptor in a received message; -1: none. */
static int tcp_ring_fd_of(struct msghdr *msg)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(msg);
	int fd;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
	    part->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	return fd;
}

int tcp_ring_take(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg)
{
	int fd = tcp_ring_fd_of(msg);
	const char *fault;
	uint64_t size;

	if (fd < 0) {
		if (msg->msg_flags & MSG_CTRUNC)
			tcp_ring_tell(t, "the process has no free file descriptor");
		return 0;
	}
	fault = conn->out.control ? "it offered shared memory twice" : tcp_ring_check(fd, &size);
	if (!fault && tcp_ring_map(&conn->out, fd, size))
		tcp_ring_tell(t, strerror(errno));
	close(fd);
	if (!fault) {
		tcp_ring_settle(t, conn);
		return 0;
	}
	tcp_lose(t, conn, fault);
	return -1;
}

int tcp_ring_frame(struct tcp *t, struct tcp_conn *conn, const coll_header_t *frame)
{
	if (conn->inet || conn->peer == t->rank || conn->in_on || frame->meta[0] || frame->meta[1])
		return -1;
	if (frame->tag == TCP_FRAME_NOTE)
		return 0;
	if (frame->tag != TCP_FRAME_SWITCH || !conn->in.control)
		return -1;
	conn->in_on = 1;
	t->ring_peers[t->rings++] = conn->peer;
	return 1;
}

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

/* ---------------------------------------------------------- beginning and end -- */

void tcp_ring_init(struct tcp *t)
{
	uint64_t wanted = (uint64_t)t->host->option_int(t->host, "ring"), size = TCP_RING_LEAST;

	while (size < wanted)
		size *= 2;
	t->ring_size = wanted ? size : 0;
	t->ring_memory = (uint64_t)t->host->option_int(t->host, "ring_memory");
}

void tcp_ring_free(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->in.control)
		atomic_fetch_sub(&tcp_ring_bytes, conn->in.size);
	if (conn->offering)
		close(conn->offer_fd);
	for (uint32_t i = 0; conn->in_on && i < t->rings; i++)
		if (t->ring_peers[i] == conn->peer) {
			t->ring_peers[i] = t->ring_peers[--t->rings];
			break;
		}
	tcp_ring_unmap(&conn->in);
	tcp_ring_unmap(&conn->out);
	conn->offering = conn->in_on = conn->out_on = 0;
}
