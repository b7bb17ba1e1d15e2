/* SPDX-License-Identifier: BSD-3-Clause */
/* page_process.h - whether the process that made a page still runs. */
#ifndef CORE_PAGE_PAGE_PROCESS_H
#define CORE_PAGE_PAGE_PROCESS_H

#include "page/page.h"

/*
 * Tells when this process started, its namespace of process ids, and the boot of its kernel.  A number that the system does not
 * tell is 0, and such a boot is "".
 */
void page_process_own(uint64_t *start, uint64_t *namespace_, char boot[40]);

enum page_life {
	PAGE_LIVES,
	PAGE_GONE,   /* the process has ended, or this is another boot */
	PAGE_UNKNOWN /* the process is in another container, whose process ids say nothing here */
};

/* fd: of the page.  state: becomes the letter of /proc/PID/stat, or '?'. */
enum page_life page_process_look(int fd, const struct page_head *head, char *state);

/* Locks the file of the page until the memory that it maps is unmapped: see page_head.locked.  Returns 0, or -1. */
int page_process_lock(int fd);

/* Does the letter say that the process is stopped, by a signal or a debugger? */
static inline int page_state_is_stopped(char state)
{
	return state == 'T' || state == 't';
}

/* Is a process of this namespace of process ids stopped?  0 also if the system does not tell. */
int page_process_is_stopped(int pid);

/* Removes the pages in the directory whose processes are gone.  Looks at a limited number of files. */
void page_process_clean(int directory);

#endif
