/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_uds.c - a whole backend in one file: the ranks of one host over Unix sockets.  From every
 * rank to every rank, itself too, goes one socket, which carries packets: the header of a message
 * and, after it, the next piece of its payload.
 */
#define _GNU_SOURCE
#include <coll/backend.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { UDS_PIECE = 65536, UDS_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC };

struct uds_peer {
	int out, door, in; /* sends to this rank; its connection comes to; receives from */
	coll_send_t *first,
		*last;      /* sends that are not over; plugin[0] is the next one's address */
	uint64_t sent, got; /* bytes of the payloads on their way that are through */
	coll_sink_t sink;   /* where the arriving one goes */
};

struct uds {
	const coll_host_t *host;
	struct uds_peer peer[];
};

/* Sends the next packet; 0 if there is no room for it now. */
static int uds_push(struct uds_peer *p)
{
	coll_send_t *s = p->first;
	uint64_t left = s->header.len - p->sent, n = left < UDS_PIECE ? left : UDS_PIECE;
	void *from = (void *)((uintptr_t)s->buf + p->sent);
	struct iovec iov[] = {{&s->header, sizeof(s->header)}, {from, n}};
	struct msghdr packet = {.msg_iov = iov, .msg_iovlen = 2};
	int lost = sendmsg(p->out, &packet, MSG_NOSIGNAL) < 0;

	if (lost && errno == EAGAIN)
		return 0;
	p->sent += n;
	if (p->sent == s->header.len || lost) { /* over: from now on `s` is the core's */
		p->first = (coll_send_t *)(uintptr_t)s->plugin[0];
		p->sent = 0;
		s->status = lost ? COLL_ERR_PEER_LOST : COLL_SUCCESS;
	}
	return 1;
}

static int32_t uds_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct uds_peer *p = &((struct uds *)ep)->peer[send->peer];

	(void)err;
	if (p->first)
		p->last->plugin[0] = (uintptr_t)send;
	else
		p->first = send;
	p->last = send;
	if (p->first == send)
		uds_push(p);
	return COLL_SUCCESS;
}

static void uds_hang_up(struct uds_peer *p)
{
	close(p->out);
	close(p->door);
	close(p->in);
	p->out = p->door = p->in = -1;
}

/* Receives the next packet; 0 if there is none. */
static int uds_pull(const coll_host_t *host, struct uds_peer *p, uint32_t rank)
{
	coll_header_t header;
	char piece[UDS_PIECE], *to = p->got && p->sink.buf ? (char *)p->sink.buf + p->got : piece;
	struct iovec iov[] = {{&header, sizeof(header)}, {to, UDS_PIECE}};
	struct msghdr packet = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n = recvmsg(p->in, &packet, 0);
	uint64_t bytes = (uint64_t)n - sizeof(header);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 || (!p->got && host->arrive(host, rank, &header, &p->sink))) {
		uds_hang_up(p);
		if (p->got)
			host->arrived(host, p->sink.cookie, COLL_ERR_PEER_LOST);
		host->peer_lost(host, rank, n > 0 ? "it sent nonsense" : "it has hung up");
		return 1;
	}
	if (!p->sink.buf && bytes)
		host->data(host, p->sink.cookie, piece, bytes);
	else if (to == piece && bytes)
		memcpy(p->sink.buf, piece, bytes);
	p->got += bytes;
	if (p->got == header.len) {
		p->got = 0;
		host->arrived(host, p->sink.cookie, COLL_SUCCESS);
	}
	return 1;
}

static int32_t uds_progress(void *ep)
{
	struct uds *u = ep;
	int moved = 0;

	for (uint32_t r = 0; r < u->host->nranks; r++) {
		struct uds_peer *p = &u->peer[r];

		if (p->in < 0)
			p->in = accept4(p->door, NULL, NULL, UDS_FLAGS);
		moved |= p->first && uds_push(p);
		moved |= p->in >= 0 && uds_pull(u->host, p, r);
	}
	return moved;
}

/* One end of the way between two ranks; its abstract name ends with it.  Not 0: see errno. */
static int uds_socket(const coll_host_t *host, int *fd, uint32_t from, uint32_t to, int listens)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	uint32_t way[] = {from, to};

	host->mac(host, way, sizeof(way), (uint8_t *)name.sun_path + 1);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | UDS_FLAGS, 0);
	if (*fd >= 0 && listens)
		return bind(*fd, (void *)&name, sizeof(name)) || listen(*fd, 1);
	return *fd < 0 || connect(*fd, (void *)&name, sizeof(name));
}

static int32_t uds_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct uds *u = *ep = calloc(1, sizeof(*u) + host->nranks * sizeof(u->peer[0]));
	int32_t failed = !u, all[host->nranks], code;

	for (uint32_t r = 0; u && r < host->nranks; r++) {
		u->host = host;
		u->peer[r].out = u->peer[r].in = -1;
		if (uds_socket(host, &u->peer[r].door, r, host->rank, 1))
			failed = errno;
	}
	/* Nobody connects before all listen; who has failed tells it instead of being waited for. */
	code = host->exchange(host, &failed, all, sizeof(failed), host->timeout_ms, err);
	for (uint32_t r = 0; r < host->nranks && !code; r++)
		if (all[r] || uds_socket(host, &u->peer[r].out, host->rank, r, 0)) {
			snprintf(err->text, sizeof(err->text),
				 all[r] ? "rank %u cannot listen: %s" : "cannot reach rank %u: %s",
				 r, strerror(all[r] ? all[r] : errno));
			code = err->code = COLL_ERR_SYSTEM;
		}
	return code;
}

static void uds_close(void *ep, int64_t timeout_ms)
{
	struct uds *u = ep;

	for (uint32_t r = 0; r < u->host->nranks; r++) {
		while (u->peer[r].first && (uds_push(&u->peer[r]) || timeout_ms-- > 0))
			poll(NULL, 0, timeout_ms > 0);
		uds_hang_up(&u->peer[r]);
	}
	free(u);
}

static const coll_transport_t uds_transport = {
	.size = sizeof(coll_transport_t), .send = uds_send, .progress = uds_progress};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "uds",
	.version = "1.0",
	.description = "ranks of one host over Unix sockets",
	.priority = 15,
	.memory = COLL_MEM_HOST,
	.transport = &uds_transport,
	.open = uds_open,
	.close = uds_close};
