/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c - the traces that a plugin leaves in a process that used it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/kit/trace.h"
#include "lib/tool.h"

/* The kernel still lists a joined thread for a moment. */
enum { TRACE_TIMEOUT_MS = 2000, TRACE_SLEEP_US = 2000 };

int check_count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	if (!dir)
		return 1;
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void trace_fds(unsigned char open[CHECK_WATCHED_FDS])
{
	for (int fd = 0; fd < CHECK_WATCHED_FDS; fd++)
		open[fd] = fcntl(fd, F_GETFD) >= 0;
}

int check_count_fds(void)
{
	unsigned char open[CHECK_WATCHED_FDS];
	int n = 0;

	trace_fds(open);
	for (int fd = 0; fd < CHECK_WATCHED_FDS; fd++)
		n += open[fd];
	return n;
}

static void trace_signals(void (*handler[CHECK_WATCHED_SIGNALS])(int))
{
	struct sigaction action;

	for (int number = 1; number < CHECK_WATCHED_SIGNALS; number++) {
		handler[number] = SIG_DFL;
		if (!sigaction(number, NULL, &action))
			handler[number] = action.sa_handler;
	}
}

void check_trace(struct check_case *c, enum check_trace trace, const char *fmt, ...)
{
	char *text = c->shared->trace[trace];
	int unsaid = 0;
	va_list args;

	if (!atomic_compare_exchange_strong(&c->shared->traced[trace], &unsaid, 1))
		return;
	va_start(args, fmt);
	vsnprintf(text, CHECK_TEXT, fmt, args);
	va_end(args);
	atomic_store(&c->shared->traced[trace], 2);
}

static void trace_new_fds(struct check_case *c, const struct check_watch *before)
{
	unsigned char open[CHECK_WATCHED_FDS];
	char link[64], what[128], list[400] = "";
	size_t used = 0;
	int n = 0;

	trace_fds(open);
	for (int fd = 0; fd < CHECK_WATCHED_FDS; fd++) {
		ssize_t len;

		if (!open[fd] || before->fd[fd])
			continue;
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, what, sizeof(what) - 1);
		what[len > 0 ? len : 0] = '\0';
		if (n++ < 3)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d (%s)",
						 used ? ", " : "", fd, what);
	}
	if (n)
		check_trace(c, CHECK_FDS, "%d descriptors were left open: %s%s", n, list,
			    n > 3 ? ", ..." : "");
}

static void trace_new_signals(struct check_case *c, const struct check_watch *before)
{
	void (*handler[CHECK_WATCHED_SIGNALS])(int);

	trace_signals(handler);
	for (int number = 1; number < CHECK_WATCHED_SIGNALS; number++)
		if (handler[number] != before->handler[number])
			check_trace(c, CHECK_SIGNALS, "signal %d (%s) is handled differently now",
				    number, strsignal(number));
}

static void *trace_nothing(void *arg)
{
	return arg;
}

void check_watch_begin(struct check_watch *watch)
{
	pthread_t thread;

	/* A sanitizer starts a helper thread with the first thread, which is no fault of the plugin. */
	if (!pthread_create(&thread, NULL, trace_nothing, NULL))
		pthread_join(thread, NULL);
	trace_fds(watch->fd);
	trace_signals(watch->handler);
	watch->threads = check_count_threads();
}

void check_watch_end(struct check_case *c, const struct check_watch *watch)
{
	int64_t deadline = tool_now_ms() + TRACE_TIMEOUT_MS;
	int status, threads = check_count_threads();
	pid_t child;

	if (check_failed(c))
		return; /* a failed or skipped case leaves traces for other reasons */
	while (threads > watch->threads && tool_now_ms() < deadline &&
	       /* no need to wait if the trace was seen before */
	       !*check_traced(CHECK_LASTING_THREADS)) {
		usleep(TRACE_SLEEP_US);
		threads = check_count_threads();
	}
	if (threads > watch->threads)
		check_trace(c, CHECK_LASTING_THREADS, "%d threads were left running",
			    threads - watch->threads);
	trace_new_fds(c, watch);
	trace_new_signals(c, watch);
	child = waitpid(-1, &status, WNOHANG);
	if (child >= 0 || errno != ECHILD)
		check_trace(c, CHECK_CHILDREN,
			    "there is a child process that the kit did not make");
}
