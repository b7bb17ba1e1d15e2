/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_memory_test.c - every allocation of a call that the companion's transport does fails, one after the other, over a
 * stand-in for a backend that takes host memory.  A call that fails is not issued, or its communicator fails; a call that
 * succeeds keeps its order with the backend's next call.
 */
#include "../lib/thread_sanitizer.h"

#ifdef TESTS_THREAD_SANITIZER

#include "../lib/tap.h"

/* The dynamic loader allocates before this program could look up the replaced function. */
int main(void)
{
	skip_all("ThreadSanitizer does not let a program replace the allocator");
}

#else

#include "../lib/failing_malloc.h"
#include "../lib/ranks.h"

enum { RANKS = 2, MOST = 200, RUN_S = 60 };

/* One run: the ranks belong to one thread. */
struct run {
	coll_comm_t comm[RANKS];
	coll_request_t scan[RANKS]; /* NULL: the ranks call coll_scan */
	int64_t x[RANKS], y[RANKS], sum[RANKS];
	const char *fault; /* NULL: there is none */
};

static void fault(struct run *run, const char *what)
{
	if (!run->fault)
		run->fault = what;
}

static void run_begin(struct run *run, const char *backend, int requests)
{
	coll_config_t config;
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_SCAN,
			    .dtype = COLL_INT64,
			    .op = COLL_SUM,
			    .count = 1};

	ranks_config(&config, backend);
	*run = (struct run){.fault = NULL};
	if (coll_comm_init_all(run->comm, RANKS, NULL, &config))
		bail_out("init_all: %s", coll_get_last_error(NULL));
	for (int r = 0; r < RANKS; r++) {
		run->x[r] = r + 1;
		run->y[r] = run->sum[r] = -1;
		args.sendbuf = &run->x[r];
		args.recvbuf = &run->y[r];
		if (requests && coll_request_init(run->comm[r], &args, &run->scan[r]))
			bail_out("request_init: %s", coll_get_last_error(NULL));
	}
}

static void run_end(struct run *run)
{
	for (int r = 0; r < RANKS; r++) {
		if (run->scan[r])
			coll_request_free(run->scan[r]);
		coll_comm_destroy(run->comm[r]);
	}
}

static coll_result_t scan(struct run *run, int r)
{
	return run->scan[r] ? coll_request_start(run->scan[r])
			    : coll_scan(&run->x[r], &run->y[r], 1, COLL_INT64, COLL_SUM,
					run->comm[r], NULL);
}

static void sum(struct run *run, int r)
{
	if (coll_allreduce(&run->y[r], &run->sum[r], 1, COLL_INT64, COLL_SUM, run->comm[r], NULL))
		fault(run, "the sum fails");
}

/* The communicator is usable: rank 1 has issued its scan, which waits for that of rank 0. */
static void go_on(struct run *run)
{
	sum(run, 1);
	if (scan(run, 0))
		fault(run, "the scan of rank 0 fails");
	sum(run, 0);
	for (int r = 0; r < RANKS; r++)
		if (coll_sync(run->comm[r]))
			fault(run, "sync fails");
	if (run->y[0] != 1 || run->y[1] != 3)
		fault(run, "the scan is wrong");
	else if (run->sum[0] != 4 || run->sum[1] != 4)
		fault(run, "the sum has not waited for the scan");
}

/* Allocation n of the scan of rank 1 fails: 0 if the scan makes fewer. */
static int run_once(struct run *run, long n)
{
	coll_result_t code, error = COLL_SUCCESS;
	int is_memory;

	alloc_arm(n);
	code = scan(run, 1);
	alloc_disarm();
	is_memory = strstr(coll_get_last_error(NULL), "memory") != NULL;
	if (code && !is_memory)
		fault(run, "the error says nothing of memory");
	if (coll_comm_get_async_error(run->comm[1], &error))
		fault(run, "get_async_error fails");
	if (error) {
		if (coll_sync(run->comm[1]) != COLL_ERR_NO_MEMORY)
			fault(run, "the failure is not one of memory");
		coll_comm_abort(run->comm[0]);
		return alloc_hit();
	}
	if (code && scan(run, 1))
		fault(run, "the scan fails again");
	go_on(run);
	return alloc_hit();
}

static void test_scan(int requests)
{
	struct run run;
	const char *what = "";
	long n;
	int hit = 1;

	alarm(RUN_S);
	for (n = 0; hit && n < MOST;
	     n++) { /* 0: for the allocations that a process makes only once */
		run_begin(&run, "bare", requests);
		if (!n)
			alloc_find_code(NULL);
		hit = run_once(&run, n) || !n;
		run_end(&run);
		if (run.fault) {
			diag("allocation %ld: %s", n, run.fault);
			what = run.fault;
		}
	}
	alarm(0);
	ok(!*what && n > 2 && n < MOST, "%s: each of %ld allocations fails",
	   requests ? "a persistent scan" : "a scan", n - 2);
}

/* ------------------------------------------------------------------------- events -- */

enum { POLLS = 200 };

/* A communicator of one rank whose backend takes no host memory, so that nothing else orders its scan. */
static coll_comm_t lone_begin(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_config_t config;
	coll_comm_t comm;

	ranks_config(&config, "ondevice");
	if (coll_get_unique_id(id, sizeof(id)) || coll_comm_init_rank(&comm, 1, id, 0, &config))
		bail_out("init_rank: %s", coll_get_last_error(NULL));
	return comm;
}

/* Has the newest call of the communicator ended, after many questions? */
static int lone_ends(struct run *run, coll_comm_t comm)
{
	coll_request_t request;
	int32_t done = 0;

	if (coll_get_request(comm, &request)) {
		fault(run, "no request");
		return 0;
	}
	for (int i = 0; i < POLLS && !done; i++)
		if (coll_test(request, &done))
			fault(run, "the scan fails");
	coll_request_free(request);
	return done;
}

static coll_result_t lone_scan(coll_comm_t comm, int64_t *x)
{
	return coll_scan(x, x, 1, COLL_INT64, COLL_SUM, comm, NULL);
}

/* The scan behind an event of another communicator fails at allocation n, and is issued again: it still waits. */
static int run_behind_event(struct run *run, coll_comm_t comm, long n)
{
	coll_event_t event = NULL;
	coll_result_t code;
	int64_t x = 1;
	int hit;

	if (coll_event_create(run->comm[1], &event) || scan(run, 1) ||
	    coll_event_record(event, run->comm[1]) || coll_comm_wait_event(comm, event))
		fault(run, "no event");
	alloc_arm(n);
	code = lone_scan(comm, &x);
	alloc_disarm();
	hit = alloc_hit();
	coll_event_destroy(event);
	if (code && code != COLL_ERR_NO_MEMORY)
		fault(run, "the scan fails with another code");
	if (code && lone_scan(comm, &x))
		fault(run, "the scan fails again");
	if (lone_ends(run, comm))
		fault(run, "the scan has not waited for the event");
	if (scan(run, 0) || coll_sync(run->comm[0]) || coll_sync(run->comm[1]) || coll_sync(comm))
		fault(run, "the event does not come");
	return hit;
}

static void test_event(void)
{
	const char *what = "";
	struct run run;
	coll_comm_t comm;
	long n;
	int hit = 1;

	alarm(RUN_S);
	for (n = 0; hit && n < MOST; n++) {
		run_begin(&run, "simulated", 0);
		comm = lone_begin();
		if (!n)
			alloc_find_code(NULL);
		hit = run_behind_event(&run, comm, n) || !n;
		coll_comm_destroy(comm);
		run_end(&run);
		if (run.fault) {
			diag("allocation %ld: %s", n, run.fault);
			what = run.fault;
		}
	}
	alarm(0);
	ok(!*what && n > 2 && n < MOST, "a scan behind an event: each of %ld allocations fails",
	   n - 2);
}

int main(void)
{
	ranks_plugins(".libs", "tests/plugins/.libs");
	setenv("COLL_TIMEOUT", "3s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	test_scan(0);
	test_scan(1);
	test_event();
	return done_testing();
}

#endif
