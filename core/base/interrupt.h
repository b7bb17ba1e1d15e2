/* SPDX-License-Identifier: BSD-3-Clause */
/* interrupt.h - repeats a system call that a signal has interrupted, but not without end. */
#ifndef CORE_BASE_INTERRUPT_H
#define CORE_BASE_INTERRUPT_H

#include <errno.h>

enum { INTERRUPT_TRIES = 100 };

/*
 * Returns 1 if a signal interrupted the call that returned `result`, and the caller should repeat it.  *tries begins at 0.
 */
static inline int interrupted(long result, int *tries)
{
	return result < 0 && errno == EINTR && ++*tries < INTERRUPT_TRIES;
}

#endif
