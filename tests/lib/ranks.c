/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks.c - starts the ranks of a job as threads or processes, and collects their faults. */
#include "ranks.h"
#include "crash.h"

#include <sched.h>

int ranks_maker;

double ranks_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void ranks_sleep(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&t, NULL);
}

void ranks_vanish(void)
{
	syscall(SYS_exit_group, 0);
	_exit(0);
}

int ranks_small(void)
{
	const char *level = getenv("TEST_LEVEL");

	return !level || strcmp(level, "long") != 0;
}

int ranks_on_one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	if (!sched_setaffinity(0, sizeof(one), &one))
		return 1;
	skip(1, "this process may not choose its processor");
	return 0;
}

int ranks_sanitized(void)
{
	const char *sanitize = getenv("TEST_SANITIZE");

	return sanitize && sanitize[0];
}

void ranks_plugins(const char *first, const char *second)
{
	const char *top = getenv("top_builddir"), *more = getenv("TEST_PLUGINS");
	char path[4096];

	top = top ? top : ".";
	snprintf(path, sizeof(path), "%s/%s%s%s%s%s", top, first, second ? ":" : "",
		 second ? top : "", second ? "/" : "", second ? second : "");
	if (more)
		snprintf(path + strlen(path), sizeof(path) - strlen(path), ":%s", more);
	setenv("COLL_PLUGIN_PATH", path, 1);
}

void *ranks_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail_out("no shared memory of %zu bytes", size);
	return p;
}

int rank_fail(struct rank *r, const char *fmt, ...)
{
	va_list args;

	if (r->failure[0])
		return 0;
	va_start(args, fmt);
	vsnprintf(r->failure, RANKS_TEXT, fmt, args);
	va_end(args);
	return 0;
}

int rank_did(struct rank *r, coll_result_t code, const char *what)
{
	if (code == COLL_SUCCESS)
		return 1;
	return rank_fail(r, "%s: %d (%s)", what, code, coll_get_last_error(NULL));
}

int rank_is(struct rank *r, int64_t got, int64_t want, const char *what)
{
	return got == want || rank_fail(r, "%s: %lld, not %lld (%s)", what, (long long)got,
					(long long)want, coll_get_last_error(NULL));
}

int rank_says(struct rank *r, const char *piece, const char *what)
{
	return strstr(coll_get_last_error(NULL), piece) != NULL ||
	       rank_fail(r, "%s: '%s' is not in '%s'", what, piece, coll_get_last_error(NULL));
}

int rank_reaches(struct rank *r, const _Atomic int *step, int n, int moves)
{
	const double deadline = ranks_now() + 60;
	coll_result_t error;

	while (atomic_load(step) < n) {
		if (ranks_now() > deadline)
			return rank_fail(r, "step %d does not come", n);
		if (moves)
			coll_comm_get_async_error(r->comm, &error);
		ranks_sleep(0.001);
	}
	return 1;
}

coll_request_t rank_isend(struct rank *r, const void *x, size_t n, int peer, int tag)
{
	coll_request_t request = NULL;

	rank_did(r, coll_isend(x, n, COLL_INT32, peer, tag, r->comm, &request), "isend");
	return request;
}

coll_request_t rank_irecv(struct rank *r, void *x, size_t n, int peer, int tag)
{
	coll_request_t request = NULL;

	rank_did(r, coll_irecv(x, n, COLL_INT32, peer, tag, r->comm, &request), "irecv");
	return request;
}

int rank_ends(struct rank *r, coll_request_t request, coll_result_t code, const char *what)
{
	const int good = rank_is(r, coll_wait(request), code, what);

	return rank_did(r, coll_request_free(request), "free") && good;
}

int sums_to(struct rank *r, coll_comm_t comm, int64_t x, int64_t want, const char *what)
{
	int64_t y = 0;

	if (!rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, comm, NULL), what) ||
	    !rank_did(r, coll_sync(comm), what))
		return 0;
	return y == want ||
	       rank_fail(r, "%s: the sum is %lld, not %lld", what, (long long)y, (long long)want);
}

int is_rank(struct rank *r, coll_comm_t comm, int rank, int nranks)
{
	int32_t me = -1, n = -1;

	if (!rank_did(r, coll_comm_user_rank(comm, &me), "user_rank") ||
	    !rank_did(r, coll_comm_count(comm, &n), "count"))
		return 0;
	return (me == rank && n == nranks) ||
	       rank_fail(r, "rank %d of %d, not %d of %d", me, n, rank, nranks);
}

int ranks_can(const char *backend)
{
	char *reason = ranks_memory(RANKS_TEXT);
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		exit(coll_backend_available(backend, reason, RANKS_TEXT) != COLL_SUCCESS);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		bail_out("the child that asks about backend %s ended with %#x", backend,
			 (unsigned)status);
	if (status)
		skip(1, "%s: %s", backend, reason);
	munmap(reason, RANKS_TEXT);
	return !status;
}

void ranks_config(coll_config_t *config, const char *backend)
{
	coll_config_init(config, sizeof(*config));
	config->backend = backend;
}

/* ------------------------------------------------------------------- threads -- */

struct ranks_thread {
	pthread_t id;
	const struct ranks_job *job;
	struct rank rank;
};

static void *ranks_thread(void *arg)
{
	struct ranks_thread *t = arg;

	t->job->fn(&t->rank);
	rank_did(&t->rank, coll_comm_destroy(t->rank.comm), "destroy");
	return NULL;
}

void ranks_run_threads(const struct ranks_job *job, struct ranks_shared *shared)
{
	coll_comm_t comms[RANKS_MAX];
	struct ranks_thread threads[RANKS_MAX];
	coll_config_t config;

	ranks_config(&config, job->backend);
	if (coll_comm_init_all(comms, job->nranks, NULL, &config)) {
		snprintf(shared->failure[0], RANKS_TEXT, "init_all: %s", coll_get_last_error(NULL));
		return;
	}
	for (int r = 0; r < job->nranks; r++) {
		threads[r] = (struct ranks_thread){
			.job = job,
			.rank = {comms[r], r, job->nranks, job->user, shared->failure[r]}};
		if (pthread_create(&threads[r].id, NULL, ranks_thread, &threads[r]))
			bail_out("cannot start a thread");
	}
	for (int r = 0; r < job->nranks; r++)
		pthread_join(threads[r].id, NULL);
}

/* ----------------------------------------------------------------- processes -- */

int ranks_init(struct rank *r, struct ranks_shared *shared, const coll_config_t *config)
{
	if (r->rank == ranks_maker) {
		if (!rank_did(r, coll_get_unique_id(shared->id, sizeof(shared->id)), "unique id"))
			return 0;
		atomic_store(&shared->has_id, 1);
	}
	while (!atomic_load(&shared->has_id))
		ranks_sleep(0.001);
	return rank_did(r, coll_comm_init_rank(&r->comm, r->nranks, shared->id, r->rank, config),
			"init_rank");
}

static void ranks_process(const struct ranks_job *job, struct ranks_shared *shared, int rank)
{
	struct rank r = {NULL, rank, job->nranks, job->user, shared->failure[rank]};
	coll_config_t config;

	crash_watch();
	ranks_config(&config, job->backend);
	if (ranks_init(&r, shared, &config)) {
		job->fn(&r);
		if (r.comm)
			rank_did(&r, coll_comm_destroy(r.comm), "destroy");
	}
	exit(0);
}

int ranks_reap(pid_t pid, double deadline, int *status)
{
	while (waitpid(pid, status, WNOHANG) == 0) {
		if (ranks_now() > deadline) {
			kill(pid, SIGKILL);
			waitpid(pid, status, 0);
			return 0;
		}
		ranks_sleep(0.005);
	}
	return 1;
}

void ranks_reap_rank(pid_t pid, double deadline, char *failure)
{
	int status;

	if (!ranks_reap(pid, deadline, &status))
		snprintf(failure, RANKS_TEXT, "the rank hung");
	else if (status && !failure[0])
		snprintf(failure, RANKS_TEXT, "the rank ended with status %#x", (unsigned)status);
}

void ranks_run_processes(const struct ranks_job *job, struct ranks_shared *shared)
{
	double deadline = ranks_now() + 600;
	pid_t pids[RANKS_MAX];

	fflush(stdout);
	for (int r = 0; r < job->nranks; r++) {
		pids[r] = fork();
		if (pids[r] == 0)
			ranks_process(job, shared, r);
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
	}
	for (int r = 0; r < job->nranks; r++)
		ranks_reap_rank(pids[r], deadline, shared->failure[r]);
}

int ranks_ok(const struct ranks_job *job, const char *fmt, ...)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	char name[256];
	va_list args;
	int bad = 0;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (job->processes)
		ranks_run_processes(job, shared);
	else
		ranks_run_threads(job, shared);
	for (int r = 0; r < job->nranks; r++)
		bad += shared->failure[r][0] != '\0';
	ok(!bad, "%s, %d %s: %s", job->backend, job->nranks,
	   job->processes ? "processes" : "threads", name);
	for (int r = 0; r < job->nranks; r++)
		if (shared->failure[r][0])
			diag("rank %d: %s", r, shared->failure[r]);
	munmap(shared, sizeof(*shared));
	return !bad;
}

void ranks_over_backends(void (*test)(const char *backend, int processes, int nranks), int most)
{
	const int can = ranks_can("ucx");

	for (int n = 1; n <= most; n++)
		test("simulated", 0, n);
	test("tcp", 0, 3);
	test("tcp", 0, 4);
	test("tcp", 1, 5);
	if (!can)
		return;
	test("ucx", 1, 4);
	test("ucx", 0, 3);
}
