/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_uds.c - a whole backend in one file: the ranks of one host over Unix sockets.  Every rank
 * has a socket to send to every rank, itself too.  It carries packets, each of which is the header
 * of a message and the next piece of its payload.
 */
#define _GNU_SOURCE
#include <coll/backend.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { UDS_PIECE = 65536, UDS_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC };

/* The way to and from one rank.  An endpoint is an array of them. */
struct uds_way {
	const coll_host_t *host;
	uint32_t rank;
	int out, door, in;         /* sockets; `in` is what comes through the door */
	coll_send_t *first, *last; /* not over; plugin[0] is the address of the next one */
	uint64_t sent, got;        /* bytes of the payloads under way */
	coll_sink_t sink;
};

/* Sends the next packet; 0 if there is no room for it. */
static int uds_push(struct uds_way *way)
{
	coll_send_t *s = way->first;
	uint64_t left = s->header.len - way->sent, n = left < UDS_PIECE ? left : UDS_PIECE;
	void *from = (void *)((uintptr_t)s->buf + way->sent);
	struct iovec iov[] = {{&s->header, sizeof(s->header)}, {from, n}};
	int failed = sendmsg(way->out, &(struct msghdr){.msg_iov = iov, .msg_iovlen = 2},
			     MSG_NOSIGNAL) < 0;

	if (failed && errno == EAGAIN)
		return 0;
	way->sent += n;
	if (way->sent == s->header.len || failed) {
		way->first = (coll_send_t *)(uintptr_t)s->plugin[0];
		way->sent = 0;
		s->status = failed ? COLL_ERR_PEER_LOST : COLL_SUCCESS; /* now it is the core's */
	}
	return 1;
}

static int32_t uds_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct uds_way *way = (struct uds_way *)ep + send->peer;

	(void)err; /* never refuses: that a rank is gone is said by peer_lost */
	if (way->first)
		way->last->plugin[0] = (uintptr_t)send;
	else
		way->first = send;
	way->last = send;
	return COLL_SUCCESS;
}

static void uds_hang_up(struct uds_way *way)
{
	close(way->out);
	close(way->door);
	close(way->in);
	way->out = way->door = way->in = -1;
}

/* Receives the next packet; 0 if there is none. */
static int uds_pull(struct uds_way *way)
{
	const coll_host_t *host = way->host;
	coll_header_t header;
	char piece[UDS_PIECE];
	ssize_t n = recv(way->in, &header, sizeof(header), MSG_PEEK);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 || (!way->got && host->arrive(host, way->rank, &header, &way->sink))) {
		uds_hang_up(way);
		if (way->got)
			host->arrived(host, way->sink.cookie, COLL_ERR_PEER_LOST);
		host->peer_lost(host, way->rank, n > 0 ? "it sent nonsense" : "it hung up");
		return 1;
	}
	struct iovec iov[] = {
		{&header, sizeof(header)},
		{way->sink.buf ? (char *)way->sink.buf + way->got : piece, UDS_PIECE}};
	n = recvmsg(way->in, &(struct msghdr){.msg_iov = iov, .msg_iovlen = 2}, 0) -
	    (ssize_t)sizeof(header);
	if (!way->sink.buf && n)
		host->data(host, way->sink.cookie, piece, (uint64_t)n);
	way->got += (uint64_t)n;
	if (way->got == header.len) {
		way->got = 0;
		host->arrived(host, way->sink.cookie, COLL_SUCCESS);
	}
	return 1;
}

static int32_t uds_progress(void *ep)
{
	int moved = 0;

	for (struct uds_way *way = ep, *end = way + way->host->nranks; way < end; way++) {
		if (way->in < 0)
			way->in = accept4(way->door, NULL, NULL, UDS_FLAGS);
		moved |= way->first && uds_push(way);
		moved |= way->in >= 0 && uds_pull(way);
	}
	return moved;
}

/* Opens one end of the way from one rank to another; 0, or errno tells why not. */
static int uds_socket(const coll_host_t *host, uint32_t from, uint32_t to, int *fd, int listens)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX}; /* abstract: no file to be removed */
	uint32_t ends[] = {from, to};

	host->mac(host, ends, sizeof(ends), (uint8_t *)name.sun_path + 1);
	*fd = socket(AF_UNIX, SOCK_SEQPACKET | UDS_FLAGS, 0);
	if (*fd >= 0 && !listens)
		return connect(*fd, (void *)&name, sizeof(name));
	return *fd < 0 || bind(*fd, (void *)&name, sizeof(name)) || listen(*fd, 1);
}

static int32_t uds_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct uds_way *ways = *ep = calloc(host->nranks, sizeof(*ways));
	int32_t error = ways ? 0 : ENOMEM, errors[host->nranks], code;

	for (uint32_t r = 0; ways && r < host->nranks; r++) {
		ways[r] = (struct uds_way){.host = host, .rank = r, .out = -1, .in = -1};
		if (uds_socket(host, r, host->rank, &ways[r].door, 1))
			error = errno;
	}
	/* Nobody calls before all listen, and who cannot listen says so instead of being called. */
	code = host->exchange(host, &error, errors, sizeof(error), host->timeout_ms, err);
	for (uint32_t r = 0; r < host->nranks && !code; r++) {
		if (!errors[r] && uds_socket(host, host->rank, r, &ways[r].out, 0))
			errors[r] = errno;
		if (errors[r]) {
			snprintf(err->text, sizeof(err->text), "cannot reach rank %u: %s", r,
				 strerror(errors[r]));
			code = err->code = COLL_ERR_SYSTEM;
		}
	}
	return code;
}

static void uds_close(void *ep, int64_t timeout_ms)
{
	struct uds_way *way = ep, *end = way + way->host->nranks;

	(void)timeout_ms;
	for (; way < end; way++)
		uds_hang_up(way);
	free(ep);
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
