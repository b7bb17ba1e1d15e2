/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.h - the threads that the library starts. */
#ifndef CORE_BASE_THREAD_H
#define CORE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/*
 * Starts a thread that blocks all signals.  The application's handlers are for its own threads, and one of these may wait
 * with sigwait for a signal that all threads block.  The caller joins or detaches the thread.  Returns 0 or an errno.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);
/*
 * A thread of thread_start calls it now and then while nothing moves.  A main thread that has left by pthread_exit takes no
 * signal.  If no other thread takes SIGTERM or the like either, the calling thread lets the signal end the process.
 */
void thread_let_signals_end(void);

/* Returns advice about an errno of thread_start, to follow strerror's text; or "". */
const char *thread_advice(int failed);

/*
 * Pauses between two reads of memory that another processor writes.  A read amid several writes to one cache line takes the
 * line from the writer, which then has to fetch it back.
 */
static inline void thread_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * A number that no other living thread of the process has.  With gcc one instruction, where a function of libc's takes five; not
 * every clang that has the function can compile it.
 */
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 11
#define THREAD_NUMBER ((uintptr_t)__builtin_thread_pointer())
#else
#define THREAD_NUMBER ((uintptr_t)pthread_self())
#endif

#endif
