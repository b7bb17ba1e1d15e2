/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_probe.c - turns on the kernel's probes for the TCP connections that UCX has accepted.  UCX does so only
 * where it has connected.
 *
 * UCX shows none of its sockets, but the kernel lists the descriptors that an epoll descriptor watches:
 * /proc/self/fdinfo has the lists of UCX's descriptor and of the epoll descriptors nested in it.
 */
#include "ucx.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { UCX_PROBE_DEPTH = 4 }; /* epoll descriptors within each other */

/* Sets the probes of a TCP socket.  Returns 1 if it did; 0 for any other descriptor. */
static int ucx_probe_socket(int fd, void *arg)
{
	const int *every_s = arg;
	int protocol = 0, on = 1, count = UCX_PROBES;
	socklen_t len = sizeof(protocol);

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) || protocol != IPPROTO_TCP)
		return 0;
	return !setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, every_s, sizeof(*every_s)) &&
	       !setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, every_s, sizeof(*every_s)) &&
	       !setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count)) &&
	       !setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Only epoll descriptors have lines "tfd: NUMBER". */
static int ucx_watched(int epoll_fd, int (*visit)(int fd, void *arg), void *arg, int depth)
{
	char path[48], line[200];
	int n = 0, fd;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll_fd);
	file = depth ? descriptor_read(path) : NULL;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "tfd: %d", &fd) == 1)
			n += visit(fd, arg) + ucx_watched(fd, visit, arg, depth - 1);
	if (file)
		fclose(file);
	return n;
}

int ucx_each_watched(int epoll_fd, int (*visit)(int fd, void *arg), void *arg)
{
	return ucx_watched(epoll_fd, visit, arg, UCX_PROBE_DEPTH);
}

void ucx_probe_accepted(struct ucx *u)
{
	CANCEL_OFF;
	int64_t alive_us = u->host->option_int(u->host, "keepalive");
	int every_s = (int)((alive_us + 999999) / 1000000);
	int n;

	u->new_peers = 0;
	if (!every_s || u->efd < 0 || secure_getenv("UCX_TCP_KEEPIDLE"))
		return;
	n = ucx_each_watched(u->efd, ucx_probe_socket, &every_s);
	kit_log(u->host, COLL_LOG_DEBUG, "the kernel probes %d of UCX's connections", n);
}
