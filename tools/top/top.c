/* SPDX-License-Identifier: BSD-3-Clause */
/* top.c - `coll top`: what the ranks of a running job do now. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "top/show.h"
#include "top/top.h"

enum { TOP_OPT_ONCE = 256, TOP_OPT_JSON, TOP_OPT_PRINT_KEY };

/* Rates of --once are of so long. */
enum { TOP_ONCE_MS = 100, TOP_INTERVAL_MS = 1000 };

static const char top_help[] =
	"Usage: coll top [OPTION]... [JOB]\n"
	"       coll top [OPTION]... --job HOST:PORT\n"
	"Shows what the ranks of a running job on this host do: state, operation, its number,\n"
	"since when, and for whom they wait.  It reads the pages of the ranks (option page), and\n"
	"needs no help of theirs, so that ranks are seen that compute, hang, are stopped, or\n"
	"have died.  JOB is the number of the job or its beginning; without it, the only job of\n"
	"this user.  A rank marked * has called fewer collectives than others.\n"
	"\n"
	"States: waits (in libcoll), polls (the program asks again and again whether a call is\n"
	"done), outside (the program is elsewhere), stopped (by a signal or a debugger), failed\n"
	"(a communicator), observer (a thread is in an observer's function), dead (the process\n"
	"has ended).\n"
	"\n"
	"      --once          print once and exit, as without a terminal\n"
	"      --json          print once, as one JSON document, all jobs unless JOB is given\n"
	"      --interval S    seconds between two pictures, default 1\n" SOURCE_HELP
	"      --print-key     print the look key of the job, for --key-file on another host:\n"
	"                      who has it can look at the job, but not join it\n"
	"  -h, --help          show this help and exit\n"
	"\n"
	"Exit status: 0 if a job was shown, 1 if not, 2 if the command line is wrong.\n";

static const struct option top_options[] = {{"once", no_argument, NULL, TOP_OPT_ONCE},
					    {"json", no_argument, NULL, TOP_OPT_JSON},
					    {"interval", required_argument, NULL, 'i'},
					    {"print-key", no_argument, NULL, TOP_OPT_PRINT_KEY},
					    SOURCE_OPTIONS,
					    {"help", no_argument, NULL, 'h'},
					    {NULL, 0, NULL, 0}};

struct top {
	int once, json, print_key;
	int64_t interval_ms;
	const char *job;
	struct source source;
};

static int top_show_json(const struct top *top, const struct jobs *jobs)
{
	struct json json = {.out = stdout};
	const struct job *only = NULL;

	if (top->job && !(only = jobs_find("top", jobs, top->job)))
		return 1;
	json_object(&json, NULL);
	json_array(&json, "jobs");
	for (int i = 0; i < jobs->count; i++)
		if (only ? &jobs->job[i] == only : jobs->job[i].lives)
			show_json(&json, &jobs->job[i]);
	json_array_end(&json);
	json_object_end(&json);
	return 0;
}

/* Two readings, so that the second has rates. */
static int top_once(struct top *top)
{
	struct jobs first, jobs;
	const struct job *job = NULL;
	int status = 0;

	if (jobs_read("top", &top->source, &first, NULL))
		return 1;
	(void)screen_sleep(TOP_ONCE_MS);
	if (jobs_read("top", &top->source, &jobs, &first)) {
		jobs_free(&first);
		return 1;
	}
	if (top->json)
		status = top_show_json(top, &jobs);
	else if ((job = jobs_find("top", &jobs, top->job)))
		show_job(job, 0, 0);
	else
		status = 1;
	jobs_clean(&jobs);
	jobs_free(&first);
	jobs_free(&jobs);
	return status;
}

/*
 * One picture after the other until a signal comes or the job ends.  id: the job of the first picture, whatever starts later.  The
 * hosts of --job may not answer once: then the reason stands below the last picture.
 */
static int top_watch(struct top *top, const char *id)
{
	struct jobs before = {0}, jobs;
	const struct job *job;
	int lines, columns, missed = 0, status = 0;

	do {
		status = jobs_read("top", &top->source, &jobs, before.count ? &before : NULL);
		missed = status ? missed + 1 : 0;
		if (missed && top->source.at && missed < SOURCE_TRIES)
			continue;
		if (status)
			break;
		job = jobs_find("top", &jobs, id);
		jobs_free(&before);
		before = jobs;
		if (!job || (!top->job && !job->lives)) {
			status = 1;
			break;
		}
		screen_clear(&lines, &columns);
		show_job(job, lines, columns);
		fflush(stdout);
	} while (!screen_sleep(top->interval_ms));
	jobs_free(&before);
	return status;
}

static int top_parse(int argc, char **argv, struct top *top)
{
	int answer;

	while ((answer = getopt_long(argc, argv, ":h", top_options, NULL)) != -1) {
		if (source_take_option(&top->source, answer, optarg))
			continue;
		switch (answer) {
		case TOP_OPT_ONCE: top->once = 1; break;
		case TOP_OPT_JSON: top->json = top->once = 1; break;
		case TOP_OPT_PRINT_KEY: top->print_key = 1; break;
		case 'i':
			if (tool_parse_seconds(optarg, &top->interval_ms) || top->interval_ms < 10)
				return tool_usage("top",
						  "--interval wants seconds from 0.01 on, got '%s'",
						  optarg);
			break;
		case 'h': fputs(top_help, stdout); exit(0);
		default: return tool_bad_option("top", answer, argv, top_options);
		}
	}
	if (source_check_operands("top", &top->source, argc - optind))
		return TOOL_USAGE;
	if (top->print_key && top->source.at)
		return tool_usage("top",
				  "--print-key finds the key on this host only, without --job");
	top->job = argv[optind];
	return source_open("top", &top->source);
}

/* Prints the key in the page of a rank of the job. */
static int top_print_key(struct top *top)
{
	const struct job *job;
	const uint8_t *key = NULL;
	struct jobs jobs;

	if (jobs_read("top", &top->source, &jobs, NULL))
		return 1;
	job = jobs_find("top", &jobs, top->job);
	for (int r = 0; job && !key && r < job->ranks; r++)
		if (page_has_look_key(job->rank[r].view))
			key = job->rank[r].view->head.look_key;
	if (job && !key)
		fprintf(stderr,
			"coll top: the job has no look key: its ranks run without the option "
			"watch = yes, or without a secret key (COLL_KEY)\n");
	for (int i = 0; key && i < HANDSHAKE_KEY_SIZE; i++)
		printf("%02x%s", key[i], i < HANDSHAKE_KEY_SIZE - 1 ? "" : "\n");
	jobs_free(&jobs);
	return key ? 0 : 1;
}

/* One picture after the other on the terminal. */
static int top_run(struct top *top)
{
	const struct job *job;
	struct jobs jobs;
	char id[32] = "";
	/* What is wrong is said before the terminal changes. */
	int status = jobs_read("top", &top->source, &jobs, NULL);

	if (!status) {
		job = jobs_find("top", &jobs, top->job);
		status = job == NULL;
		if (job)
			snprintf(id, sizeof(id), "%016" PRIx64, job->id);
		jobs_free(&jobs);
	}
	if (status)
		return status;
	screen_begin();
	status = top_watch(top, id);
	screen_end();
	if (status && top->source.at)
		fprintf(stderr, "coll top: the job has ended, or %s does not show it any more\n",
			top->source.at);
	else if (status)
		fprintf(stderr, "coll top: the job has ended\n");
	return status;
}

static int top_main(int argc, char **argv)
{
	struct top top = {.interval_ms = TOP_INTERVAL_MS};
	int status = top_parse(argc, argv, &top);

	if (status)
		return status;
	if (top.print_key)
		status = top_print_key(&top);
	else if (top.once || !isatty(STDOUT_FILENO))
		status = top_once(&top);
	else
		status = top_run(&top);
	source_close(&top.source);
	return status;
}

const struct tool_command tool_top = {
	.name = "top",
	.summary = "show what the ranks of a running job do",
	.help = top_help,
	.main = top_main,
};
