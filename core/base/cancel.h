/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.h - keeps pthread_cancel away from the library's threads of control.  A thread of the program that ended in a
 * system call amid the library would keep the library's locks for ever, so these functions turn its cancellation off there.
 * A thread can be cancelled while it sleeps in some waits only, which leave the library in order (context_wait_or_leave).
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
#define CANCEL_NOBODY 0 /* another thread may cancel this thread */
#endif

enum { CANCEL_KEPT = -1 };

/* Turns cancellation of the calling thread off.  Returns its former state, for cancel_restore. */
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

/* A declaration that turns cancellation of the thread off up to the end of the block. */
#define CANCEL_OFF                                                                                 \
	__attribute__((unused, cleanup(cancel_restore_at))) const int cancel_before =              \
		cancel_disable()

#endif
