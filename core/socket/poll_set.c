/* SPDX-License-Identifier: BSD-3-Clause */
/* poll_set.c - one wait for the descriptors of several users, until the earliest of their times. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "socket/socket.h"

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
