/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - the life of a job: one loop over signals, output and timers.
 *
 * The launcher reaps ranks only at the end.  Until then no other process can get a rank's process
 * id, which is also the id of its process group.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "run/run.h"
#include "lib/tool.h"

enum {
	JOB_LINGER_MS = 1000, /* time for processes that ranks left behind to end by themselves */
	JOB_INPUT_MS = 200,   /* time between two attempts to read the terminal */
	JOB_LOOK_MS = 50,     /* time between two checks for processes left behind */
	JOB_TIMEOUT_STATUS = 124 /* as timeout(1) */
};

static const int job_forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
				    SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

enum { JOB_FORWARDED = sizeof(job_forwarded) / sizeof(job_forwarded[0]) };

static int job_prefix(const struct run_job *job, int r)
{
	return job->options->prefix ? r : -1;
}

static void job_forward(struct run_job *job, int signo)
{
	run_signal_groups(job, signo);
	if (signo == SIGTSTP)
		raise(SIGSTOP);
	if (signo != SIGINT && signo != SIGTERM && signo != SIGHUP)
		return;
	job->interrupt = signo;
	/*
	 * The ranks decide how to respond to the first signal, but within the grace period.  SIGHUP has none: a program
	 * that ignores it wants to outlive its terminal.  A second signal ends the job.
	 */
	if (++job->interrupts == 1) {
		if (signo != SIGHUP && !sigismember(&job->ignored, signo)) {
			run_interrupt(job);
			job->drained_at = tool_now_ms() + job->options->grace_ms;
		}
		return;
	}
	run_fail(job, 128 + signo, "ending the job: a second signal came, %d (%s)", signo,
		 strsignal(signo));
	run_terminate(job);
}

static void job_read_signals(struct run_job *job)
{
	struct signalfd_siginfo info;
	int died = 0;

	while (read(job->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			died = 1;
		else
			job_forward(job, (int)info.ssi_signo);
	}
	if (!died)
		return;
	run_look_at_ranks(job);
	run_look_at_leftovers(job, 0);
}

/* ------------------------------------------------------------------ clocks -- */

static int job_is_over(const struct run_job *job)
{
	return job->alive == 0 && job->leftovers.n == 0;
}

/* Gives the processes that the ranks left behind their time, however much of theirs the ranks have used. */
static void job_linger(struct run_job *job, int64_t now)
{
	if (job->stage > RUN_INTERRUPTED || job->alive > 0 ||
	    (job->stage == RUN_RUNNING && job->deadline))
		return;
	job->stage = RUN_RUNNING;
	job->deadline = now + JOB_LINGER_MS;
}

/* Ends the stage whose time is over.  Returns 0, or -1 if there is nothing left to wait for. */
static int job_end_stage(struct run_job *job)
{
	switch (job->stage) {
	case RUN_RUNNING:
		run_say(job, "ending %d process%s that the ranks left behind", job->leftovers.n,
			job->leftovers.n == 1 ? "" : "es");
		run_terminate(job);
		return 0;
	case RUN_INTERRUPTED:
		run_fail(job, 128 + job->interrupt,
			 "ending the job: its processes have not ended %g s after signal %d (%s)",
			 (double)job->options->grace_ms / 1000, job->interrupt,
			 strsignal(job->interrupt));
		run_kill(job);
		return 0;
	case RUN_TERMINATING: run_kill(job); return 0;
	default: return -1;
	}
}

/* Does all work that is due now.  Returns 0, or -1 if there is nothing left to wait for. */
static int job_tick(struct run_job *job)
{
	int64_t now = tool_now_ms();

	if (job->alive == 0)
		run_look_at_leftovers(job, 0);
	if (job_is_over(job))
		return 0;
	if (job->timeout_at && now >= job->timeout_at && job->stage < RUN_TERMINATING) {
		run_fail(job, JOB_TIMEOUT_STATUS, "the job was ended after %g seconds (--timeout)",
			 (double)job->options->timeout_ms / 1000);
		run_terminate(job);
	}
	job_linger(job, now);
	if (job->stage == RUN_KILLING)
		run_kill(job);
	return job->deadline == 0 || now < job->deadline ? 0 : job_end_stage(job);
}

static int job_wait_ms(const struct run_job *job)
{
	int64_t next = INT64_MAX, now = tool_now_ms();

	if (job->alive == 0 || job->stage == RUN_KILLING)
		return JOB_LOOK_MS;
	if (job->deadline)
		next = job->deadline - now;
	if (job->timeout_at && job->stage < RUN_TERMINATING && job->timeout_at - now < next)
		next = job->timeout_at - now;
	/* No signal tells the launcher that the shell has moved it into the foreground. */
	if (job->input.from >= 0 && !run_input_wants(&job->input) && next > JOB_INPUT_MS)
		next = JOB_INPUT_MS;
	if (next == INT64_MAX)
		return -1;
	/* poll() takes at most 24 days; then the loop asks again. */
	if (next > INT32_MAX)
		return INT32_MAX;
	return next < 0 ? 0 : (int)next;
}

/* -------------------------------------------------------------------- loop -- */

/* Indexes in the poll set; the ranks' streams follow. */
enum { JOB_POLL_SIGNAL, JOB_POLL_OUT, JOB_POLL_ERR, JOB_POLL_FROM, JOB_POLL_TO, JOB_POLL_RANKS };

static void job_fill_poll(const struct run_job *job, struct pollfd *set)
{
	const struct run_input *input = &job->input;

	set[JOB_POLL_SIGNAL] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
	for (int i = 0; i < 2; i++)
		set[JOB_POLL_OUT + i] = (struct pollfd){
			.fd = job->writer[i].used ? job->writer[i].fd : -1, .events = POLLOUT};
	set[JOB_POLL_FROM] =
		(struct pollfd){.fd = run_input_wants(input) ? input->from : -1, .events = POLLIN};
	set[JOB_POLL_TO] = (struct pollfd){.fd = input->used ? input->to : -1, .events = POLLOUT};
	for (int i = 0; i < 2 * job->started; i++) {
		const struct run_stream *stream = &job->rank[i / 2].stream[i % 2];
		int wanted = run_writer_has_space(&job->writer[i % 2]);

		set[JOB_POLL_RANKS + i] =
			(struct pollfd){.fd = wanted ? stream->fd : -1, .events = POLLIN};
	}
}

static void job_serve_poll(struct run_job *job, const struct pollfd *set)
{
	for (int i = 0; i < 2; i++)
		if (set[JOB_POLL_OUT + i].revents)
			run_writer_flush(&job->writer[i]);
	if (set[JOB_POLL_FROM].revents)
		run_input_read(&job->input);
	if (set[JOB_POLL_TO].revents && job->input.used)
		run_input_write(&job->input);
	for (int i = 0; i < 2 * job->started; i++) {
		struct run_writer *writer = &job->writer[i % 2];

		if (set[JOB_POLL_RANKS + i].revents && run_writer_has_space(writer))
			run_stream_read(&job->rank[i / 2].stream[i % 2], job_prefix(job, i / 2),
					writer);
	}
	if (set[JOB_POLL_SIGNAL].revents)
		job_read_signals(job);
}

static void job_close_streams(struct run_job *job)
{
	for (int i = 0; i < 2 * job->started; i++)
		run_stream_close(&job->rank[i / 2].stream[i % 2], job_prefix(job, i / 2),
				 &job->writer[i % 2]);
}

/* Runs until all processes of the job have ended. */
static void job_loop(struct run_job *job, struct pollfd *set)
{
	while (!job_is_over(job)) {
		job_fill_poll(job, set);
		if (poll(set, (nfds_t)(JOB_POLL_RANKS + 2 * job->started), job_wait_ms(job)) > 0)
			job_serve_poll(job, set);
		if (job_tick(job) != 0)
			break;
	}
	if (job_is_over(job))
		return;
	job->failed = 0;
	run_fail(job, 1, "some processes of the job did not end after SIGKILL");
	job_close_streams(job);
}

static int job_has_output(const struct run_job *job)
{
	int open = 0;

	for (int i = 0; i < 2 * job->started; i++)
		open += job->rank[i / 2].stream[i % 2].fd >= 0;
	return open > 0 || job->writer[0].used > 0 || job->writer[1].used > 0;
}

/* Writes as much as the reader takes without a wait. */
static void job_flush(struct run_writer *writer)
{
	struct pollfd set = {.fd = writer->fd, .events = POLLOUT};

	while (writer->used > 0 && poll(&set, 1, 0) == 1)
		run_writer_flush(writer);
}

/* Returns how long the reader of the output may take; -1: without limit. */
static int job_drain_ms(const struct run_job *job)
{
	int64_t left = job->drained_at - tool_now_ms();

	if (!job->drained_at)
		return -1;
	return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/*
 * Passes on the rest of the pipes' contents.  All writers have ended, so each pipe reaches its end.  The launcher still
 * handles signals, because its reader may be slow.
 */
static void job_drain(struct run_job *job, struct pollfd *set)
{
	int before = job->interrupts, wait_ms;

	while (job_has_output(job) && job->interrupts == before &&
	       (wait_ms = job_drain_ms(job)) != 0) {
		job_fill_poll(job, set);
		if (poll(set, (nfds_t)(JOB_POLL_RANKS + 2 * job->started), wait_ms) > 0)
			job_serve_poll(job, set);
	}
	job_close_streams(job);
	if (job->writer[0].used > 0)
		run_fail(job, 128 + job->interrupt,
			 "signal %d (%s) came before all output was written", job->interrupt,
			 strsignal(job->interrupt));
	job_flush(&job->writer[1]);
}

/* ------------------------------------------------------------- begin, end -- */

static int job_take_signals(struct run_job *job)
{
	struct sigaction old;
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	for (int i = 0; i < JOB_FORWARDED; i++)
		sigaddset(&mask, job_forwarded[i]);
	/* If the parent had SIGCHLD ignored, the kernel would discard exit statuses. */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&job->ignored);
	for (int i = 0; i < JOB_FORWARDED; i++)
		if (!sigaction(job_forwarded[i], NULL, &old) && old.sa_handler == SIG_IGN)
			sigaddset(&job->ignored, job_forwarded[i]);
	sigaction(SIGPIPE, NULL, &old);
	job->sigpipe_ignored = old.sa_handler == SIG_IGN;
	signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_BLOCK, &mask, &job->old_mask);
	job->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return job->signal_fd < 0 ? -1 : 0;
}

static int job_open(struct run_job *job, const struct run_options *options)
{
	*job = (struct run_job){.options = options,
				.watchdog_fd = -1,
				.exec_fd = {-1, -1},
				.port_fd = -1,
				.torch_fd = -1,
				.signal_fd = -1,
				.input = {.from = -1, .to = -1}};
	job->rank = calloc((size_t)options->nranks, sizeof(*job->rank));
	if (job->rank == NULL || run_writer_open(&job->writer[0], STDOUT_FILENO) ||
	    run_writer_open(&job->writer[1], STDERR_FILENO)) {
		fprintf(stderr,
			"coll run: no memory for %d ranks: raise the limit (ulimit -v), or start "
			"fewer\n",
			options->nranks);
		return -1;
	}
	for (int r = 0; r < options->nranks; r++)
		job->rank[r].stream[0].fd = job->rank[r].stream[1].fd = -1;
	if (job_take_signals(job) != 0) {
		fprintf(stderr, "coll run: cannot take signals: %s\n", strerror(errno));
		return -1;
	}
	return run_prepare(job);
}

static void job_close(struct run_job *job)
{
	for (int r = 0; r < job->started; r++)
		waitpid(job->rank[r].pid, NULL, WNOHANG);
	run_unprepare(job);
	run_input_close(&job->input);
	if (job->signal_fd >= 0)
		close(job->signal_fd);
	free(job->writer[0].data);
	free(job->writer[1].data);
	free(job->leftovers.pid);
	free(job->inherited.pid);
	free(job->rank);
}

static void job_start(struct run_job *job)
{
	for (int r = 0; r < job->options->nranks; r++) {
		if (run_spawn(job, r) != 0) {
			job->failed = 1;
			job->status = 1;
			run_terminate(job);
			return;
		}
		job->started++;
		job->alive++;
	}
	if (job->options->timeout_ms)
		job->timeout_at = tool_now_ms() + job->options->timeout_ms;
}

int run_job(const struct run_options *options)
{
	struct run_job job;
	struct pollfd *set;
	int status = 1;

	set = calloc(JOB_POLL_RANKS + 2 * (size_t)options->nranks, sizeof(*set));
	if (set != NULL && job_open(&job, options) == 0) {
		job_start(&job);
		job_loop(&job, set);
		job_drain(&job, set);
		status = job.status;
		if (status == 0 && job.writer[0].failed && job.writer[0].failed != EPIPE) {
			fprintf(stderr, "coll run: cannot write to standard output: %s\n",
				strerror(job.writer[0].failed));
			status = 1;
		}
	}
	if (set != NULL)
		job_close(&job);
	free(set);
	return status;
}
