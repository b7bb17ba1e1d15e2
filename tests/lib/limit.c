/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit.c - runs a test, and ends all its processes: limit SECONDS PROGRAM [ARGUMENT...]
 *
 * A test may hang, and a process of an ended test may live on with the test's output open: make would wait for that process
 * for ever.  So this program adopts every process that loses its parent, and kills all processes of the test when the test
 * has ended or its time is over.  Exits with the test's status, 128 and the number of its signal, or 99 if the time was over.
 * The last line of the output says how long the test took, and how much processor time all its processes used.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_OVER = 99, LIMIT_CANNOT_RUN = 127 };

/* Kills the children of this process, which are the test or were adopted: the number of them. */
static int limit_kill_children(void)
{
	char path[64];
	FILE *file;
	int pid, n = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &pid) == 1)
		n += !kill(pid, SIGKILL);
	if (file)
		fclose(file);
	return n;
}

/* A killed process hands its children to this one, so that killing goes on until there is none. */
static void limit_end_all(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (;;) {
		const pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return;
		if (pid > 0)
			continue;
		limit_kill_children();
		nanosleep(&pause, NULL);
	}
}

static double limit_seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* Prints a comment of TAP, so that the logs of a run tell which tests are slow, and which slow tests only wait. */
static void limit_print_times(const struct timespec *start)
{
	struct timespec now;
	struct rusage used;

	clock_gettime(CLOCK_MONOTONIC, &now);
	getrusage(RUSAGE_CHILDREN, &used);
	printf("# took %.2f s, %.2f s of processor time\n",
	       (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9,
	       limit_seconds(&used.ru_utime) + limit_seconds(&used.ru_stime));
}

static int limit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Waits for the test: its status, or -1 if the time is over. */
static int limit_await(pid_t test, time_t seconds)
{
	struct timespec now, end;
	sigset_t child;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	for (;;) {
		const pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid == test)
			return limit_status(status);
		if (pid > 0)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end.tv_sec)
			return -1;
		now = (struct timespec){.tv_sec = end.tv_sec - now.tv_sec};
		(void)sigtimedwait(&child, NULL, &now);
	}
}

static void limit_run(char **argv, const sigset_t *mask)
{
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	fprintf(stderr, "limit: cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(LIMIT_CANNOT_RUN);
}

int main(int argc, char **argv)
{
	const long seconds = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
	struct timespec start;
	sigset_t child, mask;
	pid_t test;
	int status;

	if (seconds < 1) {
		fprintf(stderr, "usage: limit SECONDS PROGRAM [ARGUMENT...]\n");
		return LIMIT_CANNOT_RUN;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &mask);
	test = fork();
	if (!test)
		limit_run(argv + 2, &mask);
	if (test < 0) {
		fprintf(stderr, "limit: cannot start a process: %s\n", strerror(errno));
		return LIMIT_CANNOT_RUN;
	}
	status = limit_await(test, seconds);
	if (status < 0) {
		printf("not ok - %s has not ended within %ld s, and was killed\n", argv[2],
		       seconds);
		fflush(stdout);
	}
	limit_end_all();
	limit_print_times(&start);
	return status < 0 ? LIMIT_OVER : status;
}
