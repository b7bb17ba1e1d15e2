/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - log lines on stderr. */
#include "base/cancel.h"
#include "base/log.h"
#include "base/interrupt.h"

#include <coll/backend.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LINE_SIZE = 1200 };

static atomic_int log_limit = COLL_LOG_WARN;
static atomic_int log_rank = -1;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static int log_is_closed; /* there was no stderr when the library was first called */

static void log_look(void)
{
	log_is_closed = fcntl(STDERR_FILENO, F_GETFD) < 0;
}

void log_open(void)
{
	pthread_once(&log_once, log_look);
}

void log_set_level(int level)
{
	if (level < COLL_LOG_ERROR)
		level = COLL_LOG_ERROR;
	if (level > COLL_LOG_TRACE)
		level = COLL_LOG_TRACE;
	atomic_store(&log_limit, level);
}

int log_level(void)
{
	return atomic_load(&log_limit);
}

void log_set_rank(int rank)
{
	atomic_store(&log_rank, rank);
}

static const char *log_name(int level)
{
	switch (level) {
	case COLL_LOG_ERROR: return "error";
	case COLL_LOG_WARN: return "warn";
	case COLL_LOG_INFO: return "info";
	case COLL_LOG_DEBUG: return "debug";
	default: return "trace";
	}
}

/* Removes the pending signal that a write of this thread has caused. */
static void log_unsignal(int signal)
{
	CANCEL_OFF;
	const struct timespec now = {0, 0};
	sigset_t one;
	int tries = 0, taken;

	sigemptyset(&one);
	sigaddset(&one, signal);
	do
		taken = sigtimedwait(&one, NULL, &now);
	while (interrupted(taken, &tries));
}

/*
 * Blocks the signals of a failed write: the program must not end because the reader of stderr has closed the pipe, or
 * because the file may not grow (ulimit -f).
 */
static void log_write(const char *line, size_t len)
{
	CANCEL_OFF;
	sigset_t quiet, saved, pending;
	int tries = 0;
	ssize_t n;

	log_open();
	if (log_is_closed)
		return;
	sigemptyset(&quiet);
	sigaddset(&quiet, SIGPIPE);
	sigaddset(&quiet, SIGXFSZ);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &quiet, &saved);
	do
		n = write(STDERR_FILENO, line, len);
	while (interrupted(n, &tries));
	if (n < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
		log_unsignal(SIGPIPE);
	else if (n < 0 && errno == EFBIG && !sigismember(&pending, SIGXFSZ))
		log_unsignal(SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

void log_line(int level, const char *who, const char *text)
{
	const int saved_errno = errno, rank = atomic_load(&log_rank);
	char line[LOG_LINE_SIZE], tag[32] = "";
	size_t len, i;

	if (level > log_level())
		return;
	if (rank >= 0)
		snprintf(tag, sizeof(tag), "[rank %d]", rank);
	/* One byte stays free for the newline. */
	snprintf(line, sizeof(line) - 1, "coll%s %s: %s%s%s", tag, log_name(level), who ? who : "",
		 who ? ": " : "", text ? text : "");
	len = strlen(line);
	for (i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = ' ';
	line[len++] = '\n';
	log_write(line, len);
	errno = saved_errno;
}

__attribute__((format(printf, 2, 0))) static void log_format(int level, const char *fmt,
							     va_list args)
{
	const int saved_errno = errno;
	char text[LOG_LINE_SIZE];

	if (level > log_level())
		return;
	if (vsnprintf(text, sizeof(text), fmt, args) >= 0)
		log_line(level, NULL, text);
	errno = saved_errno;
}

void log_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_format(COLL_LOG_ERROR, fmt, args);
	va_end(args);
}

void log_warn(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_format(COLL_LOG_WARN, fmt, args);
	va_end(args);
}

void log_info(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_format(COLL_LOG_INFO, fmt, args);
	va_end(args);
}

void log_debug(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_format(COLL_LOG_DEBUG, fmt, args);
	va_end(args);
}
