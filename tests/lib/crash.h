/* SPDX-License-Identifier: BSD-3-Clause */
/* crash.h - a process of a test that dies of a signal writes to stderr where it was, for addr2line. */
#ifndef TESTS_CRASH_H
#define TESTS_CRASH_H

/* From now on a signal that kills this process writes the text.  A sanitizer's own handler stays. */
void crash_watch(void);

#endif
