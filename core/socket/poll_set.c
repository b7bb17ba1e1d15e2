/* SPDX-License-Identifier: BSD-3-Clause */
/* poll_set.c - one poll() for the descriptors of several users, until the earliest of their times. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "socket/socket.h"

int poll_set_init(struct poll_set *set, size_t capacity)
{
	set->fds = calloc(capacity, sizeof(*set->fds));
	set->count = 0;
	set->capacity = (int)capacity;
	if (set->fds == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to wait for %zu sockets", capacity);
	return 0;
}

void poll_set_free(struct poll_set *set)
{
	free(set->fds);
	set->fds = NULL;
}

void poll_set_begin(struct poll_set *set, int64_t wake)
{
	set->count = 0;
	set->wake = wake;
}

int poll_set_add(struct poll_set *set, int fd, short events)
{
	if (set->count == set->capacity)
		return -1;
	set->fds[set->count] = (struct pollfd){.fd = fd, .events = events};
	return set->count++;
}

void poll_set_wake(struct poll_set *set, int64_t time)
{
	if (time < set->wake)
		set->wake = time;
}

void poll_set_wait(struct poll_set *set)
{
	int64_t left = clock_remaining(set->wake);
	int n = poll(set->fds, (nfds_t)set->count, left > 60000 ? 60000 : (int)left);

	/* A failed poll (EINTR) counts as a poll without events. */
	for (int i = 0; n < 0 && i < set->count; i++)
		set->fds[i].revents = 0;
}

int poll_set_events(const struct poll_set *set, int index)
{
	return index < 0 ? 0 : set->fds[index].revents;
}
