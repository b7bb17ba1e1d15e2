/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - threads of the library's own. */
#ifndef CORE_BASE_THREAD_H
#define CORE_BASE_THREAD_H

#include <pthread.h>

/*
 * Starts a thread that blocks all signals: the application's handlers are for its own threads, and a thread of it may wait
 * with sigwait for a signal that all others block.  The caller joins or detaches the thread.  Returns 0 or an errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);
/*
 * For such a thread, now and then while nothing moves.  A main thread that has left by pthread_exit takes no signal: if no
 * other thread takes SIGTERM or the like either, this thread lets it end the process.
 */
void thread_let_signals_end(void);

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
