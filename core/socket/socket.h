/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - stream sockets that never block: listen, connect, move bytes, wait for several. */
#ifndef CORE_SOCKET_SOCKET_H
#define CORE_SOCKET_SOCKET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "socket/address.h"

enum { SOCKET_WHY_SIZE = 128 };

/* All sockets below are non-blocking and close-on-exec. */

/* Multipath TCP, for socket() and of SO_PROTOCOL; older headers do not have IPPROTO_MPTCP. */
enum { SOCKET_MULTIPATH = 262 };

/* Returns a socket that is not connected, or -1 with errno. */
int socket_new(int family);
/* The same of Multipath TCP, which may use several links at a time. */
int socket_new_multipath(int family);
/* A socket that can listen at the address or connect to it: of TCP if the kernel refuses Multipath TCP. */
int socket_new_for(const struct address *address);
/* Starts a connect.  Returns 0 if it has begun or is complete, or -1 with errno. */
int socket_connect(int fd, const struct address *address);
/* After the socket has become writable.  Returns 0, or the errno of the failed connect. */
int socket_connect_result(int fd);

/* Sets options of a socket before it listens or connects.  local: both ends are on this host. */
typedef void (*socket_tune_fn)(const void *user, int fd, int family, int local);

/* Listens at the address; the system gives a port in place of port 0.  tune may be NULL.  *err: errno of a failure. */
int socket_listen(struct address *address, socket_tune_fn tune, const void *user, int *fd,
		  int *err);
/* Listens at all IPv6 and IPv4 addresses of the host.  Port 0: the system chooses the port. */
int socket_listen_any(uint16_t port, int *fd, uint16_t *bound, int *err);
/* Sets TCP_NODELAY: small messages are sent at once. */
void socket_no_delay(int fd);
/*
 * on: from now on the kernel probes the peer after each second of silence, so that a connection of which only
 * this end knows ends with ECONNRESET, and one to a host that is gone with ETIMEDOUT after 10 s.
 */
void socket_keep_alive(int fd, int on);
/* Did accept() fail for lack of descriptors or memory?  A later accept() may work. */
int socket_is_exhausted(int err);

/*
 * Move as many bytes as the kernel takes now and return their number; 0: the call would block; -1 with
 * errno, which is 0 for a closed connection.
 */
ssize_t socket_read(int fd, void *buf, size_t len);
ssize_t socket_write(int fd, const void *buf, size_t len);
/* "Connection reset by peer"; for 0 "the connection was closed". */
const char *socket_why(int err, char buf[SOCKET_WHY_SIZE]);
/* Polls one descriptor until `deadline`: returns revents, or 0 at the deadline. */
int socket_poll(int fd, short events, int64_t deadline);

/* ---- several descriptors: each user adds its own once, and remembers their places ---- */

/*
 * A set of many descriptors waits by epoll, so that a wait costs what its events cost and not what its descriptors
 * cost.  A set of few, and one for which the system has no epoll descriptor, waits by poll().
 */
struct poll_set {
	struct pollfd *fds; /* fd < 0: the place is free, and ~fd is the next free place */
	int capacity;
	int used;     /* the places from here on have never been used */
	int free;     /* the first free place below `used`, or `used` */
	int64_t wake; /* the latest end of the wait */
	int epoll_fd; /* -1: poll() */
	int *ready;   /* with epoll: the places with events of the last wait; NULL: never epoll */
	int nready;
};

/* Makes a set for that many descriptors.  poll_set_free accepts a set of zeros. */
int poll_set_init(struct poll_set *set, size_t capacity);
/* Makes a small set in memory of the caller, which needs no poll_set_free. */
void poll_set_init_small(struct poll_set *set, struct pollfd *fds, int capacity);
void poll_set_free(struct poll_set *set);
void poll_set_begin(struct poll_set *set, int64_t wake);
/*
 * Waits for these events of the descriptor from now on.  *place: -1 when the descriptor is new to the set; its place
 * in the set afterwards, or -1 if the set is full.
 */
void poll_set_watch(struct poll_set *set, int *place, int fd, short events);
/* Forgets the descriptor, which is still open, and sets *place to -1. */
void poll_set_unwatch(struct poll_set *set, int *place);
/* The next wait ends at that time, or earlier. */
void poll_set_wake(struct poll_set *set, int64_t time);
void poll_set_wait(struct poll_set *set);
/* The events of the descriptor at that place; 0 for the place -1. */
int poll_set_events(const struct poll_set *set, int place);
/* The next place with events, or -1.  *cursor is 0 before the first call after a wait. */
int poll_set_next(const struct poll_set *set, int *cursor);

#endif
