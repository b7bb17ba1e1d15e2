/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.c - `coll explain`: its command line. */
#include <string.h>
#include "explain/explain.h"
#include "explain/schedule.h"
#include "lib/tool.h"

static const char explain_help[] =
	"Usage: coll explain [OPTION]... DUMP...\n"
	"       coll explain --schedule COLLECTIVE [OPTION]...\n"
	"Reads the files that the option dump (COLL_DUMP) has the ranks of a job write, and says\n"
	"who is behind, who called something else, who is gone, and what each rank waits for.  A\n"
	"DUMP is a file, or a directory with files coll-*.txt.  With --schedule shows who sends\n"
	"what to whom in a collective.\n"
	"\n"
	"      --json              print one JSON document about the dumps\n"
	"      --schedule NAME     show the schedule of a collective, as allreduce\n"
	"      --ranks N           number of ranks, default 4\n"
	"      --bytes BYTES       bytes of the count argument, default 1M\n"
	"      --algorithm NAME    the algorithm; default the one that the rules choose\n"
	"      --root RANK         the root, default 0\n"
	"      --node-size N       consecutive ranks of a node, default 1\n"
	"      --segment BYTES     size of pieces of long messages, default 1M; 0: no pieces\n"
	"      --svg FILE          draw it into a file\n"
	"      --goal              print it as GOAL, for the simulator LogGOPSim\n"
	"  -h, --help              show this help and exit\n"
	"\n"
	"Exit status: 0, 1 if no dump could be read or no schedule be made, 2 if the command line\n"
	"is wrong.\n";

enum { EXPLAIN_RANKS = 256, EXPLAIN_BYTES, EXPLAIN_NODE_SIZE, EXPLAIN_SEGMENT, EXPLAIN_ROOT };

static const struct option explain_options[] = {
	{"json", no_argument, NULL, 'j'},
	{"schedule", required_argument, NULL, 's'},
	{"ranks", required_argument, NULL, EXPLAIN_RANKS},
	{"bytes", required_argument, NULL, EXPLAIN_BYTES},
	{"algorithm", required_argument, NULL, 'a'},
	{"root", required_argument, NULL, EXPLAIN_ROOT},
	{"node-size", required_argument, NULL, EXPLAIN_NODE_SIZE},
	{"segment", required_argument, NULL, EXPLAIN_SEGMENT},
	{"svg", required_argument, NULL, 'v'},
	{"goal", no_argument, NULL, 'g'},
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

/* Reads a number of the request.  Returns NULL, or the form of the value if the value is wrong. */
static const char *explain_set(struct schedule_request *request, int option, const char *value)
{
	switch (option) {
	case EXPLAIN_RANKS:
		return tool_parse_int(value, 1, SCHEDULE_RANKS_MAX, &request->ranks)
			       ? "--ranks: 1 to 1024"
			       : NULL;
	case EXPLAIN_NODE_SIZE:
		return tool_parse_int(value, 1, SCHEDULE_RANKS_MAX, &request->node_size)
			       ? "--node-size: 1 to 1024"
			       : NULL;
	case EXPLAIN_ROOT:
		return tool_parse_int(value, 0, SCHEDULE_RANKS_MAX - 1, &request->root)
			       ? "--root: the number of a rank"
			       : NULL;
	case EXPLAIN_BYTES:
		return tool_parse_size(value, &request->bytes) || request->bytes > INT32_MAX
			       ? "--bytes: a size below 2G, as in 64K"
			       : NULL;
	default:
		return tool_parse_size(value, &request->segment) ||
				       (request->segment && request->segment < 4 << 10)
			       ? "--segment: 0 or a size from 4K on, as in 1M"
			       : NULL;
	}
}

/* Reads the options.  Returns -1, or the exit status if the command is over. */
static int explain_parse(int argc, char **argv, struct schedule_request *request, int *json)
{
	const char *wrong;
	int option;

	while ((option = getopt_long(argc, argv, ":h", explain_options, NULL)) != -1)
		switch (option) {
		case 'j': *json = 1; break;
		case 's': request->kind = optarg; break;
		case 'a': request->algorithm = optarg; break;
		case 'v': request->svg = optarg; break;
		case 'g': request->goal = 1; break;
		case 'h': fputs(explain_help, stdout); return 0;
		case ':':
		case '?': return tool_bad_option("explain", option, argv, explain_options);
		default:
			wrong = explain_set(request, option, optarg);
			if (wrong != NULL)
				return tool_usage("explain", "'%s' is no value for %s", optarg,
						  wrong);
		}
	return -1;
}

static int explain_main(int argc, char **argv)
{
	struct schedule_request request = {
		.ranks = 4, .node_size = 1, .bytes = 1 << 20, .segment = 1 << 20};
	int json = 0;
	const int status = explain_parse(argc, argv, &request, &json);

	if (status >= 0)
		return status;
	if (request.kind != NULL && (optind < argc || json))
		return tool_usage("explain", "--schedule goes neither with dumps nor with --json");
	if (request.kind != NULL)
		return schedule_show(&request);
	if (request.svg != NULL || request.goal)
		return tool_usage("explain", "--svg and --goal need --schedule");
	if (optind == argc)
		return tool_usage("explain",
				  "name the files of a job, or the directory that holds them");
	return explain_dumps(argv + optind, argc - optind, json);
}

const struct tool_command tool_explain = {
	.name = "explain",
	.summary = "say why a job failed, or show the schedule of a collective",
	.help = explain_help,
	.main = explain_main,
};
