/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the program `coll`: a table of subcommands. */
#include <coll/coll.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check/check.h"
#include "doctor/doctor.h"
#include "explain/explain.h"
#include "info/info.h"
#include "lib/tool.h"
#include "model/model.h"
#include "perf/perf.h"
#include "prove/prove.h"
#include "run/run.h"
#include "top/top.h"
#include "trace/trace.h"

static const struct tool_command *const main_commands[] = {
	&tool_check, &tool_doctor, &tool_dump,  &tool_explain, &tool_info, &tool_metrics,
	&tool_model, &tool_perf,   &tool_prove, &tool_run,     &tool_top,  &tool_trace};

enum { MAIN_COMMANDS = sizeof(main_commands) / sizeof(main_commands[0]) };

static const char main_intro[] = "Usage: coll COMMAND [OPTION]...\n"
				 "Inspects, starts and measures programs that use libcoll.\n"
				 "\n"
				 "Commands:\n";

static const char main_options[] = "  help [COMMAND]  show this help, or the help of a command\n"
				   "\n"
				   "Options:\n"
				   "  -h, --help      show this help and exit\n"
				   "  -V, --version   show the version and exit\n"
				   "\n"
				   "'coll COMMAND --help' shows a command's options; 'man coll' "
				   "says more.\n";

static void main_help(FILE *out)
{
	fputs(main_intro, out);
	for (size_t i = 0; i < MAIN_COMMANDS; i++)
		fprintf(out, "  %-14s  %s\n", main_commands[i]->name, main_commands[i]->summary);
	fputs(main_options, out);
}

static const struct tool_command *main_find(const char *name)
{
	for (size_t i = 0; i < MAIN_COMMANDS; i++)
		if (strcmp(main_commands[i]->name, name) == 0)
			return main_commands[i];
	return NULL;
}

static int main_unknown(const char *what, const char *name)
{
	static const char *const options[] = {"--help", "--version", NULL};
	const char *names[MAIN_COMMANDS + 2] = {"help"};

	if (name[0] == '-')
		return tool_usage("", "no %s '%s'%s", what, name, tool_did_you_mean(name, options));
	for (size_t i = 0; i < MAIN_COMMANDS; i++)
		names[i + 1] = main_commands[i]->name;
	return tool_usage("", "no %s '%s'%s", what, name, tool_did_you_mean(name, names));
}

static int main_command_help(int argc, char **argv)
{
	const struct tool_command *command;

	if (argc > 2)
		return tool_usage("", "help takes one command, got %d", argc - 1);
	if (argc < 2 || strcmp(argv[1], "help") == 0) {
		main_help(stdout);
		return 0;
	}
	command = main_find(argv[1]);
	if (command == NULL)
		return main_unknown("command", argv[1]);
	fputs(command->help, stdout);
	return 0;
}

static int main_dispatch(int argc, char **argv)
{
	const struct tool_command *command;

	if (argc < 2) {
		main_help(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("coll %s\n", coll_version_string());
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		main_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "help") == 0)
		return main_command_help(argc - 1, argv + 1);
	command = main_find(argv[1]);
	if (command == NULL)
		return main_unknown(argv[1][0] == '-' ? "option" : "command", argv[1]);
	opterr = 0;
	return command->main(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	/*
	 * Else UCX 1.22 waits 0.4 s while it is loaded, for threads that run functions which it changes.  Ranks inherit the
	 * variable.
	 */
	setenv("UCX_MEM_BISTRO_GRACE_DURATION", "0", 0);
	/* Else UCX, once it is loaded, has a thread that waits for UCX's daemon of a file system. */
	setenv("UCX_VFS_ENABLE", "n", 0);
	status = main_dispatch(argc, argv);

	/* Output that did not reach its file counts as a failure, even if the command succeeded. */
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "coll: cannot write to standard output: %s\n", strerror(errno));
		return status ? status : 1;
	}
	return status;
}
