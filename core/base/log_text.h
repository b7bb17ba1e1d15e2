/* SPDX-License-Identifier: BSD-3-Clause */
/* log_text.h - a log line as bytes, in one of the formats of the option `log_format`. */
#ifndef CORE_BASE_LOG_TEXT_H
#define CORE_BASE_LOG_TEXT_H

#include "base/log.h"

#include <stdint.h>

/* LOG_TEXT_SIZE: of the sentence.  A line fits one atomic write to a pipe (PIPE_BUF). */
enum { LOG_TEXT_SIZE = 1200, LOG_LINE_SIZE = 4096 };

struct log_line {
	int level;
	const struct log_about *about;
	const char *plugin; /* in whose name the line stands, or NULL */
	const char *text;   /* the sentence; its control bytes become blanks */
	int short_rank;     /* the rank that a short line shows; -1: none */
	int64_t time_us;    /* since 1970 */
	long pid;
};

/*
 * Writes the line with its newline.  Returns the length; there is no final 0.  A sentence of more than LOG_TEXT_SIZE bytes is
 * cut in each format, and one that has no room in JSON with its escapes too.
 */
size_t log_line_text(enum log_format format, const struct log_line *line, char out[LOG_LINE_SIZE]);

#endif
