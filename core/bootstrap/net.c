/* SPDX-License-Identifier: BSD-3-Clause */
/* net.c - sockets of the bootstrap: listen, connect, move bytes without blocking. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"
#include "bootstrap/net.h"

const char *net_why(int err, char buf[NET_WHY_SIZE])
{
	return err == 0 ? "the connection was closed" : strerror_r(err, buf, NET_WHY_SIZE);
}

static int net_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
}

static int net_bind_listen(int fd, const struct net_addr *addr)
{
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&addr->sa, addr->len) < 0)
		return -1;
	return listen(fd, SOMAXCONN);
}

static int net_listen_error(const struct net_addr *addr, int err)
{
	char text[NET_ADDR_SIZE], why[NET_WHY_SIZE];

	net_format(addr, text);
	return error_set(COLL_ERR_SYSTEM, "cannot listen at %s: %s%s", text, net_why(err, why),
			 err == EADDRINUSE ? "; another program has that port: end it, or give "
					     "COLL_ROOT another port"
					   : "");
}

int net_listen(struct net_addr *addr, int *fd, int *err)
{
	int one = 1;

	*fd = net_socket(addr->sa.ss_family);
	*err = errno;
	if (*fd < 0)
		return net_listen_error(addr, *err);
	if (addr->sa.ss_family == AF_INET6)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	addr->len = addr->sa.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						   : sizeof(struct sockaddr_in);
	if (net_bind_listen(*fd, addr) == 0 &&
	    getsockname(*fd, (struct sockaddr *)&addr->sa, &addr->len) == 0)
		return 0;
	*err = errno;
	close(*fd);
	*fd = -1;
	return net_listen_error(addr, *err);
}

int net_listen_any(uint16_t port, int *fd, uint16_t *bound)
{
	struct net_addr any = {.len = sizeof(struct sockaddr_in6)};
	int zero = 0, err, code;

	any.sa.ss_family = AF_INET6;
	net_set_port(&any, port);
	*fd = net_socket(AF_INET6);
	if (*fd >= 0 && setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) == 0 &&
	    net_bind_listen(*fd, &any) == 0 &&
	    getsockname(*fd, (struct sockaddr *)&any.sa, &any.len) == 0) {
		*bound = net_port(&any);
		return 0;
	}
	if (*fd >= 0)
		close(*fd);
	/* No IPv6 here: IPv4 alone, whose error then counts. */
	memset(&any, 0, sizeof(any));
	any.sa.ss_family = AF_INET;
	net_set_port(&any, port);
	code = net_listen(&any, fd, &err);
	*bound = net_port(&any);
	return code;
}

void net_tune(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int net_connect_start(const struct net_addr *addr)
{
	int fd = net_socket(addr->sa.ss_family), err;

	if (fd < 0)
		return -1;
	net_tune(fd);
	if (connect(fd, (const struct sockaddr *)&addr->sa, addr->len) == 0 ||
	    errno == EINPROGRESS || errno == EINTR)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

int net_connect_result(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? errno : err;
}

/* The common end of read and write: what n and errno mean. */
static ssize_t net_moved(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t net_read(int fd, void *buf, size_t len)
{
	ssize_t n = recv(fd, buf, len, MSG_DONTWAIT);

	if (n == 0 && len > 0) {
		errno = 0;
		return -1;
	}
	return net_moved(n);
}

ssize_t net_write(int fd, const void *buf, size_t len)
{
	return net_moved(send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

int net_poll_one(int fd, short events, int64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		int64_t left = bootstrap_remaining(deadline);
		int n = poll(&p, 1, left > 60000 ? 60000 : (int)left);

		if (n > 0)
			return p.revents;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return POLLERR;
		if (left == 0)
			return 0;
	}
}
