/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay.h - a man in the middle: a thread that takes the place of a listening socket of this process and passes
 * the bytes of each connection on to it, with one change in the direction to the listener.
 */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include "../lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum relay_change {
	RELAY_NOTHING,
	RELAY_FLIP,     /* flips a bit of the byte at `at` */
	RELAY_TRUNCATE, /* ends the connection before the byte at `at` */
	RELAY_DROP,     /* the following work on units of RELAY_UNIT bytes: leaves the second out */
	RELAY_REPEAT,   /* passes the second on twice */
	RELAY_SWAP,     /* passes the second on after the third */
	RELAY_REFLECT   /* passes the listener's own first unit on to it, in place of the first */
};

enum { RELAY_UNIT = 80, RELAY_SEEN = 1 << 20 };

struct relay {
	enum relay_change change;
	size_t at;          /* counted from the end of the handshake */
	size_t skip[2];     /* bytes of the handshake: to the listener, from the listener */
	uint8_t *seen;      /* RELAY_SEEN bytes: the bytes to the listener as they came */
	size_t *seen_count; /* of them */
	int *changed;       /* how often the relay changed what it passed on */
	/* The rest is the relay's own. */
	int outer, inner; /* the taken listening socket, and the port of the new one */
	int fd[2];        /* the connection from the dialler, and to the listener */
	size_t passed[2]; /* bytes so far */
	uint8_t held[RELAY_UNIT], first[RELAY_UNIT]; /* the second unit; the listener's first */
	uint8_t unit[RELAY_UNIT];                    /* the unit that is coming */
};

__attribute__((unused)) static int relay_write(int fd, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k <= 0)
			return -1;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

/* Passes a complete unit, the i-th, on to the listener. */
__attribute__((unused)) static int relay_unit(struct relay *r, size_t i)
{
	const uint8_t *unit = r->change == RELAY_REFLECT && i == 0 ? r->first : r->unit;
	int late = i == 2 && r->change == RELAY_SWAP;

	if (i == 1 && (r->change == RELAY_DROP || r->change == RELAY_SWAP)) {
		memcpy(r->held, r->unit, RELAY_UNIT);
		++*r->changed;
		return 0;
	}
	*r->changed += unit != r->unit || (i == 1 && r->change == RELAY_REPEAT);
	if (relay_write(r->fd[1], unit, RELAY_UNIT))
		return -1;
	if (i == 1 && r->change == RELAY_REPEAT)
		return relay_write(r->fd[1], r->unit, RELAY_UNIT);
	return late ? relay_write(r->fd[1], r->held, RELAY_UNIT) : 0;
}

/* Passes n bytes on to the listener, with the change; `at` counts from the end of the handshake. */
__attribute__((unused)) static int relay_change(struct relay *r, uint8_t *bytes, size_t n,
						size_t at)
{
	int code = 0;

	for (size_t i = 0; i < n && *r->seen_count < RELAY_SEEN; i++)
		r->seen[(*r->seen_count)++] = bytes[i];
	if (r->change == RELAY_TRUNCATE && at + n > r->at) {
		relay_write(r->fd[1], bytes, r->at - at);
		++*r->changed;
		return -1;
	}
	if (r->change == RELAY_FLIP && at <= r->at && r->at < at + n) {
		bytes[r->at - at] ^= 4;
		++*r->changed;
	}
	if (r->change < RELAY_DROP)
		return relay_write(r->fd[1], bytes, n);
	for (size_t i = 0; i < n && !code; i++, at++) {
		r->unit[at % RELAY_UNIT] = bytes[i];
		if (at % RELAY_UNIT == RELAY_UNIT - 1)
			code = relay_unit(r, at / RELAY_UNIT);
	}
	return code;
}

/* Passes on the bytes that have come from side d; returns -1 at the end. */
__attribute__((unused)) static int relay_pass(struct relay *r, int d)
{
	uint8_t bytes[4096];
	ssize_t n = recv(r->fd[d], bytes, sizeof(bytes), 0);
	size_t hello, at = r->passed[d];

	if (n <= 0)
		return -1;
	r->passed[d] += (size_t)n;
	hello = at < r->skip[d] ? r->skip[d] - at : 0;
	hello = hello < (size_t)n ? hello : (size_t)n;
	at = at + hello - r->skip[d];
	for (size_t i = hello; d == 1 && i < (size_t)n && at + i - hello < RELAY_UNIT; i++)
		r->first[at + i - hello] = bytes[i];
	if (relay_write(r->fd[!d], bytes, d == 1 ? (size_t)n : hello))
		return -1;
	return d == 0 && hello < (size_t)n ? relay_change(r, bytes + hello, (size_t)n - hello, at)
					   : 0;
}

__attribute__((unused)) static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)r->inner)};
	int more = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	r->fd[0] = accept(r->outer, NULL, NULL);
	r->fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (r->fd[0] < 0 || connect(r->fd[1], (struct sockaddr *)&to, sizeof(to)))
		return NULL;
	setsockopt(r->fd[1], IPPROTO_TCP, TCP_NODELAY, &more, sizeof(more));
	while (more) {
		struct pollfd polls[2] = {{r->fd[0], POLLIN, 0}, {r->fd[1], POLLIN, 0}};

		if (poll(polls, 2, 60000) <= 0)
			break;
		for (int d = 0; d < 2 && more; d++)
			if (polls[d].revents)
				more = !relay_pass(r, d);
	}
	close(r->fd[0]);
	close(r->fd[1]);
	return NULL;
}

/* Takes the place of the first TCP socket of this process that listens; returns 0 if there is none. */
__attribute__((unused)) static int relay_start(struct relay *r)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	pthread_t thread;
	int fd, listening;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (fd = 3; fd < 256; fd++) {
		struct sockaddr_storage own;
		socklen_t size = sizeof(own), len = sizeof(listening);

		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) && listening &&
		    !getsockname(fd, (struct sockaddr *)&own, &size) && own.ss_family == AF_INET)
			break;
	}
	if (fd == 256)
		return 0;
	r->outer = dup(fd);
	listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listening, 16) ||
	    getsockname(listening, (struct sockaddr *)&address, &(socklen_t){sizeof(address)}) ||
	    dup2(listening, fd) < 0 || fcntl(r->outer, F_SETFL, 0))
		bail_out("the relay cannot take the listener's place: %s", strerror(errno));
	close(listening);
	r->inner = ntohs(address.sin_port);
	if (pthread_create(&thread, NULL, relay_run, r) || pthread_detach(thread))
		bail_out("the relay cannot start");
	return 1;
}

#endif
