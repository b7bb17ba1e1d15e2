/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - runs each case of a check in a process of its own and decides how that process ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/kit/launched.h"
#include "check/kit/trace.h"
#include "lib/tool.h"

enum { RUN_SLEEP_US = 500, RUN_SLEEP_MS = 1000, RUN_OUTPUT = 16384 };

/* A running case and its process. */
struct run {
	struct check_case c;
	pid_t pid;       /* 0: a thread of this process runs the case (run_here) */
	int end_fd;      /* can be read when the process has ended; -1: there is none */
	atomic_int over; /* 1: that thread has ended */
	int output_fd;
	int hung;
	int64_t begin; /* ms */
	int status;    /* as waitpid returns it */
	char output[RUN_OUTPUT];
};

static char run_traces[CHECK_TRACES][CHECK_TEXT + 200];
static struct check_shared *run_crash_shared;

const char *check_traced(enum check_trace trace)
{
	return run_traces[trace];
}

/* ------------------------------------------------------------------ the child -- */

/* Records the rank that crashed.  The signal then comes again, with its default action, and ends the process. */
static void run_crashed(int number)
{
	(void)number;
	atomic_store(&run_crash_shared->crash_rank, check_crashing_rank());
}

static void run_catch_crashes(struct check_shared *shared)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	struct sigaction action = {.sa_handler = run_crashed, .sa_flags = SA_RESETHAND}, old;

	run_crash_shared = shared;
	/* A sanitizer's own signal handler tells more than this handler. */
	for (int i = 0; i < 5; i++)
		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
}

/* Lets libcoll find the plugin under test by name, and no other plugin; of an observer also the backends. */
static void run_environment(const struct check_options *options)
{
	char name[128], path[sizeof(options->dir) + sizeof(options->backends)];

	if (options->observer) {
		snprintf(path, sizeof(path), "%s:%s", options->dir, options->backends);
		setenv("COLL_PLUGIN_PATH", path, 1);
		setenv("COLL_OBSERVERS", options->name, 1);
	} else {
		setenv("COLL_PLUGIN_PATH", options->dir, 1);
		setenv("COLL_BACKEND", options->name, 1);
	}
	/* Else UCX changes functions of the C library while other threads may run them (plugins/ucx/README.md). */
	setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
	for (const char *const *key = options->keys; *key; key += 2) {
		snprintf(name, sizeof(name), "COLL_%s_%s", options->name, key[0]);
		for (char *p = name; *p; p++)
			*p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
		setenv(name, key[1], 1);
	}
}

__attribute__((noreturn)) static void run_child(struct run *run)
{
	struct check_case *c = &run->c;
	struct check_watch watch;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(run->output_fd, STDOUT_FILENO);
	dup2(run->output_fd, STDERR_FILENO);
	run_catch_crashes(c->shared);
	check_slot(c, 0, "loading");
	if (c->check->group == CHECK_API || c->options->observer)
		run_environment(c->options);
	c->options->needs(c);
	check_slot(c, 0, NULL);
	if (!atomic_load(&c->shared->skipped)) {
		if (c->nranks && !c->processes)
			check_device_begin(c, 0);
		check_watch_begin(&watch);
		if (c->check->run)
			c->check->run(c);
		else
			c->options->endpoints(c);
		/* The core may keep memory and threads for its whole life. */
		if (c->check->group != CHECK_API)
			check_watch_end(c, &watch);
	}
	atomic_store(&c->shared->finished, 1);
	check_slot(c, 0, "exit");
	exit(0); /* not _exit: leak checkers and exit handlers run there */
}

/* ------------------------------------------------------------------ --no-fork -- */

/* Runs the case in a thread of this process. */
static void *run_thread(void *arg)
{
	struct run *run = arg;
	struct check_case *c = &run->c;

	check_slot(c, 0, "loading");
	run_environment(c->options);
	c->options->needs(c);
	check_slot(c, 0, NULL);
	if (!atomic_load(&c->shared->skipped))
		c->check->run(c);
	atomic_store(&c->shared->finished, 1);
	check_slot(c, 0, "exit");
	atomic_store(&run->over, 1);
	return NULL;
}

/* Does the case run in this process?  A check that opens no endpoint has a child in any case. */
static int run_is_here(const struct run *run)
{
	return run->c.options->no_fork && run->c.nranks;
}

/* Starts the case without a child.  Returns 0, or -1 with errno. */
static int run_here(struct run *run)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, run_thread, run);
	if (errno)
		return -1;
	pthread_detach(thread);
	return 0;
}

/* ------------------------------------------------------------------ the parent -- */

/* With a launcher: relays the exchanges of this rank's child. */
static void run_relay(struct launched_relay *relay, int ended)
{
	if (!relay->launch || !relay->c->nranks)
		return;
	do {
		check_relay(relay, ended);
		if (ended && !relay->over)
			usleep(RUN_SLEEP_US);
	} while (ended && !relay->over);
}

/* Has the case ended?  The kit does not reap the child here, so that the process id still belongs to it. */
static int run_is_over(const struct run *run)
{
	siginfo_t info = {.si_pid = 0};

	if (!run->pid)
		return atomic_load(&run->over);
	return waitid(P_PID, (id_t)run->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid;
}

/* Ends all processes of the child's group. */
static void run_reap(struct run *run)
{
	kill(-run->pid, SIGKILL);
	kill(run->pid, SIGKILL);
	while (waitpid(run->pid, &run->status, 0) < 0 && errno == EINTR)
		;
}

/* Opens end_fd, unless a thread runs the case, or the kit has more to wait for, or the kernel is older than Linux 5.3. */
static void run_open_end(struct run *run)
{
	run->end_fd = -1;
#ifdef SYS_pidfd_open
	if (run->pid && !run->c.options->launch)
		run->end_fd = (int)syscall(SYS_pidfd_open, run->pid, 0); /* is close-on-exec */
#endif
}

/* Sleeps until the process has ended, so many milliseconds or a second at most, or, without end_fd, for a moment. */
static void run_sleep(const struct run *run, int64_t ms)
{
	struct pollfd end = {.fd = run->end_fd, .events = POLLIN};

	if (run->end_fd < 0)
		usleep(RUN_SLEEP_US);
	else
		(void)poll(&end, 1, (int)(ms < RUN_SLEEP_MS ? ms : RUN_SLEEP_MS));
}

/* Waits until the case has ended or its time is over. */
static void run_watch(struct run *run)
{
	static struct launched_relay relay;
	const int64_t deadline = run->begin + run->c.options->timeout_ms;

	relay = (struct launched_relay){.launch = run->c.options->launch, .c = &run->c};
	run_open_end(run);
	while (!run_is_over(run)) {
		const int64_t left = deadline - tool_now_ms();

		if (left < 0) {
			run->hung = 1;
			break;
		}
		run_relay(&relay, 0);
		run_sleep(run, left + 1);
	}
	if (run->end_fd >= 0)
		close(run->end_fd);
	if (run->pid)
		run_reap(run);
	run_relay(&relay, 1);
}

static void run_read_output(struct run *run)
{
	ssize_t n = pread(run->output_fd, run->output, sizeof(run->output) - 1, 0);

	run->output[n > 0 ? n : 0] = '\0';
	close(run->output_fd);
}

/*
 * Lists the ranks that are in a slot, or only rank `only` - 1 if `only` is not 0: " in close (rank 1), open (rank 2)".
 * Returns "" if there is none.
 */
static const char *run_where(const struct check_shared *shared, int only, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (int r = 0; r < CHECK_RANKS && n < size; r++) {
		const char *slot = (const char *)atomic_load(&shared->slot[r]);

		if (slot && (!only || r + 1 == only))
			n += (size_t)snprintf(text + n, size - n, "%s %s (rank %d)",
					      n ? "," : " in", slot, r);
	}
	return text;
}

/*
 * Decides whether the case failed, and with which message.  A message of the check itself comes first, but follows the
 * message of a hang.
 */
static int run_conclude(const struct run *run, char *text, size_t size)
{
	struct check_shared *shared = run->c.shared;
	int crashed = WIFSIGNALED(run->status) && !run->hung;
	int said = atomic_load(&shared->failed) == 2;
	char where[256];

	if (crashed && run->c.options->launch &&
	    atomic_load(&shared->dying[run->c.options->launch->rank]))
		return 0;
	run_where(shared, crashed ? atomic_load(&shared->crash_rank) : 0, where, sizeof(where));
	if (run->hung)
		snprintf(text, size, "it hung for %lld s%s%s%.300s",
			 (long long)run->c.options->timeout_ms / 1000, where, said ? ": " : "",
			 said ? shared->text : "");
	else if (said)
		snprintf(text, size, "%s", shared->text);
	else if (crashed)
		snprintf(text, size, "it was killed by signal %d (%s)%s", WTERMSIG(run->status),
			 strsignal(WTERMSIG(run->status)), where);
	else if (!atomic_load(&shared->finished))
		snprintf(text, size, "the process was ended with status %d%s",
			 WEXITSTATUS(run->status), where);
	else if (WEXITSTATUS(run->status))
		snprintf(text, size, "the process ended with status %d at exit",
			 WEXITSTATUS(run->status));
	else
		return 0;
	return 1;
}

static const char *run_case_name(const struct check_case *c, char *text, size_t size)
{
	text[0] = '\0';
	if (c->nranks)
		snprintf(text, size, "%d %s%s: ", c->nranks, c->processes ? "process" : "thread",
			 c->nranks == 1 ? ""
			 : c->processes ? "es"
					: "s");
	return text;
}

static void run_keep_traces(const struct run *run)
{
	char name[40];
	int n = (int)strcspn(run->output, "\n");

	run_case_name(&run->c, name, sizeof(name));
	if (run->output[0] && run->c.check->group < CHECK_API && !run_traces[CHECK_PRINTED][0])
		snprintf(run_traces[CHECK_PRINTED], sizeof(run_traces[0]),
			 "in '%s', %sit printed '%.*s'", run->c.check->name, name,
			 n < 200 ? n : 200, run->output);
	for (int i = 0; i < CHECK_TRACES; i++)
		if (atomic_load(&run->c.shared->traced[i]) == 2 && !run->c.check->leaves &&
		    !run_traces[i][0])
			snprintf(run_traces[i], sizeof(run_traces[i]), "in '%s', %s%s",
				 run->c.check->name, name, run->c.shared->trace[i]);
}

static void run_report(struct run *run, struct check_result *result)
{
	char text[CHECK_TEXT], name[40];

	result->cases++;
	result->calls += atomic_load(&run->c.shared->calls);
	if (run_conclude(run, text, sizeof(text))) {
		result->verdict = CHECK_NOT_PASSED;
		result->stuck = run->hung && !run->pid;
		result->waited =
			!run->c.options->launch && tool_now_ms() - run->begin >= run->c.timeout_ms;
		snprintf(result->text, sizeof(result->text), "%s%s",
			 run_case_name(&run->c, name, sizeof(name)), text);
		snprintf(result->output, sizeof(result->output), "%s", run->output);
		return;
	}
	run_keep_traces(run);
	if (atomic_load(&run->c.shared->noted) == 2)
		snprintf(result->note, sizeof(result->note), "%s", run->c.shared->note);
	if (atomic_load(&run->c.shared->skipped) == 2) {
		if (result->skipped++)
			return;
		snprintf(result->skip, sizeof(result->skip), "%s", run->c.shared->skip);
	}
}

static int run_one(struct run *run, struct check_result *result)
{
	struct check_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	run->c.shared = shared;
	run->output_fd = memfd_create("coll check", MFD_CLOEXEC);
	fflush(NULL);
	run->begin = tool_now_ms();
	if (shared == MAP_FAILED || run->output_fd < 0)
		run->pid = -1;
	else if (run_is_here(run))
		run->pid = run_here(run);
	else if ((run->pid = fork()) == 0)
		run_child(run);
	if (run->pid < 0) {
		result->verdict = CHECK_NOT_PASSED;
		snprintf(result->text, sizeof(result->text),
			 "the kit cannot make a process for it: %s", strerror(errno));
		return -1;
	}
	run_watch(run);
	run_read_output(run);
	run_report(run, result);
	/* A thread that hangs goes on using the memory. */
	if (run->pid || !run->hung)
		munmap(shared, sizeof(*shared));
	return 0;
}

/* Runs the check with all ranks of the launcher. */
static void run_launched(const struct check *check, const struct check_options *options,
			 struct check_result *result)
{
	static struct run run;
	const int ranks = check->ways == CHECK_ALONE ? 0 : options->launch->nranks;
	const char *lacks =
		check_launched_lacks(check, options, result->text, sizeof(result->text));

	if (lacks) {
		result->verdict = CHECK_SKIPPED;
		if (lacks != result->text)
			snprintf(result->text, sizeof(result->text), "%s", lacks);
		return;
	}
	run = (struct run){.c = {.check = check,
				 .options = options,
				 .nranks = ranks,
				 .processes = ranks > 0,
				 .quick = options->quick,
				 .timeout_ms = options->timeout_ms / 2}};
	(void)run_one(&run, result);
}

static void run_cases(const struct check *check, const struct check_options *options,
		      struct check_result *result)
{
	static struct run run;
	int low = check->ranks_min > options->ranks_min ? check->ranks_min : options->ranks_min;
	int high = options->ranks_max;

	if (check->ranks_max && check->ranks_max < high)
		high = check->ranks_max;
	if (high < low && check->ranks_min > high)
		high = low; /* the check needs more ranks */
	if (high < low)
		low = high;
	if (check->ways == CHECK_ALONE)
		low = high = 0;
	for (int n = low; n <= high && result->verdict == CHECK_PASSED; n++)
		for (int processes = 0; processes < 2; processes++) {
			unsigned way = processes ? CHECK_PROCESSES : CHECK_THREADS;

			if (check->ways == CHECK_ALONE ? processes : !(check->ways & way))
				continue;
			run = (struct run){.c = {.check = check,
						 .options = options,
						 .nranks = n,
						 .processes = processes,
						 .quick = options->quick,
						 .timeout_ms = options->timeout_ms / 2}};
			if (run_one(&run, result) || result->verdict != CHECK_PASSED)
				break;
		}
}

void check_run(const struct check *check, const struct check_options *options,
	       struct check_result *result)
{
	*result = (struct check_result){.verdict = CHECK_PASSED};
	if (options->launch)
		run_launched(check, options, result);
	else
		run_cases(check, options, result);
	if (check->trace && run_traces[check->trace - 1][0] && result->verdict == CHECK_PASSED) {
		result->verdict = CHECK_NOT_PASSED;
		snprintf(result->text, sizeof(result->text), "%s", run_traces[check->trace - 1]);
	}
	if (result->verdict == CHECK_PASSED && result->skipped == result->cases) {
		result->verdict = CHECK_SKIPPED;
		snprintf(result->text, sizeof(result->text), "%s", result->skip);
	}
	if (options->launch)
		check_launched_agree(options->launch, result);
}
