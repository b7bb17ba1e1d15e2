/* SPDX-License-Identifier: BSD-3-Clause */
/* watch.c - finds the living processes of the job, records how ranks ended, and ends all processes. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "run/run.h"
#include "lib/tool.h"

enum { WATCH_KILL_MS = 10000 /* time that the kernel gets to end killed processes */ };

static void watch_vsay(struct run_job *job, const char *fmt, va_list args)
{
	char text[512];
	int n = vsnprintf(text, sizeof(text) - 1, fmt, args);

	if (n > (int)sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n] = '\n';
	run_writer_put(&job->writer[1], "coll run: ", 10);
	run_writer_put(&job->writer[1], text, (size_t)n + 1);
}

void run_say(struct run_job *job, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	watch_vsay(job, fmt, args);
	va_end(args);
}

void run_fail(struct run_job *job, int status, const char *fmt, ...)
{
	va_list args;

	if (job->failed)
		return;
	job->failed = 1;
	job->status = status;
	va_start(args, fmt);
	watch_vsay(job, fmt, args);
	va_end(args);
}

void run_signal_groups(struct run_job *job, int signo)
{
	for (int r = 0; r < job->started; r++)
		kill(-job->rank[r].pid, signo);
}

static int watch_add(struct run_children *list, pid_t pid)
{
	int space = 2 * list->space + 64;
	pid_t *more;

	if (list->n == list->space) {
		more = realloc(list->pid, (size_t)space * sizeof(*more));
		if (more == NULL)
			return -1;
		list->pid = more;
		list->space = space;
	}
	list->pid[list->n++] = pid;
	return 0;
}

static int watch_contains(const struct run_children *list, pid_t pid)
{
	for (int i = 0; i < list->n; i++)
		if (list->pid[i] == pid)
			return 1;
	return 0;
}

/*
 * Appends the children of one thread of a process that are not in `known` (or NULL).  Where the kernel has no such list, it
 * stays empty, and the launcher does not find processes left behind.
 */
static int watch_add_children(struct run_children *list, const struct run_children *known,
			      pid_t process, pid_t thread)
{
	char path[64];
	FILE *file;
	int pid, status = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)process, (int)thread);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	while (status == 0 && fscanf(file, "%d", &pid) == 1)
		if (known == NULL || !watch_contains(known, pid))
			status = watch_add(list, pid);
	fclose(file);
	return status;
}

static int watch_list_own_children(struct run_children *list)
{
	list->n = 0;
	return watch_add_children(list, NULL, getpid(), getpid());
}

/*
 * Adds the processes that inherited processes have started since.  Each becomes the launcher's child when its parent ends.
 */
static int watch_add_descendants(struct run_children *inherited)
{
	int status = 0;

	for (int i = 0; status == 0 && i < inherited->n; i++) {
		char path[64];
		struct dirent *entry;
		DIR *threads;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)inherited->pid[i]);
		threads = opendir(path);
		while (status == 0 && threads != NULL && (entry = readdir(threads)) != NULL)
			if (entry->d_name[0] != '.')
				status = watch_add_children(inherited, inherited, inherited->pid[i],
							    (pid_t)atoi(entry->d_name));
		if (threads != NULL)
			closedir(threads);
	}
	return status;
}

int run_list_inherited(struct run_children *inherited)
{
	int status = watch_list_own_children(inherited);

	return status ? status : watch_add_descendants(inherited);
}

static int watch_is_known(const struct run_job *job, pid_t pid)
{
	if (pid == job->watchdog)
		return 1;
	for (int r = 0; r < job->started; r++)
		if (job->rank[r].pid == pid)
			return 1;
	return watch_contains(&job->inherited, pid);
}

/* Lists the living orphans and reaps the dead.  Returns the number of the dead. */
static int watch_list_leftovers(struct run_job *job)
{
	struct run_children *list = &job->leftovers;
	int living = 0, dead = 0;

	/* The kernel continues its list by position, so no child is reaped while the list is read. */
	watch_list_own_children(list);
	for (int i = 0; i < list->n; i++) {
		if (watch_is_known(job, list->pid[i]))
			continue;
		if (waitpid(list->pid[i], NULL, WNOHANG) != 0)
			dead++;
		else
			list->pid[living++] = list->pid[i];
	}
	list->n = living;
	return dead;
}

void run_look_at_leftovers(struct run_job *job, int signo)
{
	int dead;

	watch_add_descendants(&job->inherited);
	/* An orphan that died after the list was read may have left a child that the list lacks. */
	do
		dead = watch_list_leftovers(job);
	while (dead > 0 && job->leftovers.n == 0 && job->alive == 0);
	for (int i = 0; signo && i < job->leftovers.n; i++)
		kill(job->leftovers.pid[i], signo);
}

void run_interrupt(struct run_job *job)
{
	if (job->stage != RUN_RUNNING)
		return;
	job->stage = RUN_INTERRUPTED;
	job->deadline = tool_now_ms() + job->options->grace_ms;
}

void run_terminate(struct run_job *job)
{
	if (job->stage >= RUN_TERMINATING)
		return;
	run_interrupt(job);
	job->stage = RUN_TERMINATING;
	run_signal_groups(job, SIGTERM);
	run_look_at_leftovers(job, SIGTERM);
	/* A stopped process gets SIGTERM only after SIGCONT. */
	run_signal_groups(job, SIGCONT);
}

void run_kill(struct run_job *job)
{
	if (job->stage != RUN_KILLING)
		job->deadline = tool_now_ms() + WATCH_KILL_MS;
	job->stage = RUN_KILLING;
	run_signal_groups(job, SIGKILL);
	run_look_at_leftovers(job, SIGKILL);
}

static int watch_is_status_failure(const siginfo_t *info)
{
	return info->si_code != CLD_EXITED || info->si_status != 0;
}

static void watch_report_rank(struct run_job *job, int r, const siginfo_t *info)
{
	const char *program = job->options->argv[0];
	int error;

	if (info->si_code != CLD_EXITED) {
		run_fail(job, 128 + info->si_status, "rank %d was killed by signal %d (%s)%s", r,
			 info->si_status, strsignal(info->si_status),
			 info->si_code == CLD_DUMPED ? ", core dumped" : "");
		return;
	}
	error = info->si_status == 126 || info->si_status == 127 ? run_exec_error(job) : 0;
	if (error)
		run_fail(job, info->si_status, "cannot run '%s': %s", program,
			 error == ENOENT && strchr(program, '/') == NULL ? "not found in PATH"
									 : strerror(error));
	else
		run_fail(job, info->si_status, "rank %d exited with status %d", r, info->si_status);
}

void run_look_at_ranks(struct run_job *job)
{
	siginfo_t first = {0}, info;
	int failed = -1;

	for (int r = 0; r < job->started; r++) {
		struct run_rank *rank = &job->rank[r];

		info.si_pid = 0;
		if (rank->exited ||
		    waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
			continue;
		if (info.si_pid == 0)
			continue;
		rank->exited = 1;
		job->alive--;
		if (r == 0)
			run_input_close(&job->input);
		/*
		 * A rank killed by a signal is a likelier cause than other failures: the other ranks noticed its death and
		 * gave up.
		 */
		if (watch_is_status_failure(&info) &&
		    (failed < 0 || (first.si_code == CLD_EXITED && info.si_code != CLD_EXITED))) {
			failed = r;
			first = info;
		}
	}
	if (failed < 0)
		return;
	watch_report_rank(job, failed, &first);
	run_terminate(job);
}
