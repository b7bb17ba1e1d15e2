/* SPDX-License-Identifier: BSD-3-Clause */
/* screen.c - the terminal of `coll top`: see show.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "top/show.h"

/* The alternate screen without a cursor, and back. */
#define SCREEN_ON  "\033[?1049h\033[?25l"
#define SCREEN_OFF "\033[?25h\033[?1049l"

static volatile sig_atomic_t screen_signal;

static void screen_note(int signal)
{
	screen_signal = signal;
}

void screen_catch(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	const struct sigaction action = {.sa_handler = screen_note};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

void screen_begin(void)
{
	screen_catch();
	fputs(SCREEN_ON, stdout);
	fflush(stdout);
}

void screen_end(void)
{
	fputs(SCREEN_OFF, stdout);
	fflush(stdout);
	screen_raise();
}

void screen_raise(void)
{
	if (screen_signal && screen_signal != SIGINT) {
		signal(screen_signal, SIG_DFL);
		raise(screen_signal);
	}
}

void screen_clear(int *lines, int *columns)
{
	struct winsize size;

	*lines = *columns = 0;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col) {
		*lines = size.ws_row;
		*columns = size.ws_col;
	}
	fputs("\033[H\033[2J", stdout);
}

int screen_poll(struct pollfd *fds, int count, int64_t ms)
{
	const struct timespec limit = {.tv_sec = (time_t)(ms / 1000),
				       .tv_nsec = (long)(ms % 1000) * 1000000};
	sigset_t all, before;

	/* A signal that comes between the test and the wait ends the wait. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if (screen_signal || ppoll(fds, (nfds_t)count, ms < 0 ? NULL : &limit, &before) < 0)
		for (int i = 0; i < count; i++)
			fds[i].revents = 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return screen_signal != 0;
}

int screen_sleep(int64_t ms)
{
	return screen_poll(NULL, 0, ms);
}
