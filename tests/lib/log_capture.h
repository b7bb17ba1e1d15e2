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

void log_begin(void);

void log_end(void);

/* Returns all lines since log_begin(), also after log_end().  They are valid until the next call. */
const char *log_text(void);

/* Returns the number of log lines that contain a text. */
int log_lines(const char *piece);

#endif
