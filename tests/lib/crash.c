/* SPDX-License-Identifier: BSD-3-Clause */
/* crash.c - the handler that writes the frames of a process that dies of a signal. */
#include "crash.h"

#include <features.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

enum { CRASH_FRAMES = 64 };

/* Once it returns, the process dies of the signal. */
static void crash_tell(int number)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "# process %d: signal %d at\n", (int)getpid(), number);

	if (n > 0 && write(2, text, (size_t)n) < 0)
		return;
#ifdef __GLIBC__
	void *frames[CRASH_FRAMES];

	backtrace_symbols_fd(frames, backtrace(frames, CRASH_FRAMES), 2);
#endif
}

void crash_watch(void)
{
	static const int numbers[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	struct sigaction now, tell = {.sa_handler = crash_tell};

	tell.sa_flags = (int)SA_RESETHAND;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!sigaction(numbers[i], NULL, &now) && now.sa_handler == SIG_DFL)
			sigaction(numbers[i], &tell, NULL);
}
