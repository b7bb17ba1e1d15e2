/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_ring_offer.c - makes the shared memory between two ranks of one host, and moves their stream there.
 *
 * Each direction has a ring of its own.  The reader makes it, in a sealed memfd, when the second message of the
 * peer arrives over the socket, and offers the descriptor there (SCM_RIGHTS).  (In a large job most ranks send
 * each other one message, their goodbye.)  The writer maps the ring and sends TCP_FRAME_SWITCH between two
 * messages; all later bytes are in the ring.  A writer that cannot map the ring sends nothing and stays on the
 * socket, so neither side waits for an answer.
 *
 * From then on the socket of this direction carries single bytes, which wake the peer, and the end of the
 * socket is the end of the peer.  Before the switch a TCP_FRAME_NOTE between two messages wakes the peer.
 */
#include "tcp_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TCP_RING_LEAST = 4096, TCP_RING_MOST = 1 << 30 };

static _Atomic uint64_t
	tcp_ring_bytes; /* of all rings and bounce buffers that this process has made */

static void tcp_ring_close(int fd)
{
	CANCEL_OFF;

	close(fd);
}

static void tcp_ring_unmap(struct tcp_ring *ring)
{
	if (ring->control)
		munmap(ring->control, TCP_RING_CONTROL + ring->size);
	memset(ring, 0, sizeof(*ring));
}

/* Returns 0, or -1 with errno. */
static int tcp_ring_map(struct tcp_ring *ring, int fd, uint64_t size)
{
	/* A forked child must not share the positions: tcp_map. */
	void *at = tcp_map(fd, TCP_RING_CONTROL + size, PROT_READ | PROT_WRITE);

	if (!at)
		return -1;
	*ring = (struct tcp_ring){
		.control = at, .data = (uint8_t *)at + TCP_RING_CONTROL, .size = size};
	return 0;
}

/* Tells the user once why some pairs of ranks stay on their sockets. */
static void tcp_ring_offer_tell(struct tcp *t, const char *why)
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

/* Is the stream between two messages?  Only there the peer can tell a frame from a message. */
static int tcp_ring_is_between(const struct tcp_conn *conn)
{
	return !conn->done && !conn->rest.bytes;
}

int tcp_ring_signal(struct tcp *t, struct tcp_conn *conn, uint64_t kind, int fd)
{
	coll_header_t frame = {.tag = kind, .len = TCP_FRAME};
	uint8_t byte = (uint8_t)kind;
	struct iovec iov = {conn->out_on ? (void *)&byte : &frame,
			    conn->out_on ? 1 : sizeof(frame)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *part;
	int tries = 0, cancels;
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
	cancels = cancel_disable();
	do {
		sent = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (interrupted(sent, &tries));
	cancel_restore(cancels);
	if (sent == (ssize_t)iov.iov_len)
		return 1;
	/* The kernel takes so few bytes as a whole or not at all. */
	if (sent >= 0)
		tcp_break(t, conn, EPROTO);
	return 0;
}

void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->out_on || tcp_ring_is_between(conn))
		tcp_ring_signal(t, conn, TCP_FRAME_NOTE, -1);
}

void tcp_ring_settle(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->fd < 0 || conn->send_errno || (!conn->out_on && !tcp_ring_is_between(conn)))
		return;
	if (conn->offering && tcp_ring_signal(t, conn, TCP_FRAME_NOTE, conn->offer_fd)) {
		tcp_ring_close(conn->offer_fd);
		conn->offering = 0;
	}
	if (conn->out.control && !conn->out_on && !conn->send_errno)
		conn->out_on = tcp_ring_signal(t, conn, TCP_FRAME_SWITCH, -1);
}

/* Makes a file of that size which no process can resize.  Returns its descriptor, or -1 with errno. */
static int tcp_ring_file(uint64_t size)
{
	CANCEL_OFF;
	int reason, fd;

	if (!descriptor_may_grow(TCP_RING_CONTROL + size)) {
		errno = EFBIG;
		return -1;
	}
	fd = descriptor_lift(memfd_create("coll-tcp", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -1;
	reason = tcp_map_fill(fd, 0, TCP_RING_CONTROL + size);
	if (!reason && !fcntl(fd, F_ADD_SEALS, TCP_SEALS))
		return fd;
	reason = reason ? reason : errno;
	close(fd);
	errno = reason;
	return -1;
}

int tcp_ring_memory_take(uint64_t bytes, uint64_t most)
{
	uint64_t used = atomic_load(&tcp_ring_bytes);

	do {
		if (used + bytes > most)
			return 0;
	} while (!atomic_compare_exchange_weak(&tcp_ring_bytes, &used, used + bytes));
	return 1;
}

void tcp_ring_memory_return(uint64_t bytes)
{
	atomic_fetch_sub(&tcp_ring_bytes, bytes);
}

void tcp_ring_offer(struct tcp *t, struct tcp_conn *conn)
{
	const uint64_t size = t->ring_size;
	int fd;

	conn->offered = 1;
	if (!tcp_ring_memory_take(size, t->ring_memory)) {
		tcp_ring_offer_tell(t, "the memory of option tcp.ring_memory is spent");
		return;
	}
	fd = tcp_ring_file(size);
	if (fd < 0 || tcp_ring_map(&conn->in, fd, size)) {
		tcp_ring_offer_tell(t, strerror(errno));
		tcp_ring_memory_return(size);
		if (fd >= 0)
			tcp_ring_close(fd);
		return;
	}
	conn->offer_fd = fd;
	conn->offering = 1;
	tcp_ring_settle(t, conn);
}

/* ---------------------------------------------------------------- taking an offer -- */

/* Returns why the file is no ring; or NULL, and *size becomes the size of its data. */
static const char *tcp_ring_check(int fd, int seals, uint64_t *size)
{
	struct stat st;

	if ((seals & TCP_SEALS) != TCP_SEALS)
		return "it offered shared memory without the seals against a change of its size";
	if (fstat(fd, &st) || st.st_size < TCP_RING_CONTROL + TCP_RING_LEAST ||
	    st.st_size > (off_t)TCP_RING_CONTROL + TCP_RING_MOST)
		return "it offered shared memory of an invalid size";
	*size = (uint64_t)st.st_size - TCP_RING_CONTROL;
	return *size & (*size - 1) ? "it offered shared memory of an invalid size" : NULL;
}

/* Returns the descriptor in a received message, or -1. */
static int tcp_ring_fd_of(struct msghdr *msg)
{
	struct cmsghdr *part = CMSG_FIRSTHDR(msg);
	int fd;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS ||
	    part->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	return descriptor_lift(fd);
}

/*
 * Returns why the offer is invalid, or NULL.  A process that may not read the seals stays on the socket, which is no fault.
 */
static const char *tcp_ring_accept(struct tcp *t, struct tcp_conn *conn, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), reason = errno;
	const char *fault;
	uint64_t size;

	if (conn->out.control)
		return "it offered shared memory twice";
	if (seals < 0) {
		tcp_ring_offer_tell(t, strerror(reason));
		return NULL;
	}
	fault = tcp_ring_check(fd, seals, &size);
	if (!fault && tcp_ring_map(&conn->out, fd, size))
		tcp_ring_offer_tell(t, strerror(errno));
	return fault;
}

/*
 * Returns the slot of the memory that came with n received bytes; -1: they are of a ring's offer.  A system call of the
 * receiver ends with the bytes that a descriptor came with.
 */
static int tcp_ring_slot_of(const struct msghdr *msg, size_t n)
{
	size_t i = 0;
	int byte;

	for (; n > msg->msg_iov[i].iov_len; i++)
		n -= msg->msg_iov[i].iov_len;
	byte = ((const uint8_t *)msg->msg_iov[i].iov_base)[n - 1];
	return byte >= TCP_FRAME_SLOT && byte < TCP_FRAME_SLOT + TCP_LENT_SLOTS
		       ? byte - TCP_FRAME_SLOT
		       : -1;
}

int tcp_ring_take(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg, size_t n)
{
	const int fd = tcp_ring_fd_of(msg), none = fd < 0 && msg->msg_flags & MSG_CTRUNC;
	const int slot = fd >= 0 || none ? tcp_ring_slot_of(msg, n) : -1;
	const char *fault;

	if (none && slot < 0)
		tcp_ring_offer_tell(t, "the process has no free file descriptor");
	if (none && slot >= 0 && conn->in.control)
		tcp_borrow_refuse(t, conn, "the process has no free file descriptor");
	if (fd < 0)
		return 0;
	fault = slot < 0 ? tcp_ring_accept(t, conn, fd) : tcp_borrow_take(t, conn, fd, slot);
	tcp_ring_close(fd);
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

/* ---------------------------------------------------------- beginning and end -- */

static int tcp_ring_takes_turns(const struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++)
		if (i != t->rank && tcp_is_local(t->host, i) &&
		    kit_shares(t->host, i, COLL_SHARES_PROCESSORS))
			return 1;
	return 0;
}

/*
 * Returns the most bytes of a ring, so that all ranks of the host may have one.  Ranks that share a processor find a
 * short ring in its cache.  Between two processors the lines of a long ring have left both caches by the time they
 * are written again, so the writer need not take them from the reader's cache.
 */
static uint64_t tcp_ring_most(const struct tcp *t)
{
	const uint64_t memory = t->ring_memory - (t->turns ? tcp_bounce_most(t) : 0);
	uint64_t peers = 0, most = TCP_RING_MANY;

	for (uint32_t i = 0; i < t->nranks; i++)
		peers += i != t->rank && tcp_is_local(t->host, i);
	while (peers && 2 * most <= memory / peers && !(t->turns && most >= TCP_RING_TURNS))
		most *= 2;
	return most;
}

void tcp_ring_init(struct tcp *t)
{
	uint64_t wanted = (uint64_t)t->host->option_int(t->host, "ring"), most;

	t->ring_memory = (uint64_t)t->host->option_int(t->host, "ring_memory");
	t->turns = tcp_ring_takes_turns(t);
	most = tcp_min(wanted, tcp_ring_most(t));
	t->ring_size = wanted ? TCP_RING_LEAST : 0;
	while (wanted && t->ring_size < most)
		t->ring_size *= 2;
	if (t->host->size >= offsetof(coll_host_t, posted) + sizeof(t->host->posted))
		t->posted = t->host->posted;
	if (t->host->size >= offsetof(coll_host_t, message) + sizeof(t->host->message))
		t->message = t->host->message;
}

void tcp_ring_free(struct tcp *t, struct tcp_conn *conn)
{
	if (conn->in.control)
		tcp_ring_memory_return(conn->in.size);
	if (conn->offering)
		tcp_ring_close(conn->offer_fd);
	for (uint32_t i = 0; conn->in_on && i < t->rings; i++)
		if (t->ring_peers[i] == conn->peer) {
			t->ring_peers[i] = t->ring_peers[--t->rings];
			break;
		}
	tcp_lender_free(t, conn);
	tcp_borrower_free(conn);
	tcp_ring_unmap(&conn->in);
	tcp_ring_unmap(&conn->out);
	conn->offering = conn->in_on = conn->out_on = 0;
}

void tcp_ring_forked(void)
{
	atomic_store(&tcp_ring_bytes, 0);
}
