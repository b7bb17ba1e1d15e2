/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll_set_test.c - a poll set sees the same events whether it waits by poll(), because it has few descriptors or
 * because none is left for epoll, or by epoll; and it uses the places again that its users give up.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "socket/socket.h"
#include "../lib/tap.h"

/* CROWD: one more than a set that waits by poll() has. */
enum { PAIRS = 8, LARGE = 64, CROWD = 17, WAIT_MS = 20000 };

struct pair {
	int fd[2], place;
};

/* Waits; returns the number of descriptors with events, if all of them are among `wanted` (bits). */
static int wait_for(struct poll_set *set, const struct pair *pairs, unsigned wanted, int64_t ms)
{
	int found = 0, seen = 0, cursor = 0, place;

	poll_set_begin(set, clock_deadline(ms));
	poll_set_wait(set);
	while ((place = poll_set_next(set, &cursor)) >= 0) {
		int i = 0;

		while (i < PAIRS && pairs[i].place != place)
			i++;
		found += i < PAIRS && wanted & 1u << i ? 1 : 100;
	}
	for (int i = 0; i < PAIRS; i++)
		seen += poll_set_events(set, pairs[i].place) != 0;
	return seen == found ? found : -1;
}

static void test_events(struct poll_set *set, const char *how)
{
	struct pair pairs[PAIRS];
	char byte;
	int none = -1, place;

	for (int i = 0; i < PAIRS; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pairs[i].fd))
			bail_out("socketpair");
		pairs[i].place = -1;
		poll_set_watch(set, &pairs[i].place, pairs[i].fd[0], POLLIN);
	}
	is_int(wait_for(set, pairs, 0, 0), 0, "%s: no events", how);
	ok(write(pairs[2].fd[1], "x", 1) == 1 && write(pairs[5].fd[1], "x", 1) == 1,
	   "2 and 5 write");
	is_int(wait_for(set, pairs, 1u << 2 | 1u << 5, WAIT_MS), 2, "%s: both are seen", how);
	is_int(wait_for(set, pairs, 1u << 2 | 1u << 5, WAIT_MS), 2,
	       "and again, until they are read");
	ok(read(pairs[2].fd[0], &byte, 1) == 1, "2 is read");
	is_int(wait_for(set, pairs, 1u << 5, WAIT_MS), 1, "%s: then 5 alone", how);
	poll_set_watch(set, &pairs[7].place, pairs[7].fd[0], POLLOUT);
	is_int(wait_for(set, pairs, 1u << 5 | 1u << 7, WAIT_MS), 2, "%s: 7 can be written to", how);
	poll_set_watch(set, &pairs[7].place, pairs[7].fd[0], POLLIN);
	place = pairs[5].place;
	poll_set_unwatch(set, &pairs[5].place);
	poll_set_unwatch(set, &none);
	is_int(pairs[5].place, -1, "5 has left");
	is_int(wait_for(set, pairs, 0, 0), 0, "%s: nobody hears it any more", how);
	poll_set_watch(set, &pairs[5].place, pairs[5].fd[0], POLLIN);
	is_int(pairs[5].place, place, "5 is back at its place");
	close(pairs[3].fd[1]);
	is_int(wait_for(set, pairs, 1u << 3 | 1u << 5, WAIT_MS), 2, "%s: the end of 3 is seen",
	       how);
	pairs[3].fd[1] = -1;
	for (int i = 0; i < PAIRS; i++) {
		poll_set_unwatch(set, &pairs[i].place);
		close(pairs[i].fd[0]);
		if (pairs[i].fd[1] >= 0)
			close(pairs[i].fd[1]);
	}
}

static void test_full(void)
{
	struct pollfd fds[2];
	struct poll_set set;
	int place[3] = {-1, -1, -1};

	poll_set_init_small(&set, fds, 2);
	for (int i = 0; i < 3; i++)
		poll_set_watch(&set, &place[i], STDIN_FILENO, 0);
	ok(place[0] == 0 && place[1] == 1 && place[2] == -1, "a full set takes no more");
	poll_set_unwatch(&set, &place[0]);
	poll_set_unwatch(&set, &place[1]);
	for (int i = 0; i < 3; i++)
		poll_set_watch(&set, &place[i], STDIN_FILENO, 0);
	ok(place[0] >= 0 && place[1] >= 0 && place[0] != place[1] && place[2] == -1,
	   "and has its two places again");
}

/* Descriptors without events, so many that the set waits by epoll if it can. */
struct crowd {
	int fd[CROWD], place[CROWD], pipe[2];
};

static void crowd_watch(struct crowd *crowd, struct poll_set *set, int from, int to)
{
	for (int i = from; i < to; i++)
		poll_set_watch(set, &crowd->place[i], crowd->fd[i], POLLIN);
}

static void crowd_begin(struct crowd *crowd, struct poll_set *set)
{
	if (poll_set_init(set, LARGE) || pipe(crowd->pipe))
		bail_out("no set");
	for (int i = 0; i < CROWD; i++) {
		crowd->place[i] = -1;
		crowd->fd[i] = dup(crowd->pipe[0]);
	}
	crowd_watch(crowd, set, 0, CROWD - 1);
	is_int(set->epoll_fd, -1, "%d descriptors need none for epoll", CROWD - 1);
}

static void crowd_end(struct crowd *crowd, struct poll_set *set)
{
	for (int i = 0; i < CROWD; i++) {
		poll_set_unwatch(set, &crowd->place[i]);
		close(crowd->fd[i]);
	}
	close(crowd->pipe[0]);
	close(crowd->pipe[1]);
	poll_set_free(set);
}

static void test_epoll(void)
{
	struct crowd crowd;
	struct poll_set set;

	crowd_begin(&crowd, &set);
	crowd_watch(&crowd, &set, CROWD - 1, CROWD);
	ok(set.epoll_fd >= 0, "one more, and the set has epoll");
	test_events(&set, "epoll");
	crowd_end(&crowd, &set);
}

/* The set begins with poll(), and has epoll once the pairs are in it. */
static void test_change(void)
{
	struct crowd crowd;
	struct poll_set set;

	crowd_begin(&crowd, &set);
	test_events(&set, "from poll() to epoll");
	ok(set.epoll_fd >= 0, "with the pairs the set has epoll");
	crowd_end(&crowd, &set);
}

/* No descriptor is left for epoll. */
static void test_without_epoll(void)
{
	struct rlimit limit, none;
	struct crowd crowd;
	struct poll_set set;

	crowd_begin(&crowd, &set);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		bail_out("getrlimit");
	none = limit;
	none.rlim_cur = 0;
	if (setrlimit(RLIMIT_NOFILE, &none))
		bail_out("setrlimit");
	crowd_watch(&crowd, &set, CROWD - 1, CROWD);
	if (setrlimit(RLIMIT_NOFILE, &limit))
		bail_out("setrlimit");
	is_int(set.epoll_fd, -1, "no descriptor is left for epoll");
	test_events(&set, "a large set without epoll");
	crowd_end(&crowd, &set);
}

int main(void)
{
	struct pollfd fds[PAIRS];
	struct poll_set set;

	poll_set_init_small(&set, fds, PAIRS);
	test_events(&set, "a small set");
	test_epoll();
	test_change();
	test_without_epoll();
	test_full();
	return done_testing();
}
