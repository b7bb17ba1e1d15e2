/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - `coll run`: its command line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"
#include "lib/tool.h"

static const char run_help[] =
	"Usage: coll run -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"Starts N processes of PROGRAM on this machine, ranks 0 to N - 1, and waits for them.\n"
	"The ranks find each other by coll_comm_init_env().  The first rank that fails ends\n"
	"all other ranks.\n"
	"\n"
	"  -n, --ranks N          number of ranks, 1 to 1024\n"
	"  -b, --backend LIST     backends to use, as COLL_BACKEND\n"
	"  -e, --env NAME=VALUE   set this variable for every rank; may be repeated\n"
	"      --nccl             PROGRAM was built for NVIDIA's NCCL: it gets libcoll's\n"
	"                         libnccl.so.2 instead; then -n 1 may be left out\n"
	"      --bind-to WHAT     share (default): bind each rank to its share of the processors,\n"
	"                         if there are as many as ranks; core: to one of them, round\n"
	"                         robin; none\n"
	"      --stdin WHO        0: rank 0 reads standard input (default); none: no rank does\n"
	"      --no-prefix        do not begin lines of output with their rank\n"
	"      --grace SECONDS    time from SIGTERM, or from Ctrl-C, to SIGKILL at the end of a\n"
	"                         job (default 5)\n"
	"      --timeout SECONDS  end the job after this time, with status 124\n"
	"  -h, --help             show this help and exit\n"
	"\n"
	"Exit status: 0 if every rank returned 0, else the status of the rank that failed\n"
	"first (128 + number for a signal); 124 after --timeout, 126 or 127 if PROGRAM cannot\n"
	"be run or found, 1 if the job cannot be started, 2 if the command line is wrong.\n";

enum {
	RUN_OPT_BIND = 256,
	RUN_OPT_NCCL,
	RUN_OPT_STDIN,
	RUN_OPT_NO_PREFIX,
	RUN_OPT_GRACE,
	RUN_OPT_TIMEOUT
};

static const struct option run_known[] = {{"ranks", required_argument, NULL, 'n'},
					  {"backend", required_argument, NULL, 'b'},
					  {"env", required_argument, NULL, 'e'},
					  {"nccl", no_argument, NULL, RUN_OPT_NCCL},
					  {"bind-to", required_argument, NULL, RUN_OPT_BIND},
					  {"stdin", required_argument, NULL, RUN_OPT_STDIN},
					  {"no-prefix", no_argument, NULL, RUN_OPT_NO_PREFIX},
					  {"grace", required_argument, NULL, RUN_OPT_GRACE},
					  {"timeout", required_argument, NULL, RUN_OPT_TIMEOUT},
					  {"help", no_argument, NULL, 'h'},
					  {NULL, 0, NULL, 0}};

static int run_set_ranks(struct run_options *o, const char *text)
{
	int64_t n;

	if (tool_parse_int(text, 1, RUN_MAX_RANKS, &n) != 0)
		return tool_usage("run", "-n %s: expected a number of ranks from 1 to %d", text,
				  RUN_MAX_RANKS);
	if (o->nranks != 0)
		return tool_usage("run", "the number of ranks is given twice: -n %d and -n %s",
				  o->nranks, text);
	o->nranks = (int)n;
	return 0;
}

static int run_set_backend(struct run_options *o, const char *text)
{
	if (text[0] == '\0')
		return tool_usage("run",
				  "--backend is empty: expected names of backends, such as tcp");
	o->backend = text;
	return 0;
}

static int run_set_env(struct run_options *o, char *text)
{
	if (text[0] == '=' || strchr(text, '=') == NULL)
		return tool_usage("run", "--env %s: expected NAME=VALUE", text);
	o->env[o->env_count++] = text;
	return 0;
}

/* Parses one of two words.  *value becomes 1 for the first. */
static int run_set_word(const char *option, const char *text, const char *one, const char *zero,
			int *value)
{
	if (strcmp(text, one) != 0 && strcmp(text, zero) != 0)
		return tool_usage("run", "--%s %s: expected %s or %s", option, text, one, zero);
	*value = strcmp(text, one) == 0;
	return 0;
}

static int run_set_bind(struct run_options *o, const char *text)
{
	static const char *const words[] = {
		[RUN_BIND_SHARE] = "share", [RUN_BIND_CORE] = "core", [RUN_BIND_NONE] = "none"};

	for (int i = 0; i <= RUN_BIND_NONE; i++)
		if (strcmp(text, words[i]) == 0) {
			o->bind = (enum run_bind)i;
			return 0;
		}
	return tool_usage("run", "--bind-to %s: expected share, core or none", text);
}

static int run_set_seconds(const char *option, const char *text, int64_t *ms)
{
	if (tool_parse_seconds(text, ms) != 0)
		return tool_usage("run", "--%s %s: expected a number of seconds", option, text);
	return 0;
}

static int run_set(struct run_options *o, int c, char **argv)
{
	switch (c) {
	case 'n': return run_set_ranks(o, optarg);
	case 'e': return run_set_env(o, optarg);
	case 'b': return run_set_backend(o, optarg);
	case RUN_OPT_NO_PREFIX: o->prefix = 0; return 0;
	case RUN_OPT_NCCL: o->nccl = 1; return 0;
	case RUN_OPT_BIND: return run_set_bind(o, optarg);
	case RUN_OPT_STDIN: return run_set_word("stdin", optarg, "0", "none", &o->input);
	case RUN_OPT_GRACE: return run_set_seconds("grace", optarg, &o->grace_ms);
	case RUN_OPT_TIMEOUT: return run_set_seconds("timeout", optarg, &o->timeout_ms);
	default: return tool_bad_option("run", c, argv, run_known);
	}
}

/* Keeps our own pipes from getting the numbers of standard descriptors that the caller closed. */
static void run_fill_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int run_parsed(struct run_options *o, int argc, char **argv)
{
	/* One process of such a program may be all its ranks. */
	if (o->nranks == 0 && o->nccl)
		o->nranks = 1;
	if (o->nranks == 0)
		return tool_usage("run", "the number of ranks is missing: give -n N");
	if (optind >= argc)
		return tool_usage("run", "the program is missing: give it after the options");
	o->argv = argv + optind;
	run_fill_standard_files();
	return run_job(o);
}

static int run_main(int argc, char **argv)
{
	struct run_options o = {.prefix = 1, .input = 1, .grace_ms = 5000};
	int c, status = 0;

	o.env = calloc((size_t)argc, sizeof(*o.env));
	if (o.env == NULL)
		return 1;
	/* '+': arguments after the program's name belong to the program. */
	while (status == 0 && (c = getopt_long(argc, argv, "+:n:b:e:h", run_known, NULL)) != -1) {
		if (c == 'h') {
			fputs(run_help, stdout);
			free(o.env);
			return 0;
		}
		status = run_set(&o, c, argv);
	}
	if (status == 0)
		status = run_parsed(&o, argc, argv);
	free(o.env);
	return status;
}

const struct tool_command tool_run = {
	.name = "run",
	.summary = "start the ranks of a program on this machine",
	.help = run_help,
	.main = run_main,
};
