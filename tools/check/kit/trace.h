/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h - what a process has before and after: descriptors, threads, signals, children. */
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

/* How many threads this process has. */
int check_count_threads(void);
/* How many descriptors below CHECK_WATCHED_FDS are open. */
int check_count_fds(void);

void check_watch_begin(struct check_watch *watch);
/* Notes in the case's traces what is there now and was not at the beginning. */
void check_watch_end(struct check_case *c, const struct check_watch *watch);
/* The first sentence of each kind stands. */
__attribute__((format(printf, 3, 4))) void check_trace(struct check_case *c, enum check_trace trace,
						       const char *fmt, ...);

#endif
