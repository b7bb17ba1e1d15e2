/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * survey.c - opens and probes one plugin in a child process, for `coll info`: a vendor's library that crashes ends the
 * child only.
 *
 * The child answers in memory that it shares with its parent, at the same address in both: it copies the plugin, its
 * options and all their strings there, and says last that the answer is whole.
 */
#include "plugin/plugin_impl.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SURVEY_SECONDS = 5, SURVEY_SIZE = 1 << 20 };

struct survey_answer {
	int whole;
	int full; /* the answer has no room for all strings */
	struct plugin plugin;
	size_t used; /* bytes of `memory` */
	_Alignas(coll_option_t) char memory[];
};

/* --------------------------------------------------------------------- the child -- */

/* Copies bytes to the answer; NULL for NULL, and if the answer is full. */
static void *survey_keep(struct survey_answer *answer, const void *bytes, size_t size)
{
	char *copy = answer->memory + answer->used;

	if (!bytes)
		return NULL;
	if (size > SURVEY_SIZE - sizeof(*answer) - answer->used) {
		answer->full = 1;
		return NULL;
	}
	answer->used += size;
	return memcpy(copy, bytes, size);
}

static const char *survey_keep_string(struct survey_answer *answer, const char *text)
{
	return survey_keep(answer, text, text ? strlen(text) + 1 : 0);
}

static coll_option_t *survey_keep_options(struct survey_answer *answer, const coll_option_t *from,
					  uint32_t n)
{
	coll_option_t *options = survey_keep(answer, from, n * sizeof(*from));

	for (uint32_t i = 0; options && i < n; i++) {
		options[i].key = survey_keep_string(answer, options[i].key);
		options[i].fallback = survey_keep_string(answer, options[i].fallback);
		options[i].unit = survey_keep_string(answer, options[i].unit);
		options[i].help = survey_keep_string(answer, options[i].help);
	}
	return options;
}

static void survey_tell_observer(struct survey_answer *answer, coll_observer_t *o)
{
	o->options = survey_keep_options(answer, o->options, o->option_count);
	o->name = survey_keep_string(answer, o->name);
	o->version = survey_keep_string(answer, o->version);
	o->description = survey_keep_string(answer, o->description);
	o->open = NULL;
	o->event = NULL;
	o->close = NULL;
}

static void survey_tell(struct survey_answer *answer, struct plugin *plugin)
{
	coll_backend_t *b = &plugin->backend;

	survey_tell_observer(answer, &plugin->observer);
	b->options = survey_keep_options(answer, b->options, b->option_count);
	b->name = survey_keep_string(answer, b->name);
	b->version = survey_keep_string(answer, b->version);
	b->description = survey_keep_string(answer, b->description);
	b->probe = NULL;
	b->info = NULL;
	b->finish = NULL;
	plugin->options = NULL;
	plugin->answer = answer;
	answer->plugin = *plugin;
	answer->whole = !answer->full;
}

/* Faults of the configuration are the parent's to tell. */
static void survey_child(struct survey_answer *answer, struct plugin *plugin,
			 const struct trust *trust, struct config *config)
{
	dup2(STDERR_FILENO, STDOUT_FILENO); /* the program's output may be JSON */
	plugin_open(plugin, trust);
	if (!plugin->code && plugin->kind == &plugin_backends) {
		config_declare(config, plugin->name, plugin->options, plugin->backend.option_count);
		plugin_probe(plugin, config);
		plugin_ask_info(plugin, config);
	}
	survey_tell(answer, plugin);
	_exit(0);
}

/* -------------------------------------------------------------------- the parent -- */

/*
 * Waits until the child has ended, or time is up.  Returns 1 with its status, -1 if nobody knows how it ended, or 0: it
 * runs.
 */
static int survey_wait(pid_t child, int64_t milliseconds, int *status)
{
	const int64_t deadline = clock_deadline(milliseconds);
	pid_t pid;

	do {
		pid = waitpid(child, status, WNOHANG);
		if (pid > 0 || (pid < 0 && errno != EINTR))
			return pid > 0 ? 1 : -1;
		poll(NULL, 0, 1);
	} while (clock_remaining(deadline) > 0);
	return 0;
}

/* A program that makes a communicator opens the plugin itself, and ends in the same way. */
static void survey_explain(struct plugin *plugin, int ended, int status)
{
	char how[100] = "exited";

	if (!ended)
		snprintf(how, sizeof(how), "did not return in %d s", SURVEY_SECONDS);
	else if (ended > 0 && WIFSIGNALED(status))
		snprintf(how, sizeof(how), "crashed: signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (ended > 0)
		snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(status));
	if (plugin->kind == &plugin_observers)
		plugin_refuse(plugin, COLL_ERR_PLUGIN,
			      "opening it %s; do not name it in COLL_OBSERVERS, or a program ends "
			      "or stops in the same way",
			      how);
	else
		plugin_refuse(plugin, COLL_ERR_PLUGIN,
			      "its probe %s; set COLL_BACKEND=^%s, or a program ends or stops in "
			      "the same way",
			      how, plugin->name);
}

void plugin_survey(struct plugin *plugin, const struct trust *trust, struct config *config)
{
	struct survey_answer *answer =
		mmap(NULL, SURVEY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ended, status = 0;
	pid_t child = -1;

	if (answer != MAP_FAILED) {
		plugin->answer = answer;
		fflush(NULL); /* or a child that calls exit() writes the same again */
		child = fork();
	}
	if (child < 0) {
		plugin_refuse(plugin, COLL_ERR_SYSTEM, "it cannot be probed in a child process: %s",
			      strerror(errno));
		return;
	}
	if (child == 0)
		survey_child(answer, plugin, trust, config);
	ended = survey_wait(child, SURVEY_SECONDS * 1000, &status);
	if (!ended) {
		/* A child that hangs in the kernel may outlive its SIGKILL, so nobody waits longer. */
		kill(child, SIGKILL);
		survey_wait(child, 1000, &(int){0});
	}
	/* The children of later surveys must not write into it. */
	mprotect(answer, SURVEY_SIZE, PROT_READ);
	if (answer->whole)
		*plugin = answer->plugin;
	else
		survey_explain(plugin, ended, status);
}

void plugin_forget_survey(struct plugin *plugin)
{
	if (plugin->answer)
		munmap(plugin->answer, SURVEY_SIZE);
}
