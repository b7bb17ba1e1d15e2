/* SPDX-License-Identifier: BSD-3-Clause */
/* interrupt.h - a system call that a signal has interrupted is made again, but not without end. */
#ifndef CORE_BASE_INTERRUPT_H
#define CORE_BASE_INTERRUPT_H

#include <errno.h>

enum { INTERRUPT_TRIES = 100 };

/* Has a signal interrupted the call that returned this result, and is the call to be made again?  *tries begins at 0. */
static inline int interrupted(long result, int *tries)
{
	return result < 0 && errno == EINTR && ++*tries < INTERRUPT_TRIES;
}

#endif
