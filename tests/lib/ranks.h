/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h - runs a function on every rank of a communicator, with ranks as threads of this process
 * or as processes, and reports the ranks' results as checks.
 */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include <coll/coll.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "crash.h"
#include "tap.h"

enum { RANKS_MAX = 16 };

struct rank {
	coll_comm_t comm; /* NULL: a rank that is a process has destroyed it */
	int rank, nranks;
	void *user;    /* user data of the job */
	char *failure; /* the first fault on this rank, or "" */
};

enum { RANKS_TEXT = 600 };

/* Memory that ranks in processes share with the test. */
struct ranks_shared {
	_Atomic int has_id;
	char id[COLL_UNIQUE_ID_SIZE];
	char failure[RANKS_MAX][RANKS_TEXT];
};

struct ranks_job {
	const char *backend;
	int nranks;
	int processes;
	void (*fn)(struct rank *rank);
	void *user; /* for processes: memory from ranks_memory if the ranks write results to it */
};

/* The rank in a process that makes the unique id. */
extern int ranks_maker;

/* Returns the seconds of the monotonic clock. */
double ranks_now(void);

void ranks_sleep(double seconds);

/*
 * Ends the process at once.  ThreadSanitizer makes _exit() take long, and then reports threads that have ended and are
 * not joined.
 */
__attribute__((noreturn)) void ranks_vanish(void);

/* Must the test save time?  `make check` does; `make check-long` sets TEST_LEVEL=long and has the full depth. */
int ranks_small(void);

/*
 * From now on this process, and the ranks that it starts, share the processor on which it runs.  Returns 0, after a skipped
 * check, if the process may not choose.
 */
int ranks_on_one_processor(void);
/* Is the program built with a sanitizer, which makes it several times slower? */
int ranks_sanitized(void);

/*
 * Makes the library look for plugins in these folders of the build, and nowhere else but in the directories of the variable
 * TEST_PLUGINS.  The second may be NULL.
 */
void ranks_plugins(const char *first, const char *second);

/* Returns zeroed memory that children of this process share with it.  It is never freed. */
void *ranks_memory(size_t size);

/* Records the first failure of a rank.  Returns 0, for use in conditions. */
__attribute__((format(printf, 2, 3))) int rank_fail(struct rank *r, const char *fmt, ...);

/* Did the call succeed? */
int rank_did(struct rank *r, coll_result_t code, const char *what);

/* Is the number the wanted one? */
int rank_is(struct rank *r, int64_t got, int64_t want, const char *what);

/* Does the text of the last error contain this piece? */
int rank_says(struct rank *r, const char *piece, const char *what);

/*
 * Waits, a minute at most, until another rank of the job has counted `step` up to n.  `moves`: the rank moves data
 * meanwhile, as a rank does that is not silent.
 */
int rank_reaches(struct rank *r, const _Atomic int *step, int n, int moves);

/* Start a message of int32 outside the order of the operations. */
coll_request_t rank_isend(struct rank *r, const void *x, size_t n, int peer, int tag);
coll_request_t rank_irecv(struct rank *r, void *x, size_t n, int peer, int tag);

/* Waits for a request, which must end with this code, and frees it. */
int rank_ends(struct rank *r, coll_request_t request, coll_result_t code, const char *what);

/* Is the sum of `x` over the communicator `want`? */
int sums_to(struct rank *r, coll_comm_t comm, int64_t x, int64_t want, const char *what);

/* Is this process `rank` of `nranks` in the communicator? */
int is_rank(struct rank *r, coll_comm_t comm, int rank, int nranks);

/*
 * Can the backend be used here?  If not, a skipped check says why.  A child process finds out, so
 * that this process has loaded nothing when it forks ranks.  Ask before the program has threads, those of the stand-in
 * for CUDA too: the child could wait for a lock that one of them has.
 */
int ranks_can(const char *backend);

void ranks_config(coll_config_t *config, const char *backend);

/* Runs a test of 1 to `most` ranks over simulated, and of three to five over each backend of several processes. */
void ranks_over_backends(void (*test)(const char *backend, int processes, int nranks), int most);

/* ------------------------------------------------------------------- threads -- */

/* Runs the job.  The first fault of each rank comes to shared->failure. */
void ranks_run_threads(const struct ranks_job *job, struct ranks_shared *shared);

/* ----------------------------------------------------------------- processes -- */

/* Makes the communicator of each rank.  One rank makes the unique id, and the other ranks wait for it. */
int ranks_init(struct rank *r, struct ranks_shared *shared, const coll_config_t *config);

/* Waits until `deadline` for a child that this test started.  Returns 0 if it had to kill the child. */
int ranks_reap(pid_t pid, double deadline, int *status);
/* Waits so for a rank.  `failure`, of RANKS_TEXT bytes, becomes the fault of its end. */
void ranks_reap_rank(pid_t pid, double deadline, char *failure);

/* Runs the job as ranks_run_threads() does. */
void ranks_run_processes(const struct ranks_job *job, struct ranks_shared *shared);

/* Makes one check: the job's function found no fault on any rank. */
__attribute__((format(printf, 2, 3))) int ranks_ok(const struct ranks_job *job, const char *fmt,
						   ...);

#endif
