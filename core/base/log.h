/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - one line per event, on stderr ("coll[rank 2] warn: ...") or in the file of the option `log_file`.  The functions are
 * thread-safe, each line is one write, and no write blocks signals of the program, raises one, or fails a call.
 *
 * A line has a level, a *subsystem* (the folder of core/ that logs, or the plugin in whose name it stands), and a *place*:
 * the rank in the job, and the file of that rank.  Code that knows its communicator passes the place (lane_log in
 * comm/lane_log.h, context_log in endpoint/context_log.h).  Lines of other code have the place of their thread
 * (log_enter), or that of the process if all its communicators were made for one rank.
 *
 * Before the first communicator is made, no rank is known, and so no file: these lines go to stderr.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include "base/log_levels.h"

#include <coll/backend.h>

#include <stdarg.h>

/* Makefile.inc of each folder that logs names the folder. */
#ifndef LOG_SUBSYSTEM
#define LOG_SUBSYSTEM NULL
#endif

struct log_file;

enum { LOG_NO_RANK = -1 };

/* LOG_UNSET: lines on stderr are short, lines in a file are text. */
enum log_format { LOG_UNSET = -1, LOG_SHORT, LOG_TEXT, LOG_JSON };

struct log_place {
	int rank;              /* in the job, or LOG_NO_RANK */
	struct log_file *file; /* NULL: stderr */
};

/* The subsystem, the communicator and the place that a line names. */
struct log_about {
	const char *subsystem; /* NULL: unknown */
	const char *comm;      /* the name of the communicator, as in dump files; NULL: none */
	struct log_place place;
};

/*
 * Finds out once, at the library's first call, whether the process has a stderr.  Without it the library never writes a
 * line there, because a file of the program may get the number 2 later.
 */
void log_open(void);
/* Sets the level of all lines and of subsystems, for the process: the last caller decides. */
void log_set_levels(const struct log_levels *levels);
/* The same with one level (COLL_LOG_*) for all lines. */
void log_set_level(int level);
/* The level of lines whose subsystem has no level of its own. */
int log_level(void);
/* Would a line be written?  For code that has to prepare it, and for flags that are read once. */
int log_wants(const char *subsystem, int level);
void log_set_format(enum log_format format);
/* Sets the rank that the short lines of this process show; -1: none (several ranks, or not known yet). */
void log_set_rank(int rank);

/*
 * From now on the lines of the calling thread have this place, if they are not given another one; the process's lines too
 * if no other rank or file was ever named in it.  Returns the former place, for log_leave.
 */
struct log_place log_enter(struct log_place place);
void log_leave(struct log_place former);

void log_message(const char *subsystem, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void log_about(const struct log_about *about, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with the arguments of a function like these. */
void log_about_args(const struct log_about *about, int level, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));
/* Logs a finished line in the name of a plugin, which is the subsystem.  about->subsystem does not count. */
void log_plugin(const struct log_about *about, int level, const char *plugin, const char *text);
/* Returns the place of this thread, or else of the process, for a line of code that knows no communicator. */
struct log_about log_here(const char *subsystem);

#define log_error(...) log_message(LOG_SUBSYSTEM, COLL_LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_message(LOG_SUBSYSTEM, COLL_LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_message(LOG_SUBSYSTEM, COLL_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_message(LOG_SUBSYSTEM, COLL_LOG_DEBUG, __VA_ARGS__)

#endif
