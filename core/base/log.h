/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - one line per event on stderr: "coll[rank 2] warn: ...".  COLL_LOG, or `log` in coll.conf, sets the level (error,
 * warn, info, debug, trace; default warn).  The functions are thread-safe, and each line is one write.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

/*
 * Finds out once, at the library's first call, whether the process has a stderr.  Without it the library never writes a
 * line, because a file of the program may get the number 2 later.
 */
void log_open(void);
/* Levels are COLL_LOG_* of backend.h. */
void log_set_level(int level);
int log_level(void);
/* Sets the rank that the lines of this process show; -1: none (several ranks, or not known yet). */
void log_set_rank(int rank);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs a finished line in the name of `who`, a backend. */
void log_line(int level, const char *who, const char *text);

#endif
