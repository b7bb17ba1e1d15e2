/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_limit_test.c - processes that may write no file (ulimit -f 0), with a file as stderr and with COLL_DUMP: shared
 * memory, log lines and the record of a failure are files too, and no signal ends the process.
 */
#include "../lib/log_capture.h"
#include "../lib/open_files.h"
#include "../lib/ranks.h"

#include <sys/resource.h>

enum { NRANKS = 2 };

static char dump_directory[] = "/tmp/coll-file-limit-XXXXXX";

static void limit_files(void)
{
	const struct rlimit none = {0, 0}, no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	setrlimit(RLIMIT_FSIZE, &none);
}

static void use(struct rank *r)
{
	int64_t x[4096] = {1};

	if (!sums_to(r, r->comm, 1, NRANKS, "the sum") ||
	    !rank_did(r, coll_allreduce(x, x, 4096, COLL_INT64, COLL_SUM, r->comm, NULL),
		      "allreduce") ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return;
	if (x[0] != NRANKS)
		rank_fail(r, "a long sum is %lld", (long long)x[0]);
	/* Rank 1 leaves: the communicator of rank 0 fails, and its record would be a file. */
	if (r->rank == 0 && !coll_recv(x, 1, COLL_INT64, 1, 0, r->comm, NULL) &&
	    !coll_sync(r->comm))
		rank_fail(r, "a message came");
}

static void run_process(const char *backend, struct ranks_shared *shared, int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, shared->failure[rank]};
	coll_config_t config;

	limit_files();
	ranks_config(&config, backend);
	if (ranks_init(&r, shared, &config)) {
		use(&r);
		coll_comm_destroy(r.comm);
	}
	_exit(0);
}

static void run_threads(const char *backend, struct ranks_shared *shared)
{
	struct ranks_job job = {.backend = backend, .nranks = NRANKS, .fn = use};
	const int files = open_files();

	limit_files();
	ranks_run_threads(&job, shared);
	if (open_files() != files)
		snprintf(shared->failure[0], RANKS_TEXT, "%d descriptors are left open",
			 open_files() - files);
	_exit(0);
}

static void test_limit(const char *backend, int processes)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	double deadline = ranks_now() + 120;
	pid_t pids[NRANKS];
	int status, n = processes ? NRANKS : 1;

	fflush(stdout);
	log_begin();
	for (int r = 0; r < n; r++) {
		pids[r] = fork();
		if (pids[r] == 0 && processes)
			run_process(backend, shared, r);
		if (pids[r] == 0)
			run_threads(backend, shared);
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
	}
	for (int r = 0; r < n; r++)
		if (!ranks_reap(pids[r], deadline, &status) || status)
			snprintf(shared->failure[r], RANKS_TEXT, "ended with status %#x",
				 (unsigned)status);
	log_end();
	ok(!shared->failure[0][0] && !shared->failure[1][0], "%s writes no file", backend);
	for (int r = 0; r < NRANKS; r++)
		if (shared->failure[r][0])
			diag("rank %d: %s", r, shared->failure[r]);
	munmap(shared, sizeof(*shared));
}

/* The empty files of records that were begun. */
static void remove_files(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", dump_directory);
	if (system(command))
		diag("%s is left", dump_directory);
}

int main(void)
{
	if (!mkdtemp(dump_directory))
		bail_out("no directory: %s", strerror(errno));
	setenv("COLL_LOG", "debug", 1);
	setenv("COLL_DUMP", dump_directory, 1);
	test_limit("tcp", 1);
	test_limit("simulated", 0);
	if (ranks_can("ucx"))
		test_limit("ucx", 1);
	remove_files();
	return done_testing();
}
