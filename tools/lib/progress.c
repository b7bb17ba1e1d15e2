/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - a line on standard error that tells a user at a terminal how far a long command is. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/progress.h"
#include "lib/tool.h"

/* Returns to the first column and erases the line. */
static const char progress_erase[] = "\r\033[K";

void progress_begin(struct progress *progress, int after_ms)
{
	const char *term = getenv("TERM");

	*progress = (struct progress){.on = isatty(STDERR_FILENO) && term != NULL &&
					    strcmp(term, "dumb") != 0,
				      .next = tool_now_ms() + after_ms};
}

void progress_show(struct progress *progress, const char *fmt, ...)
{
	va_list args;

	if (!progress->on || tool_now_ms() < progress->next)
		return;
	progress->next = tool_now_ms() + PROGRESS_EVERY_MS;
	progress->shown = 1;
	/* Results that the same terminal shows must precede the line. */
	fflush(stdout);
	fputs(progress_erase, stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs(" ...", stderr);
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		fputs(progress_erase, stderr);
	progress->shown = 0;
}
