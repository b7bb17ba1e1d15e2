/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * signal_test.c - signals in processes that have threads of the library: the program's threads get them, and one that ends
 * processes does so although the main thread has left by pthread_exit.
 */
#include "../lib/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

enum { PATIENCE_S = 60, TAKEN = 7 };

static pthread_t own_thread;

/* ------------------------------------------------------------------- the programs -- */

static void begin(void)
{
	static coll_comm_t comm;
	coll_config_t config;

	ranks_config(&config, "tcp");
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		bail_out("no communicator: %s", coll_get_last_error(NULL));
}

/* Nothing but the library's thread remains. */
static void leave_alone(void)
{
	begin();
}

static void *wait_for_signal(void *arg)
{
	int number;

	if (sigwait(arg, &number) || number != SIGTERM)
		_exit(1);
	_exit(TAKEN);
}

/* A thread of the program waits for the signal, which all threads block from some time on. */
static void leave_waiting(void)
{
	static sigset_t term;

	begin();
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	if (pthread_create(&own_thread, NULL, wait_for_signal, &term))
		bail_out("no thread");
}

static void take(int number)
{
	(void)number;
	_exit(pthread_equal(pthread_self(), own_thread) ? TAKEN : 1);
}

static void *stay(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

/* The program's handler runs in its own thread. */
static void leave_handling(void)
{
	const struct sigaction action = {.sa_handler = take};

	begin();
	if (pthread_create(&own_thread, NULL, stay, NULL) || sigaction(SIGTERM, &action, NULL))
		bail_out("no thread");
}

/* ---------------------------------------------------------------------- the test -- */

/* Has the main thread of the process ended, and the process not? */
static int main_has_left(pid_t pid)
{
	char name[64], text[256] = "";
	int fd;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	return n > 0 && strstr(text, ") Z");
}

/* A process whose main thread runs the program, and leaves. */
static pid_t main_start(void (*program)(void), int number)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bail_out("cannot fork: %s", strerror(errno));
	if (pid)
		return pid;
	signal(number, SIG_DFL); /* a shell may have ignored it */
	program();
	pthread_exit(NULL);
}

/* Sends the process the signal once its main thread has left: it ends with the status `want`. */
static void main_leaves(void (*program)(void), int number, int want, const char *what)
{
	const double deadline = ranks_now() + PATIENCE_S;
	pid_t pid = main_start(program, number);
	int status = 0;

	while (!main_has_left(pid) && ranks_now() < deadline)
		poll(NULL, 0, 5);
	kill(pid, number);
	if (!ranks_reap(pid, deadline, &status))
		ok(0, "%s: the process has not ended", what);
	else
		is_int(status, want, "%s", what);
}

int main(void)
{
	setenv("COLL_PROGRESS", "thread", 1);
	main_leaves(leave_alone, SIGTERM, SIGTERM,
		    "SIGTERM ends a process without its main thread");
	main_leaves(leave_alone, SIGINT, SIGINT, "so does SIGINT");
	main_leaves(leave_waiting, SIGTERM, TAKEN << 8,
		    "a thread that waits for the signal gets it");
	main_leaves(leave_handling, SIGTERM, TAKEN << 8,
		    "a handler runs in a thread of the program");
	return done_testing();
}
