/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_uds.c - a backend over Unix sockets as it was written for ABI 1.2, for each minor of the ABI, with some slots
 * of the later minors.  Before ABI 1.4 nothing said when sends to a lost rank must have their status: here the sends
 * behind the first follow one by one.  Frozen like the header.
 */
#include "backend_v1.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef UDS_NAME /* uds0, uds1, ... */
#define UDS_NAME_OF(minor) "uds" #minor
#define UDS_NAME_IN(minor) UDS_NAME_OF(minor)
#define UDS_NAME           UDS_NAME_IN(FROZEN_MINOR)
#endif

enum { UDS_BEGIN = -(int)sizeof(coll_header_t), UDS_FLAGS = SOCK_NONBLOCK | SOCK_CLOEXEC };
struct uds_way { /* to and from one rank, maybe the own; an endpoint is an array of ways */
	const coll_host_t *host;
	uint32_t rank;
	int out, door, in,
		lost; /* sockets: `out` is for sends; `in` is the rank that has come to the door */
	int64_t sent, got; /* how far the message is; before 0 lies its header, then the payload */
	uint64_t first,
		*end; /* queue of sends: plugin[0] of each send is the address of the next */
	coll_header_t header; /* of the message that arrives */
	coll_sink_t sink;     /* the place of that message */
};

static int uds_push(struct uds_way *way) /* sends as much as goes now; 1 if anything did */
{
	coll_send_t *s = (coll_send_t *)(uintptr_t)way->first;
	uint64_t left = (way->sent < 0 ? 0 : s->header.len) - (uint64_t)way->sent;
	const char *from = way->sent < 0 ? (const char *)(&s->header + 1) : s->buf;
	ssize_t n = send(way->out, from + way->sent, left, MSG_NOSIGNAL);

	if (n < 0 &&
	    (errno == EAGAIN || !way->lost)) /* its last messages come first: see uds_pull */
		return 0;
	way->sent += n;
	if (n < 0 || way->sent == (int64_t)s->header.len) { /* the send is the core's again */
		way->first = s->plugin[0];
		way->sent = UDS_BEGIN;
		s->status = n < 0 ? COLL_ERR_PEER_LOST : COLL_SUCCESS;
	}
	return 1;
}

static struct uds_way *uds_append(void *ep, coll_send_t *send)
{
	struct uds_way *way = (struct uds_way *)ep + send->peer;

	*(way->first ? way->end : &way->first) = (uintptr_t)send;
	way->end = &send->plugin[0];
	return way;
}

static int32_t uds_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct uds_way *way = uds_append(ep, send);

	(void)err; /* nothing is refused: if the rank is gone, uds_push says so in the status */
	while (way->first && uds_push(way))
		; /* progress goes on with the rest */
	return COLL_SUCCESS;
}

#if FROZEN_MINOR >= 4
static int32_t uds_send_more(void *ep, coll_send_t *send, coll_error_t *err)
{
	(void)err;
	uds_append(ep, send);
	return COLL_SUCCESS;
}

static void uds_flush(void *ep)
{
	for (struct uds_way *way = ep, *end = way + way->host->nranks; way < end; way++)
		while (way->first && uds_push(way))
			;
}
#endif

#if FROZEN_MINOR >= 1
static uint32_t uds_memory(void *ep)
{
	(void)ep;
	return COLL_MEM_HOST;
}
#endif

static int uds_pull(
	struct uds_way *way) /* receives the bytes that are there; 1 if there were any */
{
	const coll_host_t *h = way->host;
	char piece[65536], *to = way->got < 0 ? (char *)(&way->header + 1) : way->sink.buf;
	uint64_t left = (way->got < 0 ? 0 : way->header.len) - (uint64_t)way->got;
	size_t size = to || left < sizeof(piece) ? left : sizeof(piece);
	ssize_t n = recv(way->in, to ? to + way->got : piece, size, 0);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0 || (way->got + n == 0 && h->arrive(h, way->rank, &way->header, &way->sink))) {
		way->lost = 1;
		shutdown(way->out, SHUT_RDWR);
		if (way->got >= 0)
			h->arrived(h, way->sink.cookie, COLL_ERR_PEER_LOST);
		h->peer_lost(h, way->rank, n > 0 ? "it sent nonsense" : "it hung up");
		return 1;
	}
	if (!to)
		h->data(h, way->sink.cookie, piece, (uint64_t)n);
	way->got += n;
	if (way->got == (int64_t)way->header.len) {
		way->got = UDS_BEGIN;
		h->arrived(h, way->sink.cookie, COLL_SUCCESS);
	}
	return 1;
}

static int32_t uds_progress(void *ep)
{
	int moved = 0;

	for (struct uds_way *way = ep, *end = way + way->host->nranks; way < end; way++) {
		way->in = way->in < 0 ? accept4(way->door, NULL, NULL, UDS_FLAGS) : way->in;
#if FROZEN_MINOR < 4
		moved |= way->first && uds_push(way);
		moved |= way->in >= 0 && !way->lost && uds_pull(way);
#else
		moved |= way->in >= 0 && !way->lost && uds_pull(way);
		while (way->first && uds_push(way))
			moved = 1;
#endif
	}
	return moved;
}

/* One end of the way between two ranks, under an abstract name.  Not 0: see errno. */
static int uds_socket(const coll_host_t *host, uint32_t from, uint32_t to, int *fd, int listens)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	uint32_t ends[] = {from, to};

	host->mac(host, ends, sizeof(ends), (uint8_t *)name.sun_path + 1);
	*fd = socket(AF_UNIX, SOCK_STREAM | UDS_FLAGS, 0);
	if (*fd >= 0 && !listens)
		return connect(*fd, (void *)&name, sizeof(name));
	return *fd < 0 || bind(*fd, (void *)&name, sizeof(name)) || listen(*fd, 1);
}

static int32_t uds_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct uds_way *way = *ep = host->alloc(host, host->nranks * sizeof(*way));
	int32_t error = way ? 0 : ENOMEM, errors[host->nranks], code;

	for (uint32_t r = 0; way && r < host->nranks; r++) {
		way[r] = (struct uds_way){host, r, -1, -1, -1, 0, UDS_BEGIN, UDS_BEGIN, .first = 0};
		error = uds_socket(host, r, host->rank, &way[r].door, 1) ? errno : error;
	}
#if FROZEN_MINOR >= 3
	if (error) {
		snprintf(err->text, sizeof(err->text), "cannot listen: %s", strerror(error));
		return err->code = host->exchange_fail(host, COLL_ERR_SYSTEM, err->text,
						       host->timeout_ms);
	}
#endif
	/* No rank connects before all listen. */
	code = host->exchange(host, &error, errors, sizeof(error), host->timeout_ms, err);
	for (uint32_t r = 0; r < host->nranks && !code; r++)
		if ((errno = errors[r]) || uds_socket(host, host->rank, r, &way[r].out, 0)) {
			snprintf(err->text, sizeof(err->text), "cannot reach rank %u: %m", r);
			code = err->code = COLL_ERR_SYSTEM;
		}
	return code;
}

static void uds_close(void *ep, int64_t timeout_ms)
{
	struct uds_way *way = ep;

	(void)timeout_ms; /* bytes that the kernel has not taken are dropped */
	for (uint32_t r = 0; r < way->host->nranks; r++) {
		close(way[r].out);
		close(way[r].door);
		close(way[r].in);
	}
	way->host->free(way->host, way, way->host->nranks * sizeof(*way));
}

#if FROZEN_MINOR >= 5
static void uds_describe(void *ep, char *buf, uint64_t size)
{
	const struct uds_way *ways = ep;

	snprintf(buf, size, "Unix sockets to %u ranks", ways[0].host->nranks);
}
#endif

static const coll_transport_t uds_transport = {
	.size = sizeof(coll_transport_t),
	.send = uds_send,
	.progress = uds_progress,
#if FROZEN_MINOR >= 1
	.memory = uds_memory,
#endif
#if FROZEN_MINOR >= 4
	.send_more = uds_send_more,
	.flush = uds_flush,
#endif
#if FROZEN_MINOR >= 5
	.describe = uds_describe,
#endif
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = UDS_NAME,
	.version = "1.0",
	.description = "ranks of one host over Unix sockets",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.transport = &uds_transport,
	.open = uds_open,
	.close = uds_close,
#if FROZEN_MINOR >= 4
	.host_priority = 2,
#endif
};
