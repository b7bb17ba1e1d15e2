/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - one line per event on stderr: "coll[rank 2] warn: ...".  Level from COLL_LOG / `log` in
 * coll.conf (error, warn, info, debug, trace; default warn).  Thread-safe; a line is one write.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

/*
 * Looks once, at the library's first call, whether the process has a stderr.  If not, no line is written ever: a file
 * of the program may get the number 2 later.
 */
void log_open(void);
/* Levels are COLL_LOG_* of backend.h. */
void log_set_level(int level);
int log_level(void);
/* Rank shown by this process's lines; -1: none (several ranks, or not known yet). */
void log_set_rank(int rank);
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Logs a finished line in the name of `who`, a backend. */
void log_line(int level, const char *who, const char *text);

#endif
