/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - starts threads of the library, and lets signals end the process on them. */
#include "base/thread.h"
#include "base/descriptor.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* A signal must have been pending for so long; a thread of the application that waits for it takes it sooner. */
enum { THREAD_PENDING_US = 1000000 };

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

/* ----------------------------------------------------------------- signals that end -- */

/* The signals by which people and systems end a process. */
static const int thread_ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU};

/* Returns a pending signal whose action is to end the process, or 0. */
static int thread_pending_end(void)
{
	struct sigaction action;
	sigset_t pending;

	if (sigpending(&pending))
		return 0;
	for (size_t i = 0; i < sizeof(thread_ends) / sizeof(thread_ends[0]); i++)
		if (sigismember(&pending, thread_ends[i]) == 1 &&
		    !sigaction(thread_ends[i], NULL, &action) && action.sa_handler == SIG_DFL)
			return thread_ends[i];
	return 0;
}

/* A main thread that has ended before other threads is a zombie to the kernel. */
static int thread_main_has_ended(void)
{
	char text[256];
	const char *state;
	ssize_t n;
	int fd = descriptor_lift(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	state = strrchr(text, ')'); /* behind the name of the program */
	return state && !strncmp(state, ") Z", 3);
}

void thread_let_signals_end(void)
{
	static _Atomic int64_t since_us; /* time since which a signal has been pending; 0: none */
	const int sig = thread_pending_end();
	int64_t since = atomic_load(&since_us);
	sigset_t set;

	if (!sig || !since) {
		if (sig || since)
			atomic_store(&since_us, sig ? clock_now_us() : 0);
		return;
	}
	if (clock_now_us() - since < THREAD_PENDING_US || !thread_main_has_ended())
		return;
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

const char *thread_advice(int failed)
{
	return failed == EAGAIN ? "; raise the limit of processes and threads (ulimit -u, or "
				  "pids.max of the container)"
				: "";
}
