/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start_test.c - while ranks meet and connect, a wait costs what its events cost and not what its sockets cost:
 * counts the descriptors that all ranks hand to poll().
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <coll/coll.h>

#include "../lib/tap.h"

enum {
	START_RANKS = 32,
	START_PAIRS = START_RANKS * (START_RANKS - 1) / 2,
	/*
	 * Most descriptors for each pair of ranks: 3 on a quiet machine, 8 where waits end in vain.  Ranks that handed all
	 * their sockets to each poll() would need 60.
	 */
	START_POLLED = 24
};

static _Atomic long start_polled;

/* Takes the place of the C library's function, also for plugins. */
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int);
	void *symbol = dlsym(RTLD_NEXT, "poll");

	memcpy(&next, &symbol, sizeof(next));
	atomic_fetch_add(&start_polled, (long)n);
	return next(fds, n, timeout_ms);
}

struct start_rank {
	pthread_t thread;
	const char *id;
	int rank;
	coll_comm_t comm;
	char failure[300];
};

static void *start_rank(void *user)
{
	struct start_rank *r = user;

	if (coll_comm_init_rank(&r->comm, START_RANKS, r->id, r->rank, NULL))
		snprintf(r->failure, sizeof(r->failure), "%s", coll_get_last_error(NULL));
	return NULL;
}

static void *start_sum(void *user)
{
	struct start_rank *r = user;
	int32_t sum = 0;

	if (coll_allreduce(&r->rank, &sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL) ||
	    coll_sync(r->comm))
		snprintf(r->failure, sizeof(r->failure), "%s", coll_get_last_error(r->comm));
	else if (sum != START_PAIRS)
		snprintf(r->failure, sizeof(r->failure), "the sum of the ranks is %d", (int)sum);
	coll_comm_destroy(r->comm);
	return NULL;
}

/* Runs the function as all ranks; returns how many have failed. */
static int start_all(struct start_rank *ranks, void *(*fn)(void *))
{
	int failed = 0;

	for (int i = 0; i < START_RANKS; i++)
		if (pthread_create(&ranks[i].thread, NULL, fn, &ranks[i]))
			bail_out("cannot start a thread");
	for (int i = 0; i < START_RANKS; i++) {
		pthread_join(ranks[i].thread, NULL);
		if (ranks[i].failure[0])
			diag("rank %d: %s", i, ranks[i].failure);
		failed += ranks[i].failure[0] != '\0';
	}
	return failed;
}

int main(void)
{
	static struct start_rank ranks[START_RANKS];
	char id[COLL_UNIQUE_ID_SIZE];

	setenv("COLL_BACKEND", "tcp", 1);
	setenv("COLL_INTERFACE", "lo", 1);
	if (coll_get_unique_id(id, sizeof(id)))
		bail_out("%s", coll_get_last_error(NULL));
	for (int i = 0; i < START_RANKS; i++) {
		ranks[i].rank = i;
		ranks[i].id = id;
	}
	if (!is_int(start_all(ranks, start_rank), 0, "%d ranks meet and connect", START_RANKS))
		return done_testing();
	diag("%ld descriptors polled, %.1f for each pair of ranks", atomic_load(&start_polled),
	     (double)atomic_load(&start_polled) / START_PAIRS);
	ok(atomic_load(&start_polled) > 0, "the calls of poll() were counted");
	ok(atomic_load(&start_polled) <= START_POLLED * START_PAIRS,
	   "they hand at most %d descriptors to poll() for each pair", START_POLLED);
	is_int(start_all(ranks, start_sum), 0, "then all ranks have the sum of all");
	return done_testing();
}
