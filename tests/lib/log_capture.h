/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_capture.h - a test reads the lines that the library logs between log_begin() and log_end().  Stderr of the process
 * goes to a file meanwhile, so lines of the test itself on stderr are among them.
 */
#ifndef TESTS_LOG_CAPTURE_H
#define TESTS_LOG_CAPTURE_H

#include "tap.h"

#include <fcntl.h>
#include <unistd.h>

#define LOG_UNUSED __attribute__((unused))

static int log_file = -1, log_stderr = -1;

LOG_UNUSED static void log_begin(void)
{
	FILE *f = tmpfile();

	if (log_file >= 0)
		close(log_file);
	log_file = f ? fcntl(fileno(f), F_DUPFD_CLOEXEC, 0) : -1;
	log_stderr = fcntl(2, F_DUPFD_CLOEXEC, 0);
	if (log_file < 0 || log_stderr < 0 || dup2(log_file, 2) < 0)
		bail_out("cannot redirect stderr");
	fclose(f);
}

LOG_UNUSED static void log_end(void)
{
	dup2(log_stderr, 2);
	close(log_stderr);
}

/* All that was logged since log_begin(), also after log_end(); valid until the next call. */
LOG_UNUSED static const char *log_text(void)
{
	static char *text;
	off_t size = lseek(log_file, 0, SEEK_END);

	free(text);
	text = calloc((size_t)size + 1, 1);
	if (!text || pread(log_file, text, (size_t)size, 0) != size)
		bail_out("cannot read the log");
	return text;
}

/* Number of these lines that contain a text. */
LOG_UNUSED static int log_lines(const char *piece)
{
	int n = 0;

	for (const char *at = log_text(); (at = strstr(at, piece)); n++)
		at += strcspn(at, "\n");
	return n;
}

#endif
