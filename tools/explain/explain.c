/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.c - `coll explain`: its command line. */
#include <string.h>
#include "explain/explain.h"
#include "lib/tool.h"

static const char explain_help[] =
	"Usage: coll explain [OPTION]... DUMP...\n"
	"Reads the files that the option dump (COLL_DUMP) has the ranks of a job write, and says\n"
	"who is behind, who called something else, who is gone, and what each rank waits for.  A\n"
	"DUMP is a file, or a directory with files coll-*.txt.\n"
	"\n"
	"      --json  print one JSON document\n"
	"  -h, --help  show this help and exit\n"
	"\n"
	"Exit status: 0, 1 if no dump could be read, 2 if the command line is wrong.\n";

static const struct option explain_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int explain_dumps(char **paths, int n, int json)
{
	struct explain e = {0};
	struct explain_job job;
	int status;

	for (int i = 0; i < n; i++)
		explain_read_path(&e, paths[i]);
	explain_group(&e, &job);
	status = job.n ? 0 : 1;
	if (json)
		explain_print_json(&e, &job, stdout);
	else if (job.n)
		explain_print(&e, &job, stdout);
	for (int i = 0; status && !json && i < e.nnotes; i++)
		fprintf(stderr, "coll explain: %s\n", e.note[i]);
	explain_job_free(&job);
	explain_free(&e);
	return status;
}

static int explain_main(int argc, char **argv)
{
	int option, json = 0;

	while ((option = getopt_long(argc, argv, ":h", explain_options, NULL)) != -1)
		switch (option) {
		case 'j': json = 1; break;
		case 'h': fputs(explain_help, stdout); return 0;
		default: return tool_bad_option("explain", option, argv, explain_options);
		}
	if (optind == argc)
		return tool_usage("explain",
				  "name the files of a job, or the directory that holds them");
	return explain_dumps(argv + optind, argc - optind, json);
}

const struct tool_command tool_explain = {
	.name = "explain",
	.summary = "say why a job failed, from the files of its ranks",
	.help = explain_help,
	.main = explain_main,
};
