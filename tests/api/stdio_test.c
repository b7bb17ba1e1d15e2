/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio_test.c - a process without stdin, stdout and stderr: the library leaves their numbers to the program, and logs
 * to no file that gets the number of stderr.
 */
#include "../lib/ranks.h"

#include <fcntl.h>

enum { NRANKS = 3 };

/* Is one of the numbers 0 to 2 in use?  A file of libcoll and not of a library that the backend opens. */
static int low_number(int any)
{
	char path[32], name[200];

	for (int fd = 0; fd < 3; fd++) {
		ssize_t n;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		name[n < 0 ? 0 : n] = '\0';
		if (any || strstr(name, "coll"))
			return fd;
	}
	return -1;
}

/* Opens the file until it has the number of stderr, unless another library has taken the number. */
static void open_as_stderr(const char *path)
{
	int fd = -1;

	while (fd < STDERR_FILENO)
		fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* The way the ranks run: `any` descriptor below 3 is the library's; the ranks are processes. */
struct way {
	int any, processes;
};

static void make_dup(struct rank *r)
{
	coll_comm_t dup = NULL;

	if (rank_did(r, coll_comm_dup(r->comm, &dup), "dup"))
		sums_to(r, dup, 1, NRANKS, "the sum in the dup");
	if (dup)
		rank_did(r, coll_comm_destroy(dup), "destroy of the dup");
}

/* The messages of the library about a new communicator go nowhere. */
static void log_nowhere(struct rank *r)
{
	char path[] = "/tmp/coll-stdio-XXXXXX";
	int first = mkstemp(path), high = fcntl(first, F_DUPFD_CLOEXEC, 10);

	close(first);
	open_as_stderr(path);
	make_dup(r);
	if (high < 0 || lseek(high, 0, SEEK_END))
		rank_fail(r, "lines were logged to a file of the program");
	unlink(path);
	close(high);
}

static void use(struct rank *r)
{
	const struct way *way = r->user;
	int low;

	sums_to(r, r->comm, 1, NRANKS, "the sum");
	low = low_number(way->any);
	if (low >= 0)
		rank_fail(r, "the library has descriptor %d", low);
	/* Threads share the descriptors: every rank has looked before one opens files. */
	sums_to(r, r->comm, 1, NRANKS, "the sum");
	if (way->processes || r->rank == 0)
		log_nowhere(r);
	else
		make_dup(r);
}

static void close_stdio(void)
{
	for (int fd = 0; fd < 3; fd++)
		close(fd);
}

/* A rank; its failure is in shared->failure. */
static void run_process(const char *backend, struct ranks_shared *shared, int rank, struct way *way)
{
	struct rank r = {NULL, rank, NRANKS, way, shared->failure[rank]};
	coll_config_t config;

	close_stdio();
	ranks_config(&config, backend);
	if (ranks_init(&r, shared, &config)) {
		use(&r);
		rank_did(&r, coll_comm_destroy(r.comm), "destroy");
	}
	_exit(0);
}

/* All ranks as threads. */
static void run_threads(const char *backend, struct ranks_shared *shared, struct way *way)
{
	struct ranks_job job = {.backend = backend, .nranks = NRANKS, .fn = use, .user = way};

	close_stdio();
	ranks_run_threads(&job, shared);
	_exit(0);
}

static void test_closed(const char *backend, const char *over, struct way way)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	double deadline = ranks_now() + 120;
	pid_t pids[NRANKS];
	int status, bad = 0;

	fflush(stdout);
	for (int r = 0; r < (way.processes ? NRANKS : 1); r++) {
		pids[r] = fork();
		if (pids[r] == 0 && way.processes)
			run_process(backend, shared, r, &way);
		if (pids[r] == 0)
			run_threads(backend, shared, &way);
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
	}
	for (int r = 0; r < (way.processes ? NRANKS : 1); r++)
		if (!ranks_reap(pids[r], deadline, &status) || status)
			snprintf(shared->failure[r], RANKS_TEXT, "ended with status %#x",
				 (unsigned)status);
	for (int r = 0; r < NRANKS; r++)
		bad += shared->failure[r][0] != '\0';
	ok(!bad, "%s%s without stdin, stdout and stderr", backend, over);
	for (int r = 0; r < NRANKS; r++)
		if (shared->failure[r][0])
			diag("rank %d: %s", r, shared->failure[r]);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	setenv("COLL_LOG", "debug", 1);
	test_closed("tcp", "", (struct way){1, 1});
	setenv("COLL_TCP_RING", "0", 1);
	test_closed("tcp", " over Unix sockets", (struct way){1, 1});
	setenv("COLL_TCP_UNIX", "no", 1);
	test_closed("tcp", " over TCP", (struct way){1, 1});
	test_closed("simulated", "", (struct way){1, 0});
	if (ranks_can("ucx"))
		test_closed("ucx", "", (struct way){0, 1});
	return done_testing();
}
