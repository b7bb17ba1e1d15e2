/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - threads of the library's own. */
#ifndef CORE_BASE_THREAD_H
#define CORE_BASE_THREAD_H

#include <pthread.h>

/*
 * Starts a thread that takes no signals: they are for the application's threads.  The caller joins or detaches it.
 * Returns 0 or an errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* What to do about an errno of thread_start: a text that follows strerror's, or "". */
const char *thread_advice(int failed);

/*
 * A moment between two looks at memory that another processor writes.  A look amid several writes to one cache line
 * takes the line from the writer, which has to fetch it back.
 */
static inline void thread_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
