/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_limit_test.c - a wait does not last beyond a limit: a thread never goes to sleep for longer than the next limit of
 * an operation or a message is away, nor once more after the message that it waits for; and coll_wait_for ends while
 * another thread keeps the lock of the communicator.
 *
 * The test's ppoll stands before that of the C library, and notes how long the library asks to sleep, and how often
 * nothing wakes it.  Both ranks are in this process.  Arguments: the backends; without any, simulated and tcp.
 */
#include "../lib/kept_lock.h"
#include "../lib/ranks.h"

#include <dlfcn.h>
#include <poll.h>

/* A sleep of the library lasts 100 ms, if nothing is due before. */
enum { NRANKS = 2, LIMIT_MS = 80, SLEEP_MS = 100, FAR_MS = 100000 };

static const char *backend;
static coll_comm_t comms[NRANKS];

/* ------------------------------------------------------------------------ sleeps -- */

static int64_t longest_us;           /* of the sleeps since the limit was set */
static int in_vain;                  /* the sleeps that lasted to their end */
static void *(*at_sleep)(void *arg); /* a thread runs it before the next sleep */

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t n,
						 const struct timespec *t, const sigset_t *mask)
{
	static int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	const int64_t us = t ? (int64_t)t->tv_sec * 1000000 + t->tv_nsec / 1000 : INT64_MAX;
	void *(*first)(void *arg) = at_sleep;
	pthread_t thread;
	int events;

	at_sleep = NULL;
	if (first && (pthread_create(&thread, NULL, first, NULL) || pthread_join(thread, NULL)))
		bail_out("no thread");
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ppoll");
	longest_us = us > longest_us ? us : longest_us;
	events = real(fds, n, t, mask);
	in_vain += !events;
	return events;
}

static void open_comms(void)
{
	coll_config_t config;

	ranks_config(&config, backend);
	config.timeout_ms = FAR_MS;
	if (coll_comm_init_all(comms, NRANKS, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
}

static void close_comms(void)
{
	for (int r = 0; r < NRANKS; r++)
		coll_comm_destroy(comms[r]);
}

static void limit(coll_request_t request)
{
	longest_us = 0;
	is_int(coll_request_set_timeout(request, LIMIT_MS), 0, "%s: a limit", backend);
}

static void check_sleeps(const char *what)
{
	ok(longest_us <= LIMIT_MS * 1000, "%s: %s sleeps for %lld us at most", backend, what,
	   (long long)longest_us);
}

/* Rank 1 does not come. */
static void test_operation(void)
{
	coll_request_t request = NULL;
	int64_t x = 1, y;

	open_comms();
	coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, comms[0], NULL);
	coll_get_request(comms[0], &request);
	limit(request);
	is_int(coll_sync(comms[0]), COLL_ERR_TIMEOUT, "%s: the operation is late", backend);
	check_sleeps("coll_sync");
	coll_request_free(request);
	close_comms();
}

/* The limit that ends first is that of the operation which was issued last. */
static void test_later_operation(void)
{
	coll_request_t requests[2] = {NULL, NULL};
	int64_t x = 1, y[2];

	open_comms();
	for (int i = 0; i < 2; i++) {
		coll_allreduce(&x, &y[i], 1, COLL_INT64, COLL_SUM, comms[0], NULL);
		coll_get_request(comms[0], &requests[i]);
	}
	is_int(coll_request_set_timeout(requests[0], FAR_MS / 2), 0, "%s: a late limit", backend);
	limit(requests[1]);
	is_int(coll_wait_for(requests[1], FAR_MS / 10), COLL_ERR_TIMEOUT,
	       "%s: the second operation is late", backend);
	for (int i = 0; i < 2; i++)
		coll_request_free(requests[i]);
	close_comms();
}

static void test_message(void)
{
	coll_request_t request = NULL;
	int64_t x;

	open_comms();
	coll_irecv(&x, 1, COLL_INT64, 1, 3, comms[0], &request);
	limit(request);
	is_int(coll_wait(request), COLL_ERR_TIMEOUT, "%s: the message is late", backend);
	check_sleeps("coll_wait");
	coll_request_free(request);
	close_comms();
}

static coll_request_t sent;

static void *send_message(void *arg)
{
	static const int64_t x = 5;

	coll_isend(&x, 1, COLL_INT64, 0, 3, comms[1], &sent);
	return arg;
}

static void receive_message(const char *what)
{
	coll_request_t request = NULL;
	int32_t index = -1;
	int64_t x = 0;

	coll_irecv(&x, 1, COLL_INT64, 1, 3, comms[0], &request);
	in_vain = 0;
	is_int(coll_wait_any(1, &request, FAR_MS, &index), 0, "%s: %s", backend, what);
	is_int(x, 5, "%s: its number", backend);
	coll_request_free(request);
	is_int(coll_wait(sent), 0, "%s: it is sent", backend);
	coll_request_free(sent);
}

/* With the first message a backend may still make the way for those that follow. */
static void test_wait_any(void)
{
	open_comms();
	send_message(NULL);
	receive_message("a message is there");
	at_sleep = send_message;
	receive_message("a message comes while the thread sleeps");
	is_int(in_vain, 0, "%s: no sleep follows", backend);
	close_comms();
}

/* Without a limit a sleep is longer: else the checks above check nothing. */
static void test_without_limit(void)
{
	coll_request_t request = NULL;
	int64_t x;

	open_comms();
	coll_irecv(&x, 1, COLL_INT64, 1, 3, comms[0], &request);
	longest_us = 0;
	is_int(coll_comm_set_timeout(comms[0], 2 * SLEEP_MS), 0, "%s: no limit", backend);
	is_int(coll_wait(request), COLL_ERR_TIMEOUT, "%s: the communicator's timeout", backend);
	ok(longest_us > LIMIT_MS * 1000, "%s: the thread sleeps for %lld us", backend,
	   (long long)longest_us);
	coll_request_free(request);
	close_comms();
}

/* ---------------------------------------------------------------- a lock that is kept -- */

static int64_t numbers[NRANKS];

static void *add(void *arg)
{
	const int r = arg == NULL;
	coll_op_t op;

	if (!coll_red_op_create_user(&op, kept_reduce, arg, 1, comms[r]) &&
	    !coll_allreduce(&numbers[r], &numbers[r], 1, COLL_INT64, op, comms[r], NULL))
		coll_sync(comms[r]);
	return NULL;
}

/* The program's function does not return before the wait has, for which it is no reason to be late. */
static void test_kept_lock(void)
{
	coll_request_t request = NULL;
	pthread_t threads[NRANKS];
	int64_t x;

	kept_begin();
	open_comms();
	coll_irecv(&x, 1, COLL_INT64, 1, 3, comms[0], &request);
	for (int r = 0; r < NRANKS; r++)
		if (pthread_create(&threads[r], NULL, add, r ? NULL : &kept_inside))
			bail_out("cannot start a thread");
	while (!atomic_load(&kept_inside))
		ranks_sleep(0.001);
	is_int(coll_wait_for(request, LIMIT_MS), COLL_IN_PROGRESS,
	       "%s: coll_wait_for ends while another thread is in a function of the program",
	       backend);
	atomic_store(&kept_goes, 1);
	for (int r = 0; r < NRANKS; r++)
		pthread_join(threads[r], NULL);
	is_int(coll_wait_for(request, 1), COLL_IN_PROGRESS, "%s: and later as well", backend);
	coll_request_free(request);
	close_comms();
}

int main(int argc, char **argv)
{
	static char *usual[] = {"simulated", "tcp"};
	char **backends = argc > 1 ? argv + 1 : usual;
	const int n = argc > 1 ? argc - 1 : 2;

	setenv("COLL_YIELD", "0", 1); /* a rank that waits sleeps at once */
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	for (int i = 0; i < n; i++) {
		backend = backends[i];
		if (!ranks_can(backend))
			continue;
		test_operation();
		test_later_operation();
		test_message();
		test_wait_any();
		test_without_limit();
		test_kept_lock();
	}
	return done_testing();
}
