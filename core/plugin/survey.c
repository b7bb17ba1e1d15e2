/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survey.c - opens and probes one plugin in a child process, for `coll info`: a vendor's library that crashes ends the
 * child only.
 *
 * The child answers with a survey_head, the options, and the strings of the table and of the options; a string is a
 * byte 1 and its text with NUL, or a byte 0 for NULL.  The parent trusts no length.
 */
#include "plugin/pack.h"
#include "plugin/plugin_impl.h"
#include "base/descriptor.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SURVEY_SECONDS = 5, SURVEY_LARGEST = 1 << 20, SURVEY_SLICE_MS = 20 };

struct survey_head {
	coll_backend_t backend;
	coll_transport_t transport;
	coll_native_t native;
	int32_t code;
	char reason[768];
	char info[256];
};

/* --------------------------------------------------------------------- the child -- */

static void survey_send(const struct plugin *plugin, FILE *out)
{
	const coll_backend_t *b = &plugin->backend;
	struct survey_head head = {.backend = *b,
				   .transport = plugin->transport,
				   .native = plugin->native,
				   .code = plugin->code};

	memcpy(head.reason, plugin->reason, sizeof(head.reason));
	memcpy(head.info, plugin->info, sizeof(head.info));
	fwrite(&head, sizeof(head), 1, out);
	if (b->option_count)
		fwrite(b->options, sizeof(*b->options), b->option_count, out);
	pack_string(out, b->name);
	pack_string(out, b->version);
	pack_string(out, b->description);
	for (uint32_t i = 0; i < b->option_count; i++) {
		pack_string(out, b->options[i].key);
		pack_string(out, b->options[i].fallback);
		pack_string(out, b->options[i].unit);
		pack_string(out, b->options[i].help);
	}
}

/* Faults of the configuration are the parent's to tell. */
static void survey_child(struct plugin *plugin, const struct trust *trust, struct config *config,
			 int fd)
{
	FILE *out = fdopen(fd, "w");

	dup2(STDERR_FILENO, STDOUT_FILENO); /* the program's output may be JSON */
	plugin_open(plugin, trust);
	if (!plugin->code) {
		config_declare(config, plugin->name, plugin->options, plugin->backend.option_count);
		plugin_probe(plugin, config);
		plugin_ask_info(plugin, config);
	}
	if (out) {
		survey_send(plugin, out);
		fflush(out);
	}
	_exit(0);
}

/* -------------------------------------------------------------------- the parent -- */

/* The answer of a child so far. */
struct survey {
	pid_t pid;
	int fd;
	int64_t deadline;
	char *bytes;
	size_t len;
	int ended; /* 1: the child has ended, and `status` is known; -1: it has ended, nobody knows how */
	int status;
};

static void survey_reap(struct survey *s)
{
	pid_t pid;

	if (s->ended)
		return;
	do
		pid = waitpid(s->pid, &s->status, WNOHANG);
	while (pid < 0 && errno == EINTR);
	if (pid)
		s->ended = pid > 0 ? 1 : -1;
}

/* Reads what is there.  Returns 1 if more may come. */
static int survey_read(struct survey *s)
{
	const ssize_t n = read(s->fd, s->bytes + s->len, SURVEY_LARGEST - s->len);

	if (n > 0)
		s->len += (size_t)n;
	return n > 0 || (n < 0 && errno == EINTR);
}

/*
 * Reads until the pipe ends, the child has ended, or time is up.  A process that the plugin has started may keep the
 * pipe open.
 */
static void survey_collect(struct survey *s)
{
	struct pollfd pipe_end = {.fd = s->fd, .events = POLLIN};
	int more = 1, ready;

	while (more && clock_remaining(s->deadline) > 0) {
		ready = poll(&pipe_end, 1, SURVEY_SLICE_MS);
		if (ready > 0)
			more = survey_read(s);
		else if (ready == 0 && s->ended)
			more = 0;
		survey_reap(s);
	}
	while (!s->ended && clock_remaining(s->deadline) > 0) {
		poll(NULL, 0, 1);
		survey_reap(s);
	}
}

/* A child that hangs in the kernel may outlive its SIGKILL, so nobody waits for it. */
static void survey_stop(struct survey *s)
{
	if (!s->ended)
		kill(s->pid, SIGKILL);
	close(s->fd);
	for (int ms = 0; !s->ended && ms < 1000; ms++) {
		poll(NULL, 0, 1);
		survey_reap(s);
	}
}

/* Takes the table over, without the functions, which are not in this process.  Returns 0, or -1 if it is not whole. */
static int survey_receive(struct plugin *plugin, const char *bytes, size_t len)
{
	struct pack in = {.at = bytes, .end = bytes + len};
	struct survey_head head = {.code = 0};
	coll_backend_t *b = &plugin->backend;

	pack_take(&in, &head, sizeof(head));
	if (!in.at || head.backend.option_count > len / sizeof(*b->options))
		return -1;
	head.reason[sizeof(head.reason) - 1] = head.info[sizeof(head.info) - 1] = '\0';
	plugin->options = calloc((size_t)head.backend.option_count + 1, sizeof(*b->options));
	if (!plugin->options)
		return -1;
	pack_take(&in, plugin->options, head.backend.option_count * sizeof(*b->options));
	*b = head.backend;
	plugin->transport = head.transport;
	plugin->native = head.native;
	b->name = pack_take_string(&in);
	b->version = pack_take_string(&in);
	b->description = pack_take_string(&in);
	b->options = plugin->options;
	b->probe = NULL;
	b->info = NULL;
	b->finish = NULL;
	memcpy(plugin->reason, head.reason, sizeof(head.reason));
	memcpy(plugin->info, head.info, sizeof(head.info));
	plugin->code = head.code;
	plugin->priority = b->priority;
	for (uint32_t i = 0; i < b->option_count; i++) {
		plugin->options[i].key = pack_take_string(&in);
		plugin->options[i].fallback = pack_take_string(&in);
		plugin->options[i].unit = pack_take_string(&in);
		plugin->options[i].help = pack_take_string(&in);
	}
	return in.at ? 0 : -1;
}

/* A program that makes a communicator opens the plugin itself, and ends in the same way. */
static void survey_explain(struct plugin *plugin, const struct survey *s, int late)
{
	char how[100] = "exited";

	memset(&plugin->backend, 0, sizeof(plugin->backend));
	if (late)
		snprintf(how, sizeof(how), "did not return in %d s", SURVEY_SECONDS);
	else if (s->ended > 0 && WIFSIGNALED(s->status))
		snprintf(how, sizeof(how), "crashed: signal %d (%s)", WTERMSIG(s->status),
			 strsignal(WTERMSIG(s->status)));
	else if (s->ended > 0)
		snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(s->status));
	plugin_refuse(
		plugin, COLL_ERR_PLUGIN,
		"its probe %s; set COLL_BACKEND=^%s, or a program ends or stops in the same way",
		how, plugin->name);
}

/* Forks, with the pipe's ends.  Returns 0, or -1 with errno. */
static int survey_start(struct survey *s, struct plugin *plugin, const struct trust *trust,
			struct config *config)
{
	int ends[2];

	s->bytes = malloc(SURVEY_LARGEST);
	if (!s->bytes || descriptor_pipe(ends))
		return -1;
	fflush(NULL); /* or a child that calls exit() writes the same again */
	s->pid = fork();
	if (s->pid == 0) {
		close(ends[0]);
		survey_child(plugin, trust, config, ends[1]);
	}
	close(ends[1]);
	s->fd = ends[0];
	if (s->pid < 0)
		close(s->fd);
	return s->pid < 0 ? -1 : 0;
}

void plugin_survey(struct plugin *plugin, const struct trust *trust, struct config *config)
{
	struct survey s = {.deadline = clock_deadline(SURVEY_SECONDS * 1000)};
	int late;

	if (survey_start(&s, plugin, trust, config)) {
		plugin_refuse(plugin, COLL_ERR_SYSTEM, "it cannot be probed in a child process: %s",
			      strerror(errno));
		free(s.bytes);
		return;
	}
	survey_collect(&s);
	late = !s.ended;
	survey_stop(&s);
	plugin->answer = realloc(s.bytes, s.len + 1);
	if (!plugin->answer)
		plugin->answer = s.bytes;
	if (survey_receive(plugin, plugin->answer, s.len))
		survey_explain(plugin, &s, late);
}
