/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.h - threads of the program that pthread_cancel ends.  A thread that ended in a system call amid the library would
 * keep the library's locks for ever, so the thread is not cancelled there.  It is cancelled in the sleep of some waits,
 * which leave the library in order (context_wait_or_leave).
 */
#ifndef CORE_BASE_CANCEL_H
#define CORE_BASE_CANCEL_H

#include <pthread.h>
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define CANCEL_NOBODY __libc_single_threaded
#endif
#endif
#ifndef CANCEL_NOBODY
#define CANCEL_NOBODY 0 /* there may be a thread that cancels this one */
#endif

enum { CANCEL_KEPT = -1 };

/* Returns what cancel_restore takes. */
static inline int cancel_disable(void)
{
	int before = CANCEL_KEPT;

	if (!CANCEL_NOBODY)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_restore(int before)
{
	if (before != CANCEL_KEPT)
		pthread_setcancelstate(before, NULL);
}

static inline void cancel_restore_at(const int *before)
{
	cancel_restore(*before);
}

/* A declaration: up to the end of the block the thread is not cancelled. */
#define CANCEL_OFF                                                                                 \
	__attribute__((unused, cleanup(cancel_restore_at))) const int cancel_before =              \
		cancel_disable()

#endif
