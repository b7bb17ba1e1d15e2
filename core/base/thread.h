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

#endif
