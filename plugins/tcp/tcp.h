/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.h - what the files of the tcp backend share.
 *
 * One endpoint holds one stream socket for each other rank: AF_UNIX on the same host, TCP else.
 * tcp_addr.c listens and says where; tcp_mesh.c connects everyone; tcp_send.c and tcp_io.c move messages.
 * On the wire a message is its 32-byte coll_header_t followed by the payload, nothing else.
 */
#ifndef TCP_H
#define TCP_H

#include <coll/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/plugin_kit.h"
#include "socket/acceptor.h"

#include <stddef.h>
#include <sys/socket.h>

/* Found by measurement, see README.md. */
#define TCP_SCRATCH     ((size_t)256 << 10) /* received at once for host->data; fits the cache */
#define TCP_FIRST       ((size_t)32 << 10)  /* received at once while no message is under way */
#define TCP_PIECE       ((size_t)1 << 20)   /* moved at once to or from a large buffer */
#define TCP_BUDGET      ((size_t)4 << 20) /* moved in one progress(), about a millisecond's worth */
#define TCP_UNIX_BUFFER (4 << 20)         /* SO_SNDBUF of AF_UNIX sockets; the system may clip it */

enum {
	TCP_DIRECT = 1, /* up to so many peers recv() is tried without asking epoll first */
	TCP_GATHER = 16 /* queued messages handed to the kernel in one call */
};

/* ------------------------------------------------------------------ endpoint -- */

/* The stream to and from one rank; for the own rank there is no socket behind it. */
struct tcp_conn {
	int fd; /* -1: own rank, or not there any more */
	uint32_t peer;
	int inet;        /* TCP, not AF_UNIX */
	int lost;        /* host->peer_lost was called */
	int send_errno;  /* sending failed; told in the next progress() */
	uint32_t events; /* registered with epoll */

	/* Sends not yet complete.  `done` counts bytes of the first one. */
	struct send_queue queue;
	uint64_t done;
	struct send_rest rest; /* goes out before the first message */

	/* The message being received, or the beginning of its header. */
	int receiving;
	int unwanted; /* the core has dropped what is being received */
	coll_sink_t sink;
	uint64_t got, len;
	uint32_t header_got;
	uint8_t header[sizeof(coll_header_t)];
};

struct tcp {
	const coll_host_t *host;
	uint32_t rank, nranks;
	int epoll_fd;
	uint32_t turn;     /* whose turn it is to be served first */
	uint32_t sending;  /* connections with something left to send, the own one not counted */
	uint32_t failing;  /* connections whose send_errno is not told yet */
	uint32_t watching; /* connections registered for EPOLLOUT */
	size_t budget;     /* bytes this progress() may still move */
	int moved;         /* has it moved any? */
	uint8_t *scratch;  /* TCP_SCRATCH bytes */
	struct tcp_conn *conn; /* nranks */
};

/* ------------------------------------------------------------------- addresses -- */

struct tcp_address {
	uint8_t ip[16];
	uint16_t port;   /* network order, as is ip */
	uint8_t ip_size; /* 4 or 16 */
	uint8_t loopback;
};

/* What each rank tells all others, by host->exchange. */
struct tcp_record {
	uint32_t pid;
	char boot_id[40]; /* "" if unknown; with netns: ranks that agree share a host */
	uint64_t netns[2];
	char unix_name[40]; /* abstract address, "" if none */
	uint8_t nonce[16];
	uint32_t count;
	struct tcp_address address[ADDRESS_INET_MAX];
};

/* Opens the listening sockets and fills *record. */
int32_t tcp_listen(const coll_host_t *host, struct listeners *listeners, struct tcp_record *record,
		   coll_error_t *err);
/* 0 if another rank's record cannot be right; ends its texts. */
int tcp_check_record(struct tcp_record *record);
int tcp_same_host(const struct tcp_record *a, const struct tcp_record *b);
/* Where `own` may reach `peer`, best first. */
void tcp_peer_addresses(const coll_host_t *host, const struct tcp_record *own,
			const struct tcp_record *peer, struct address_list *out);
/* Options of a stream socket, best before it is connected.  `local`: both ends on one host. */
void tcp_tune(const void *host, int fd, int family, int local);

/* ------------------------------------------------------------------ the rest -- */

/*
 * Connects all ranks; on success every t->conn[] but the own has its socket, known to epoll.  Closes the
 * listeners.
 */
int32_t tcp_mesh_connect(struct tcp *t, struct listeners *listeners,
			 const struct tcp_record *records, coll_error_t *err);

/* ------------------------------------------------------------------- messages -- */

struct iovec;

static inline size_t tcp_min(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

/* n bytes of this progress() are used up. */
static inline void tcp_spend(struct tcp *t, size_t n)
{
	t->budget -= tcp_min(n, t->budget);
	t->moved = 1;
}

/* Sending no longer works.  What the peer sent is still to be read; progress() tells the end. */
static inline void tcp_break(struct tcp *t, struct tcp_conn *conn, int error)
{
	t->failing += !conn->send_errno;
	conn->send_errno = error;
}

int tcp_has_work(const struct tcp_conn *conn);
/* What goes out next, at most TCP_PIECE bytes; returns how many. */
size_t tcp_gather(const struct tcp_conn *conn, struct iovec iov[2 * TCP_GATHER + 1], int *n);
/* n bytes of what tcp_gather gave are out. */
void tcp_advance(struct tcp *t, struct tcp_conn *conn, uint64_t n);
/* One call into the kernel; 1 if it took all that was offered. */
int tcp_push(struct tcp *t, struct tcp_conn *conn);
void tcp_fail_sends(struct tcp *t, struct tcp_conn *conn, int32_t status);

int32_t tcp_send(void *ep, coll_send_t *send, coll_error_t *err);
void tcp_drop(void *ep, uint64_t cookie);
void tcp_forked(void *ep);
void tcp_cancel(void *ep, coll_send_t *send);
int32_t tcp_progress(void *ep);
int32_t tcp_wait_fd(void *ep);
int32_t tcp_arm(void *ep);
/* Hands to the kernel what is queued, and to the network what the kernel holds. */
void tcp_flush(struct tcp *t, int64_t timeout_ms);

#endif
