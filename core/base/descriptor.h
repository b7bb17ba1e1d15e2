/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h - keeps the library's descriptors above 2, and knows how large a file may be.  A process may have closed 0,
 * 1 or 2, and the system gives out the lowest free number.  Text that the program prints to stderr would then go into a
 * socket of the library.
 */
#ifndef CORE_BASE_DESCRIPTOR_H
#define CORE_BASE_DESCRIPTOR_H

#include <stdint.h>
#include <stdio.h>

/*
 * Moves a new descriptor above 2: returns fd itself, or for 0 to 2 closes it and returns a copy that is close-on-exec.
 * Returns -1 with errno if the system has no number left, and passes -1 on.
 */
int descriptor_lift(int fd);
/*
 * Puts the file of `fd` in the place of another descriptor, close-on-exec, and closes fd: threads that use the other number
 * see the old file or the new one.  Returns 0, or -1 with errno; then both are as before.
 */
int descriptor_replace(int fd, int other);
/* Opens a file to read, close-on-exec.  Returns NULL with errno on a failure. */
FILE *descriptor_read(const char *path);
/* Makes a pipe whose ends are close-on-exec.  Returns 0, or -1 with errno. */
int descriptor_pipe(int ends[2]);
/*
 * May this process make a file of that size (ulimit -f)?  The kernel answers a larger file with SIGXFSZ, which ends the
 * process, also for a file in memory alone.
 */
int descriptor_may_grow(uint64_t size);

#endif
