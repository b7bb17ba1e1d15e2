/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.c - stream sockets: listen, connect, move bytes without blocking, wait for several until the earliest of their times. */
#include "socket/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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

static int socket_make(int family, int protocol)
{
	const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

	return descriptor_lift(socket(family, type, protocol));
}

int socket_new(int family)
{
	return socket_make(family, 0);
}

int socket_new_multipath(int family)
{
	return socket_make(family, SOCKET_MULTIPATH);
}

int socket_new_for(const struct address *address)
{
	int family = address->sa.ss_family;
	int fd = address->multipath ? socket_new_multipath(family) : -1;

	return fd < 0 ? socket_new(family) : fd;
}

static int socket_bind_listen(int fd, struct address *address)
{
	int one = 1;

	if (address->sa.ss_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address->any, address->len) < 0 || listen(fd, SOMAXCONN) < 0)
		return -1;
	return getsockname(fd, &address->any, &address->len);
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

	*fd = socket_new_for(address);
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
	if (connect(fd, &address->any, address->len) == 0)
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

/* ------------------------------------------------------- several descriptors -- */

/* The most descriptors of a set that waits by poll(), and the most events of one wait by epoll. */
enum { POLL_SET_SMALL = 16, POLL_SET_EVENTS = 128 };

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR &&
		       POLLHUP == EPOLLHUP,
	       "the events of poll() and epoll have the same numbers");

void poll_set_init_small(struct poll_set *set, struct pollfd *fds, int capacity)
{
	*set = (struct poll_set){.fds = fds, .capacity = capacity, .epoll_fd = -1};
}

int poll_set_init(struct poll_set *set, size_t capacity)
{
	struct pollfd *fds = calloc(capacity, sizeof(*fds));

	poll_set_init_small(set, fds, (int)capacity);
	if (fds == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to wait for %zu sockets", capacity);
	if (capacity > POLL_SET_SMALL)
		set->ready = calloc(POLL_SET_EVENTS, sizeof(*set->ready));
	return 0;
}

/* From now on the set waits by poll(). */
static void poll_set_leave_epoll(struct poll_set *set)
{
	if (set->epoll_fd >= 0)
		close(set->epoll_fd);
	set->epoll_fd = -1;
	set->nready = 0;
	free(set->ready);
	set->ready = NULL;
}

void poll_set_free(struct poll_set *set)
{
	if (set->fds == NULL)
		return;
	poll_set_leave_epoll(set);
	free(set->fds);
	set->fds = NULL;
}

void poll_set_begin(struct poll_set *set, int64_t wake)
{
	set->wake = wake;
}

/* epoll watches the place as its entry says.  If the system refuses this, poll() watches all places. */
static void poll_set_control(struct poll_set *set, int operation, int place)
{
	struct epoll_event event = {.events = (uint16_t)set->fds[place].events,
				    .data.u32 = (uint32_t)place};

	if (set->epoll_fd >= 0 &&
	    epoll_ctl(set->epoll_fd, operation, set->fds[place].fd, &event) != 0)
		poll_set_leave_epoll(set);
}

/* From now on the set waits by epoll.  A set of few descriptors needs no further one for epoll itself. */
static void poll_set_enter_epoll(struct poll_set *set)
{
	set->epoll_fd = descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
	if (set->epoll_fd < 0) {
		poll_set_leave_epoll(set);
		return;
	}
	for (int place = 0; place < set->used; place++) {
		set->fds[place].revents = 0; /* the next wait sees the events again */
		if (set->fds[place].fd >= 0)
			poll_set_control(set, EPOLL_CTL_ADD, place);
	}
}

static int poll_set_is_large(const struct poll_set *set)
{
	return set->ready != NULL && set->epoll_fd < 0 && set->used > POLL_SET_SMALL;
}

void poll_set_watch(struct poll_set *set, int *place, int fd, short events)
{
	if (*place < 0 && set->free == set->capacity)
		return;
	if (*place < 0) {
		*place = set->free;
		set->free = *place < set->used ? ~set->fds[*place].fd : *place + 1;
		set->used += *place == set->used;
		set->fds[*place] = (struct pollfd){.fd = fd, .events = events};
		if (poll_set_is_large(set))
			poll_set_enter_epoll(set);
		else
			poll_set_control(set, EPOLL_CTL_ADD, *place);
	} else if (set->fds[*place].events != events) {
		set->fds[*place].events = events;
		poll_set_control(set, EPOLL_CTL_MOD, *place);
	}
}

void poll_set_unwatch(struct poll_set *set, int *place)
{
	if (*place < 0)
		return;
	/* A child that was forked may keep the descriptor open, so its end alone would not end the watch. */
	poll_set_control(set, EPOLL_CTL_DEL, *place);
	set->fds[*place] = (struct pollfd){.fd = ~set->free};
	set->free = *place;
	*place = -1;
}

void poll_set_wake(struct poll_set *set, int64_t time)
{
	if (time < set->wake)
		set->wake = time;
}

/* A failed wait (EINTR) counts as a wait without events. */
static void poll_set_wait_epoll(struct poll_set *set, int timeout_ms)
{
	struct epoll_event events[POLL_SET_EVENTS];

	for (int i = 0; i < set->nready; i++)
		set->fds[set->ready[i]].revents = 0;
	set->nready = epoll_wait(set->epoll_fd, events, POLL_SET_EVENTS, timeout_ms);
	if (set->nready < 0)
		set->nready = 0;
	for (int i = 0; i < set->nready; i++) {
		set->ready[i] = (int)events[i].data.u32;
		set->fds[set->ready[i]].revents = (short)events[i].events;
	}
}

void poll_set_wait(struct poll_set *set)
{
	int64_t left = clock_remaining(set->wake);
	int timeout_ms = left > 60000 ? 60000 : (int)left;

	if (set->epoll_fd >= 0) {
		poll_set_wait_epoll(set, timeout_ms);
		return;
	}
	if (poll(set->fds, (nfds_t)set->used, timeout_ms) >= 0)
		return;
	for (int i = 0; i < set->used; i++)
		set->fds[i].revents = 0;
}

int poll_set_events(const struct poll_set *set, int place)
{
	return place < 0 ? 0 : set->fds[place].revents;
}

int poll_set_next(const struct poll_set *set, int *cursor)
{
	int all = set->epoll_fd >= 0 ? set->nready : set->used;

	while (*cursor < all) {
		int place = set->epoll_fd >= 0 ? set->ready[*cursor] : *cursor;

		++*cursor;
		if (poll_set_events(set, place))
			return place;
	}
	return -1;
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
