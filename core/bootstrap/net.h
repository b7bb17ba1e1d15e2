/* SPDX-License-Identifier: BSD-3-Clause */
/* net.h - TCP addresses and non-blocking sockets for the bootstrap. */
#ifndef CORE_BOOTSTRAP_NET_H
#define CORE_BOOTSTRAP_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
	NET_MAX_ADDRS = 8,  /* one meeting point has at most so many */
	NET_ADDR_SIZE = 64, /* room for "[<IPv6>]:<port>" */
	NET_WHY_SIZE = 128
};

struct net_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

struct net_addrs {
	struct net_addr item[NET_MAX_ADDRS];
	int count;
};

/*
 * Addresses of this host that others can use, port 0: of the interface or address `name`, or, if it
 * is NULL or "", of all interfaces that are up, loopback last.  A name that does not exist is an
 * error that lists those that do.
 */
int net_local_addrs(const char *name, struct net_addrs *out);
/* "1.2.3.4:80" or "[::1]:80", numbers only; `what` begins the error text. */
int net_parse(const char *text, const char *what, struct net_addr *out);
/* The same with a host name; may block as long as the system's resolver does. */
int net_resolve(const char *text, const char *what, struct net_addrs *out);
void net_format(const struct net_addr *addr, char buf[NET_ADDR_SIZE]);
uint16_t net_port(const struct net_addr *addr);
void net_set_port(struct net_addr *addr, uint16_t port);
/* Address of the other end of fd, or "?". */
void net_format_peer(int fd, char buf[NET_ADDR_SIZE]);

/* All sockets below are non-blocking and close-on-exec. */

/* Listens at addr; port 0 is replaced by the one given by the system.  *err: errno of a failure. */
int net_listen(struct net_addr *addr, int *fd, int *err);
/* Listens at any address, IPv6 and IPv4, port as given or, for 0, from the system. */
int net_listen_any(uint16_t port, int *fd, uint16_t *bound);
/* Starts connecting: the socket, or -1 with errno. */
int net_connect_start(const struct net_addr *addr);
/* After the socket has become writable: 0, or the errno of the failed connect. */
int net_connect_result(int fd);
void net_tune(int fd);

/*
 * Move what can be moved now: the number of bytes, 0 if it would block, -1 with errno; a closed
 * connection is errno 0.
 */
ssize_t net_read(int fd, void *buf, size_t len);
ssize_t net_write(int fd, const void *buf, size_t len);
/* "Connection reset by peer"; for 0 "the connection was closed". */
const char *net_why(int err, char buf[NET_WHY_SIZE]);
/* poll until `deadline` (bootstrap_now's clock) for one descriptor: revents, 0 at the deadline. */
int net_poll_one(int fd, short events, int64_t deadline);

#endif
