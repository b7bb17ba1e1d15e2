/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c - the ranks of a case: threads or processes, their messages, and their exchange of
 * records.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/kit/launched.h"
#include "check/kit/trace.h"
#include "lib/tool.h"

enum { RANK_SLEEP_US = 100 };

/* The rank of this thread plus 1, for the message about a crash. */
static _Thread_local int rank_own;

/* ------------------------------------------------------------------ speaking -- */

static void rank_say(atomic_int *state, char *text, const char *fmt, va_list args)
{
	int unsaid = 0;

	if (!atomic_compare_exchange_strong(state, &unsaid, 1))
		return;
	vsnprintf(text, CHECK_TEXT, fmt, args);
	atomic_store(state, 2);
}

void check_fail(struct check_case *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	rank_say(&c->shared->failed, c->shared->text, fmt, args);
	va_end(args);
}

void check_skip(struct check_case *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	rank_say(&c->shared->skipped, c->shared->skip, fmt, args);
	va_end(args);
}

void check_note(struct check_case *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	rank_say(&c->shared->noted, c->shared->note, fmt, args);
	va_end(args);
}

int check_skipped(const struct check_case *c)
{
	return atomic_load(&c->shared->skipped) != 0;
}

int check_failed(const struct check_case *c)
{
	return atomic_load(&c->shared->failed) != 0;
}

void check_slot(struct check_case *c, int rank, const char *slot)
{
	rank_own = rank + 1;
	atomic_store(&c->shared->slot[rank], (uintptr_t)slot);
}

void check_dies(struct check_case *c, int rank)
{
	atomic_store(&c->shared->dying[rank], 1);
}

int check_crashing_rank(void)
{
	return rank_own;
}

/* ------------------------------------------------------------------ exchange -- */

void check_exchange_begin(struct check_case *c, int rank, unsigned step, const void *in, size_t len)
{
	if (step >= CHECK_STEPS || len > CHECK_RECORD) {
		check_fail(c,
			   "host->exchange was called more than %d times, or with more than %d "
			   "bytes",
			   CHECK_STEPS, CHECK_RECORD);
		return;
	}
	if (len)
		memcpy(c->shared->contributed[step][rank], in, len);
	atomic_fetch_add(&c->shared->entered[step], 1);
}

int check_exchange_done(const struct check_case *c, unsigned step)
{
	return step < CHECK_STEPS && atomic_load(&c->shared->entered[step]) >= (unsigned)c->nranks;
}

int check_exchange(struct check_case *c, int rank, unsigned *step, const void *in, void *out,
		   size_t len, int64_t timeout_ms)
{
	int64_t deadline = tool_now_ms() + timeout_ms;
	unsigned now = (*step)++;

	check_exchange_begin(c, rank, now, in, len);
	while (!check_exchange_done(c, now)) {
		if (tool_now_ms() > deadline || check_failed(c))
			return -1;
		usleep(RANK_SLEEP_US);
	}
	for (int r = 0; len && r < c->nranks; r++)
		memcpy((char *)out + (size_t)r * len, c->shared->contributed[now][r], len);
	return 0;
}

int check_barrier(struct check_case *c, int rank, unsigned *step)
{
	if (!check_exchange(c, rank, step, NULL, NULL, 0, c->timeout_ms))
		return 0;
	check_fail(c, "rank %d waited %lld s for the other ranks", rank,
		   (long long)c->timeout_ms / 1000);
	return -1;
}

/* ------------------------------------------------------------------ threads -- */

struct rank_thread {
	struct check_case *c;
	void (*fn)(struct check_case *c, int rank);
	int rank;
	pthread_t id;
};

static void *rank_thread(void *arg)
{
	struct rank_thread *thread = arg;

	check_slot(thread->c, thread->rank, NULL);
	thread->fn(thread->c, thread->rank);
	return NULL;
}

static void rank_threads(struct check_case *c, void (*fn)(struct check_case *c, int rank))
{
	struct rank_thread thread[CHECK_RANKS];
	int n = 0;

	while (n < c->nranks) {
		thread[n] = (struct rank_thread){.c = c, .fn = fn, .rank = n};
		if (pthread_create(&thread[n].id, NULL, rank_thread, &thread[n])) {
			check_fail(c, "the kit cannot start a thread: %s", strerror(errno));
			break;
		}
		n++;
	}
	while (n-- > 0)
		pthread_join(thread[n].id, NULL);
}

/* ------------------------------------------------------------------ processes -- */

__attribute__((noreturn)) static void rank_process(struct check_case *c,
						   void (*fn)(struct check_case *c, int rank),
						   int rank)
{
	struct check_watch watch;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_device_begin(c, rank);
	check_watch_begin(&watch);
	check_slot(c, rank, NULL);
	fn(c, rank);
	/* The core may keep memory and threads for its whole life. */
	if (c->check->group != CHECK_API)
		check_watch_end(c, &watch);
	check_slot(c, rank, "exit");
	exit(0); /* not _exit: leak checkers and exit handlers run there */
}

static void rank_ended(struct check_case *c, int rank, int status)
{
	const char *slot = (const char *)atomic_load(&c->shared->slot[rank]);

	if (atomic_load(&c->shared->dying[rank]))
		return;
	if (WIFSIGNALED(status))
		check_fail(c, "rank %d was killed by signal %d (%s)%s%s", rank, WTERMSIG(status),
			   strsignal(WTERMSIG(status)), slot ? " in " : "", slot ? slot : "");
	else if (WEXITSTATUS(status) || !slot || strcmp(slot, "exit") != 0)
		check_fail(c, "the process of rank %d ended with status %d%s%s", rank,
			   WEXITSTATUS(status), slot ? " in " : "", slot ? slot : "");
}

static void rank_processes(struct check_case *c, void (*fn)(struct check_case *c, int rank))
{
	pid_t pid[CHECK_RANKS];
	int n = 0, left;

	fflush(NULL);
	for (; n < c->nranks; n++) {
		pid[n] = fork();
		if (pid[n] == 0)
			rank_process(c, fn, n);
		if (pid[n] < 0) {
			check_fail(c, "the kit cannot start a process: %s", strerror(errno));
			break;
		}
	}
	for (left = n; left > 0;) {
		int status = 0;
		pid_t ended = waitpid(-1, &status, 0);

		if (ended < 0 && errno != EINTR)
			break;
		for (int r = 0; r < n; r++)
			if (ended == pid[r]) {
				rank_ended(c, r, status);
				atomic_store(&c->shared->slot[r], 0);
				left--;
			}
	}
}

/* Runs this process's rank; a launcher runs the other ranks. */
static void rank_launched(struct check_case *c, void (*fn)(struct check_case *c, int rank))
{
	const int rank = c->options->launch->rank;

	check_device_begin(c, rank);
	check_slot(c, rank, NULL);
	fn(c, rank);
	check_slot(c, rank, NULL);
}

void check_ranks(struct check_case *c, void (*fn)(struct check_case *c, int rank))
{
	if (c->options->launch)
		rank_launched(c, fn);
	else if (c->processes)
		rank_processes(c, fn);
	else
		rank_threads(c, fn);
}
