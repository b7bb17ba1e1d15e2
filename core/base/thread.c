/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - threads of the library's own. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int failed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed;
}

const char *thread_advice(int failed)
{
	return failed == EAGAIN ? "; raise the limit of processes and threads (ulimit -u, or "
				  "pids.max of the container)"
				: "";
}
