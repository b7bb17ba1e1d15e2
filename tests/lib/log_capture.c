/* SPDX-License-Identifier: BSD-3-Clause */
/* log_capture.c - a file in the place of stderr. */
#include "log_capture.h"

static int log_file = -1, log_stderr = -1;

void log_begin(void)
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

void log_end(void)
{
	dup2(log_stderr, 2);
	close(log_stderr);
}

const char *log_text(void)
{
	static char *text;
	off_t size = lseek(log_file, 0, SEEK_END);

	free(text);
	text = calloc((size_t)size + 1, 1);
	if (!text || pread(log_file, text, (size_t)size, 0) != size)
		bail_out("cannot read the log");
	return text;
}

int log_lines(const char *piece)
{
	int n = 0;

	for (const char *at = log_text(); (at = strstr(at, piece)); n++)
		at += strcspn(at, "\n");
	return n;
}
