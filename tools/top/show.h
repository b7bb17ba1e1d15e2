/* SPDX-License-Identifier: BSD-3-Clause */
/* show.h - jobs as text and as JSON; the terminal that `coll top` refreshes. */
#ifndef TOOLS_TOP_SHOW_H
#define TOOLS_TOP_SHOW_H

#include <poll.h>

#include "lib/json.h"
#include "top/job.h"

/* Prints the ranks of a job, a line each.  lines, columns: of the terminal; 0: no limit. */
void show_job(const struct job *job, int lines, int columns);
/* Writes the job as a member of an array. */
void show_json(struct json *json, const struct job *job);

/* From now on a signal ends screen_sleep and screen_poll, and screen_raise then ends the program as the signal would have. */
void screen_catch(void);
/* Does nothing after SIGINT, by which users end a command that repeats. */
void screen_raise(void);
/* Makes room on the terminal, which the program leaves as it was when it ends, also by a signal. */
void screen_begin(void);
void screen_end(void);
/* Begins a new picture. */
void screen_clear(int *lines, int *columns);
/* Sleeps for so long, or until a signal ends the program: returns 1. */
int screen_sleep(int64_t ms);
/* Waits for the descriptors as poll() does, ms -1: without a limit, or until a signal ends the program: returns 1. */
int screen_poll(struct pollfd *fds, int count, int64_t ms);

#endif
