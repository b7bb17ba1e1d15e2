/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - a line on standard error that tells a user at a terminal how far a long command is.  Elsewhere the functions
 * print nothing.
 */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdint.h>

/* A command that ends within PROGRESS_AFTER_MS shows no progress. */
enum { PROGRESS_AFTER_MS = 2000, PROGRESS_EVERY_MS = 100 };

struct progress {
	int on;       /* 1: standard error is a terminal */
	int shown;    /* 1: the line is on the terminal */
	int64_t next; /* the time from which the line may be printed again */
};

/* The line may appear `after_ms` from now on. */
void progress_begin(struct progress *progress, int after_ms);
/* Replaces the line, or does nothing if the line is not due. */
__attribute__((format(printf, 2, 3))) void progress_show(struct progress *progress, const char *fmt,
							 ...);
/* Erases the line.  The caller must call progress_clear before it prints anything else. */
void progress_clear(struct progress *progress);

#endif
