/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - the descriptors, threads, signal handlers and children of a process, before and after a
 * case.
 */
#ifndef TOOLS_CHECK_TRACE_H
#define TOOLS_CHECK_TRACE_H

#include <signal.h>
#include "check/kit/kit.h"

enum { CHECK_WATCHED_FDS = 1024, CHECK_WATCHED_SIGNALS = 65 };

struct check_watch {
	unsigned char fd[CHECK_WATCHED_FDS]; /* 1: open */
	int threads;
	void (*handler[CHECK_WATCHED_SIGNALS])(int);
};

/* Returns the number of threads of this process. */
int check_count_threads(void);
/* Returns the number of open descriptors below CHECK_WATCHED_FDS. */
int check_count_fds(void);

void check_watch_begin(struct check_watch *watch);
/* Records in the case's traces the items that exist now and did not exist at the beginning. */
void check_watch_end(struct check_case *c, const struct check_watch *watch);
/* Records a trace; the first message of each kind stays. */
__attribute__((format(printf, 3, 4))) void check_trace(struct check_case *c, enum check_trace trace,
						       const char *fmt, ...);

#endif
