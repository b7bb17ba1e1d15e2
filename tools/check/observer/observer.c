/* SPDX-License-Identifier: BSD-3-Clause */
/* observer.c - checks of an observer.  The kit drives it as the core does; two checks go through libcoll itself. */
#include "check/observer/observer.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "check/observer/drive.h"
#include "lib/tool.h"

enum {
	OBSERVER_STATES = 16,
	OBSERVER_THREADS = 4,
	OBSERVER_CALLS = 2000,
	OBSERVER_LONGEST_MS =
		1000, /* of one event: a busy machine may stop the thread for a while */
	OBSERVER_MEAN_US = 50
};

void check_observer_needs(struct check_case *c)
{
	(void)c;
}

/* -------------------------------------------------------------------------- finding -- */

const char *check_observer_path(const char *name)
{
	static char path[4096];
	coll_observer_info_t info = {.size = sizeof(info)};
	coll_info_t picture;

	path[0] = '\0';
	tool_probe_apart();
	if (coll_info_create(NULL, &picture))
		return NULL;
	for (int i = 0; i < coll_info_observer_count(picture); i++)
		if (!coll_info_observer(picture, i, &info) && !strcmp(info.name, name) && !path[0])
			snprintf(path, sizeof(path), "%s", info.path);
	coll_info_destroy(picture);
	return path[0] ? path : NULL;
}

void check_observer_find_backends(char *path, size_t size)
{
	coll_backend_info_t info = {.size = sizeof(info)};
	coll_info_t picture;
	char dir[4096];
	size_t n = 0;

	path[0] = '\0';
	tool_probe_apart();
	if (coll_info_create(NULL, &picture))
		return;
	for (int i = 0; i < coll_info_backend_count(picture) && n < size; i++) {
		if (coll_info_backend(picture, i, &info))
			continue;
		snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(info.path, '/') - info.path),
			 info.path);
		if (!strstr(path, dir))
			n += (size_t)snprintf(path + n, size - n, "%s%s", n ? ":" : "", dir);
	}
	coll_info_destroy(picture);
}

/* ---------------------------------------------------------------------- the table -- */

/* libcoll says why it refuses an observer. */
static void observer_taken(struct check_case *c)
{
	coll_observer_info_t info = {.size = sizeof(info)};
	coll_info_t picture;
	int found = 0;

	if (coll_info_create(NULL, &picture)) {
		check_fail(c, "libcoll: %.400s", coll_get_last_error(NULL));
		return;
	}
	for (int i = 0; i < coll_info_observer_count(picture) && !found; i++)
		found = !coll_info_observer(picture, i, &info) && info.named && info.path[0];
	if (!found)
		check_fail(c, "libcoll does not find it by its name, '%s'", c->options->name);
	else if (info.code)
		check_fail(c, "%.500s", info.reason);
	else if (info.wants & ~127u)
		check_fail(c, "it wants events that observer.h does not have: wants is 0x%x",
			   info.wants);
	else if (!info.description[0])
		check_fail(c, "it has no description: `coll info` shows it to users");
	coll_info_destroy(picture);
}

const struct check check_observer_table_checks[] = {
	{.name = "taken",
	 .says = "libcoll finds it, and takes its table and its options",
	 .promise = "coll_observer_t",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = observer_taken},
	{.name = NULL},
};

/* --------------------------------------------------------------------------- states -- */

static void observer_states(struct check_case *c)
{
	static struct drive d[OBSERVER_STATES];
	int n = 0;

	while (n < OBSERVER_STATES && !drive_open(&d[n], c, n % 8))
		n++;
	for (int i = 0; i < n; i++)
		drive_comm(&d[i], 1, COLL_OBSERVED_BEGIN);
	for (int i = 0; i < n; i++)
		drive_call(&d[i], 1, 1, COLL_KIND_ALLREDUCE, COLL_SUCCESS);
	for (int i = 0; i < n; i++)
		drive_comm(&d[i], 1, COLL_OBSERVED_END);
	while (n-- > 0)
		drive_close(&d[n]);
}

/* A state that is told of nothing. */
static void observer_empty(struct check_case *c)
{
	struct drive d;

	if (!drive_open(&d, c, 0))
		drive_close(&d);
}

/* --------------------------------------------------------------------------- events -- */

static void observer_talk(struct drive *d)
{
	drive_comm(d, 1, COLL_OBSERVED_BEGIN);
	for (uint64_t i = 1; i <= 100; i++) {
		drive_call(d, 1, i, 1 + (int32_t)i % COLL_KIND_BARRIER, COLL_SUCCESS);
		drive_call(d, 1, i, COLL_KIND_SEND, COLL_SUCCESS);
	}
	drive_comm(d, 1, COLL_OBSERVED_END);
}

static void observer_events(struct check_case *c)
{
	struct drive d;

	if (drive_open(&d, c, 0))
		return;
	observer_talk(&d);
	drive_close(&d);
}

/* Several calls are open at a time, and end in another order. */
static void observer_mixed(struct check_case *c)
{
	coll_observed_t e;
	struct drive d;

	if (drive_open(&d, c, 0))
		return;
	for (uint64_t comm = 1; comm <= 2; comm++)
		drive_comm(&d, comm, COLL_OBSERVED_BEGIN);
	for (int32_t phase = COLL_OBSERVED_ISSUED; phase <= COLL_OBSERVED_END; phase++)
		for (uint64_t i = 600; i > 0; i--) {
			e = drive_event(&d, 1 + i % 2, i, COLL_OBSERVE_CALL, phase);
			e.lane = i % 3 == 0;
			drive_tell(&d, &e);
		}
	for (uint64_t comm = 1; comm <= 2; comm++)
		drive_comm(&d, comm, COLL_OBSERVED_END);
	drive_close(&d);
}

static void observer_failure(struct check_case *c)
{
	coll_observed_t e;
	struct drive d;

	if (drive_open(&d, c, 0))
		return;
	drive_comm(&d, 1, COLL_OBSERVED_BEGIN);
	e = drive_event(&d, 1, 1, COLL_OBSERVE_CALL, COLL_OBSERVED_ISSUED);
	drive_tell(&d, &e);
	e = drive_event(&d, 1, 0, COLL_OBSERVE_FAILURE, COLL_OBSERVED_BEGIN);
	e.code = COLL_ERR_PEER_LOST;
	e.text = "rank 1 was lost: \"it\\said\" so\n\t%s\x01";
	drive_tell(&d, &e);
	drive_call(&d, 1, 2, COLL_KIND_BROADCAST, COLL_ERR_PEER_LOST);
	e = drive_event(&d, 1, 1, COLL_OBSERVE_CALL, COLL_OBSERVED_END);
	e.code = COLL_ERR_PEER_LOST;
	e.kind =
		COLL_KIND_NONE; /* a backend had so many calls that the core does not know this one */
	drive_tell(&d, &e);
	drive_comm(&d, 1, COLL_OBSERVED_END);
	drive_close(&d);
}

/* An event of a later minor: a longer struct, another subject, another phase, other kinds. */
static void observer_later(struct check_case *c)
{
	union {
		coll_observed_t e;
		char bytes[sizeof(coll_observed_t) + 256];
	} later = {.bytes = {0}};
	struct drive d;

	if (drive_open(&d, c, 0))
		return;
	drive_comm(&d, 1, COLL_OBSERVED_BEGIN);
	later.e = drive_event(&d, 1, 1, COLL_OBSERVE_CALL, COLL_OBSERVED_END + 1);
	later.e.size = sizeof(later);
	later.e.kind = later.e.dtype = later.e.op = 1000;
	drive_tell(&d, &later.e);
	later.e.what = 1u << 30;
	later.e.phase = COLL_OBSERVED_BEGIN;
	d.table.event(d.state, &later.e);
	drive_comm(&d, 1, COLL_OBSERVED_END);
	drive_close(&d);
}

/* -------------------------------------------------------------------------- threads -- */

struct observer_thread {
	pthread_t thread;
	struct drive d; /* the same state, with counts of its own */
	uint64_t comm;
};

static void *observer_run(void *arg)
{
	struct observer_thread *t = arg;

	drive_comm(&t->d, t->comm, COLL_OBSERVED_BEGIN);
	for (uint64_t i = 1; i <= OBSERVER_CALLS; i++)
		drive_call(&t->d, t->comm, i, COLL_KIND_ALLREDUCE, COLL_SUCCESS);
	drive_comm(&t->d, t->comm, COLL_OBSERVED_END);
	return NULL;
}

static void observer_threads(struct check_case *c)
{
	static struct observer_thread all[OBSERVER_THREADS];
	struct drive d;
	int started = 0;

	if (drive_open(&d, c, 0))
		return;
	while (started < OBSERVER_THREADS) {
		all[started].d = d;
		all[started].comm = (uint64_t)started + 1;
		if (pthread_create(&all[started].thread, NULL, observer_run, &all[started]))
			break;
		started++;
	}
	for (int i = 0; i < started; i++)
		pthread_join(all[i].thread, NULL);
	drive_close(&d);
}

/* A thread whose cancellation waits for the next function at which it acts. */
static void *observer_talk_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	observer_talk(arg);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return NULL;
}

static void observer_uncancelled(struct check_case *c)
{
	void *result = NULL;
	pthread_t thread;
	struct drive d;

	if (drive_open(&d, c, 0))
		return;
	if (!(d.table.flags & COLL_OBSERVER_UNCANCELLED))
		check_note(c, "it promises no COLL_OBSERVER_UNCANCELLED: the core sees to it");
	else if (pthread_create(&thread, NULL, observer_talk_cancelled, &d))
		check_fail(c, "the kit cannot make a thread");
	else
		pthread_join(thread, &result);
	if (result == PTHREAD_CANCELED)
		check_fail(c,
			   "pthread_cancel has ended a thread in event(), but the table promises "
			   "COLL_OBSERVER_UNCANCELLED: call no function of the list in "
			   "pthreads(7), or leave the flag out");
	else
		drive_close(&d);
}

/* ---------------------------------------------------------------------------- price -- */

static double observer_cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void observer_prompt(struct check_case *c)
{
	struct drive d;
	double begin, mean;

	if (drive_open(&d, c, 0))
		return;
	drive_comm(&d, 1, COLL_OBSERVED_BEGIN);
	begin = observer_cpu_us();
	for (uint64_t i = 1; i <= OBSERVER_CALLS; i++)
		drive_call(&d, 1, i, COLL_KIND_ALLREDUCE, COLL_SUCCESS);
	mean = d.events ? (observer_cpu_us() - begin) / (double)d.events : 0;
	drive_comm(&d, 1, COLL_OBSERVED_END);
	drive_close(&d);
	if (d.longest_ns > (int64_t)OBSERVER_LONGEST_MS * 1000000)
		check_fail(c, "an event took %.1f s: event() must not block",
			   (double)d.longest_ns / 1e9);
	else if (mean > OBSERVER_MEAN_US)
		check_fail(c,
			   "an event takes %.0f us of the processor on average, but all "
			   "communication of the rank waits for it: keep it below %d us",
			   mean, OBSERVER_MEAN_US);
	else
		check_note(c, "an event takes %.2f us on average", mean);
}

/* --------------------------------------------------------------------------- limits -- */

/* Stdout becomes a file for the time of a talk. */
static void observer_quiet(struct check_case *c)
{
	int fd = memfd_create("stdout", MFD_CLOEXEC), own = dup(STDOUT_FILENO);
	struct stat st = {0};

	fflush(stdout);
	if (fd < 0 || own < 0 || dup2(fd, STDOUT_FILENO) < 0)
		check_fail(c, "the kit cannot make a file");
	else
		observer_events(c);
	fflush(stdout);
	if (fd >= 0 && !fstat(fd, &st) && st.st_size)
		check_fail(c, "it printed %lld bytes to stdout, which is the program's",
			   (long long)st.st_size);
	dup2(own, STDOUT_FILENO);
	close(own);
	close(fd);
}

/* A job of three ranks in this process. */
static void observer_job(struct check_case *c)
{
	coll_comm_t comm[3], copy[3] = {NULL};
	coll_config_t config;
	int32_t x[3] = {1, 2, 3};
	int code;

	coll_config_init(&config, sizeof(config));
	config.backend = "simulated";
	code = coll_comm_init_all(comm, 3, NULL, &config);
	if (code) {
		check_skip(c, "libcoll makes no communicator here: %.400s",
			   coll_get_last_error(NULL));
		return;
	}
	for (int round = 0; round < 3 && !code; round++) {
		coll_group_start();
		for (int r = 0; r < 3 && !code; r++)
			code = round == 1 ? coll_comm_dup(comm[r], &copy[r])
					  : coll_allreduce(&x[r], &x[r], 1, COLL_INT32, COLL_SUM,
							   round ? copy[r] : comm[r], NULL);
		code |= coll_group_end();
		for (int r = 0; r < 3 && !code; r++)
			code = coll_sync(round == 2 ? copy[r] : comm[r]);
	}
	for (int r = 0; r < 3; r++) {
		if (copy[r])
			coll_comm_destroy(copy[r]);
		coll_comm_destroy(comm[r]);
	}
	if (code || x[0] != 18 || x[2] != 18)
		check_fail(c, "beside it a job fails, or sums to %d in place of 18: %.300s",
			   (int)x[0], code ? coll_get_last_error(NULL) : "");
}

const struct check check_observer_event_checks[] = {
	{.name = "open",
	 .says = "a state opens and closes, and needs no event between",
	 .promise = "coll_observer_t.open",
	 .group = CHECK_ENDPOINT,
	 .ground = 1,
	 .run = observer_empty},
	{.name = "states",
	 .says = "several states live at the same time",
	 .promise = "coll_observer_t.open",
	 .group = CHECK_ENDPOINT,
	 .run = observer_states},
	{.name = "events",
	 .says = "it takes events of every kind",
	 .promise = "Order",
	 .group = CHECK_MESSAGES,
	 .ground = 1,
	 .run = observer_events},
	{.name = "mixed",
	 .says = "hundreds of calls of several communicators may be open, and end in any order",
	 .promise = "Order",
	 .group = CHECK_MESSAGES,
	 .run = observer_mixed},
	{.name = "threads",
	 .says = "several threads tell one state of events at the same time",
	 .promise = "Threads",
	 .group = CHECK_MESSAGES,
	 .run = observer_threads},
	{.name = "uncancelled",
	 .says = "a thread is not cancelled in event(), if the table promises that",
	 .promise = "coll_observer_t.flags",
	 .group = CHECK_MESSAGES,
	 .run = observer_uncancelled},
	{.name = "failure",
	 .says = "it takes failures, and calls that never began",
	 .promise = "Order",
	 .group = CHECK_FAULTS,
	 .run = observer_failure},
	{.name = "later",
	 .says = "it ignores events, phases and fields of later minors",
	 .promise = "ABI promise",
	 .group = CHECK_FAULTS,
	 .run = observer_later},
	{.name = "prompt",
	 .says = "event() returns soon",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .run = observer_prompt},
	{.name = "quiet",
	 .says = "it prints nothing to stdout",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .run = observer_quiet},
	{.name = "descriptors",
	 .says = "after close no descriptor is left open",
	 .promise = "coll_observer_t.close",
	 .group = CHECK_FAULTS,
	 .trace = CHECK_FDS + 1,
	 .run = observer_events},
	{.name = "lasting-threads",
	 .says = "after close no thread of the observer is left",
	 .promise = "coll_observer_t.close",
	 .group = CHECK_FAULTS,
	 .trace = CHECK_LASTING_THREADS + 1,
	 .run = observer_events},
	{.name = "signals",
	 .says = "it installs no signal handlers",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .trace = CHECK_SIGNALS + 1,
	 .run = observer_events},
	{.name = "children",
	 .says = "it starts no processes",
	 .promise = "Limits",
	 .group = CHECK_FAULTS,
	 .trace = CHECK_CHILDREN + 1,
	 .run = observer_events},
	{.name = "job",
	 .says = "a job of libcoll runs beside it",
	 .promise = "coll_observer_t",
	 .group = CHECK_API,
	 .run = observer_job},
	{.name = NULL},
};
