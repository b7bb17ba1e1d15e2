/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.c - stream sockets: listen, connect, move bytes without blocking. */
#include "socket/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"

const char *socket_why(int err, char buf[SOCKET_WHY_SIZE])
{
	return err == 0 ? "the connection was closed" : strerror_r(err, buf, SOCKET_WHY_SIZE);
}

int socket_is_exhausted(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

int socket_new(int family)
{
	return descriptor_lift(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static int socket_bind_listen(int fd, struct address *address)
{
	int one = 1;

	if (address->sa.ss_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address->sa, address->len) < 0 ||
	    listen(fd, SOMAXCONN) < 0)
		return -1;
	return getsockname(fd, (struct sockaddr *)&address->sa, &address->len);
}

static int socket_listen_error(const struct address *address, int err)
{
	char text[ADDRESS_TEXT_SIZE], why[SOCKET_WHY_SIZE];

	address_format(address, text);
	if (err == EADDRINUSE && address->sa.ss_family != AF_UNIX && address_port(address) == 0)
		return error_set(COLL_ERR_SYSTEM,
				 "cannot listen at %s: no local port is free (see "
				 "net.ipv4.ip_local_port_range)",
				 text);
	return error_set(COLL_ERR_SYSTEM, "cannot listen at %s: %s%s", text, socket_why(err, why),
			 error_remedy(err));
}

int socket_listen(struct address *address, socket_tune_fn tune, const void *user, int *fd, int *err)
{
	int family = address->sa.ss_family, one = 1;

	*fd = socket_new(family);
	*err = errno;
	if (*fd < 0)
		return socket_listen_error(address, *err);
	if (tune)
		tune(user, *fd, family, family == AF_UNIX || address->loopback);
	if (family == AF_INET6)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (socket_bind_listen(*fd, address) == 0)
		return 0;
	*err = errno;
	close(*fd);
	*fd = -1;
	return socket_listen_error(address, *err);
}

int socket_listen_any(uint16_t port, int *fd, uint16_t *bound, int *err)
{
	static const uint8_t any[16];
	struct address address;
	int zero = 0, code;

	address_set_ip(&address, any, sizeof(struct in6_addr), port);
	*fd = socket_new(AF_INET6);
	if (*fd >= 0 && setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) == 0 &&
	    socket_bind_listen(*fd, &address) == 0) {
		*bound = address_port(&address);
		return 0;
	}
	if (*fd >= 0)
		close(*fd);
	/* Without IPv6 the socket listens at IPv4 alone, and its error counts. */
	address_set_ip(&address, any, sizeof(struct in_addr), port);
	code = socket_listen(&address, NULL, NULL, fd, err);
	*bound = address_port(&address);
	return code;
}

void socket_no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void socket_keep_alive(int fd, int on)
{
	int second = 1, probes = 9;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

int socket_connect(int fd, const struct address *address)
{
	if (connect(fd, (const struct sockaddr *)&address->sa, address->len) == 0)
		return 0;
	return errno == EINPROGRESS || errno == EINTR ? 0 : -1;
}

int socket_connect_result(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? errno : err;
}

/* Turns the result n of a read or write, and errno, into the result of socket_recv and socket_send. */
static ssize_t socket_moved(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t socket_read(int fd, void *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len, MSG_DONTWAIT);

	if (n == 0 && len > 0) {
		errno = 0;
		return -1;
	}
	return socket_moved(n);
}

ssize_t socket_write(int fd, const void *buf, size_t len)
{
	return socket_moved(send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int socket_poll(int fd, short events, int64_t deadline)
{
	struct pollfd one;
	struct poll_set set;
	int place = -1;

	poll_set_init_small(&set, &one, 1);
	poll_set_watch(&set, &place, fd, events);
	do {
		poll_set_begin(&set, deadline);
		poll_set_wait(&set);
	} while (poll_set_events(&set, place) == 0 && clock_remaining(deadline) > 0);
	return poll_set_events(&set, place);
}
