/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c - `coll trace`: the command line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "lib/tool.h"
#include "trace/trace.h"

enum { TRACE_SLOWEST = 10, TRACE_SLOWEST_MOST = 1000 };

static const char trace_help[] =
	"Usage: coll trace merge FILE... -o OUT\n"
	"       coll trace report [--json] [--slowest N] FILE...\n"
	"       coll trace export --goal FILE... -o OUT\n"
	"       coll trace export --chakra FILE... -o PREFIX\n"
	"Reads the timelines of a job, a file of each rank (option timeline).  merge aligns the\n"
	"clocks of the hosts and writes one file for Perfetto or chrome://tracing.  report says\n"
	"where the time went.  export writes the job for simulators: GOAL text of LogGOPSim, or\n"
	"Chakra execution traces as JSON, a file a rank (PREFIX.RANK.json).  report and export\n"
	"take a merged file, too.\n"
	"\n"
	"  -o, --output OUT  the file to write; merge, --goal: - for standard output\n"
	"      --json        report: print one JSON document\n"
	"      --slowest N   report: name the N slowest collectives, 0 to 1000 (default 10)\n"
	"      --goal        export GOAL\n"
	"      --chakra      export Chakra\n"
	"  -h, --help        show this help and exit\n"
	"\n"
	"Exit status: 0, 1 if a file cannot be read or written, 2 if the command line is wrong.\n";

enum { TRACE_OPT_JSON = 256, TRACE_OPT_SLOWEST, TRACE_OPT_GOAL, TRACE_OPT_CHAKRA };

static const struct option trace_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"json", no_argument, NULL, TRACE_OPT_JSON},
	{"slowest", required_argument, NULL, TRACE_OPT_SLOWEST},
	{"goal", no_argument, NULL, TRACE_OPT_GOAL},
	{"chakra", no_argument, NULL, TRACE_OPT_CHAKRA},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

/* The request of the command line. */
struct trace_request {
	const char *verb, *output;
	int json, goal, chakra, help;
	int64_t slowest; /* -1: not given */
};

int trace_error(const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "coll trace: ");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	return -1;
}

static int trace_parse(struct trace_request *request, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, ":o:h", trace_options, NULL)) != -1)
		switch (option) {
		case 'o': request->output = optarg; break;
		case TRACE_OPT_JSON: request->json = 1; break;
		case TRACE_OPT_GOAL: request->goal = 1; break;
		case TRACE_OPT_CHAKRA: request->chakra = 1; break;
		case TRACE_OPT_SLOWEST:
			if (tool_parse_int(optarg, 0, TRACE_SLOWEST_MOST, &request->slowest) != 0)
				return tool_usage("trace",
						  "--slowest %s: expected a number from 0 to %d",
						  optarg, TRACE_SLOWEST_MOST);
			break;
		case 'h': request->help = 1; return 0;
		default: return tool_bad_option("trace", option, argv, trace_options);
		}
	return 0;
}

/* Does the verb go with the options? */
static int trace_check(const struct trace_request *request)
{
	static const char *const verbs[] = {"merge", "report", "export", NULL};
	const char *verb = request->verb;
	int known = 0;

	for (int i = 0; verbs[i] != NULL; i++)
		known |= strcmp(verb, verbs[i]) == 0;
	if (!known)
		return tool_usage("trace", "no command '%s'%s", verb, tool_expected(verb, verbs));
	if (strcmp(verb, "report") != 0 && request->output == NULL)
		return tool_usage("trace", "%s needs -o with the file to write", verb);
	if (strcmp(verb, "report") == 0 && request->output != NULL)
		return tool_usage("trace", "report prints, and takes no -o");
	if (strcmp(verb, "report") != 0 && (request->json || request->slowest >= 0))
		return tool_usage("trace", "--json and --slowest are of report");
	if ((strcmp(verb, "export") == 0) != (request->goal + request->chakra == 1) ||
	    request->goal + request->chakra > 1)
		return tool_usage("trace", "export takes one of --goal and --chakra");
	if (request->chakra && strcmp(request->output, "-") == 0)
		return tool_usage("trace",
				  "--chakra writes a file a rank: expected a prefix, not -");
	return 0;
}

/* Writes what a function makes of the files. */
static int trace_write(struct trace_source *source, const char *path,
		       int (*make)(struct trace_source *source, FILE *out))
{
	FILE *out = trace_out_open(source, path);

	return out ? trace_out_close(out, path, make(source, out)) : -1;
}

static int trace_do(struct trace_source *source, const struct trace_request *request)
{
	if (strcmp(request->verb, "merge") == 0)
		return trace_write(source, request->output, trace_merge);
	if (strcmp(request->verb, "report") == 0)
		return trace_report(source, request->json,
				    request->slowest >= 0 ? (int)request->slowest : TRACE_SLOWEST);
	return request->goal ? trace_write(source, request->output, trace_export_goal)
			     : trace_export_chakra(source, request->output);
}

/* A file that a killed process has left, or that lacks events, is worth a word. */
static void trace_note(const struct trace_source *source)
{
	for (int i = 0; i < source->files; i++)
		if (source->file[i].truncated)
			fprintf(stderr, "coll trace: '%s' ends amid an event\n",
				source->file[i].path);
	for (int c = 0; c < source->clocks; c++)
		if (source->clock[c].drifts)
			fprintf(stderr,
				"coll trace: the clock of host %s drifts: its messages fit no "
				"shift, the best one is wrong by at least %.1f us\n",
				source->clock[c].host, (double)source->clock[c].bound_ns / 1e3);
	for (int i = 0; i < source->ranks; i++) {
		const struct trace_rank *rank = &source->rank[i];

		if (!rank->ended)
			fprintf(stderr,
				"coll trace: the timeline of rank %d has no end: its process was "
				"killed, or still runs\n",
				rank->pid);
		if (rank->lost + rank->left_out > 0)
			fprintf(stderr,
				"coll trace: the timeline of rank %d lacks %llu events that came "
				"too fast, and %llu beyond the bound of its file\n",
				rank->pid, (unsigned long long)rank->lost,
				(unsigned long long)rank->left_out);
	}
}

static int trace_main(int argc, char **argv)
{
	struct trace_request request = {.slowest = -1};
	struct trace_source source = {0};
	int code = trace_parse(&request, argc, argv);

	if (code != 0)
		return code;
	if (request.help) {
		fputs(trace_help, stdout);
		return 0;
	}
	if (optind == argc)
		return tool_usage("trace", "expected a command: merge, report or export");
	request.verb = argv[optind++];
	code = trace_check(&request);
	if (code != 0)
		return code;
	if (optind == argc)
		return tool_usage("trace", "%s needs the files of the ranks", request.verb);
	code = trace_source_open(&source, argv + optind, argc - optind);
	if (code == 0)
		code = trace_do(&source, &request);
	if (code == 0)
		trace_note(&source);
	trace_source_close(&source);
	return code != 0;
}

const struct tool_command tool_trace = {
	.name = "trace",
	.summary = "merge, report on and export the timelines of a job",
	.help = trace_help,
	.main = trace_main,
};
