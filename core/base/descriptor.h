/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h - keeps the library's descriptors above 2, and knows how large a file may be.  A process may have closed
 * 0, 1 or 2, and the system gives out the lowest free number: text for stderr would then go into a socket of the library.
 */
#ifndef CORE_BASE_DESCRIPTOR_H
#define CORE_BASE_DESCRIPTOR_H

#include <stdint.h>
#include <stdio.h>

/*
 * Takes a new descriptor, or -1 with errno.  Returns the descriptor; for 0 to 2 it closes the descriptor and returns
 * a copy with a higher number, which is close-on-exec.  Returns -1 with errno if there is none.
 */
int descriptor_lift(int fd);
/* Opens a file to read, close-on-exec; NULL with errno. */
FILE *descriptor_read(const char *path);
/* Makes a pipe whose ends are close-on-exec: 0, or -1 with errno. */
int descriptor_pipe(int ends[2]);
/*
 * May a file of this process have that size (ulimit -f)?  The kernel answers a larger one with SIGXFSZ, which ends the
 * process, also for a file in memory alone.
 */
int descriptor_may_grow(uint64_t size);

#endif
