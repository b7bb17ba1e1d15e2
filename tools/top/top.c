/* SPDX-License-Identifier: BSD-3-Clause */
/* top.c - `coll top`: what the ranks of a running job do now. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "top/show.h"
#include "top/top.h"

enum { TOP_OPT_ONCE = 256, TOP_OPT_JSON };

/* Rates of --once are of so long. */
enum { TOP_ONCE_MS = 100, TOP_INTERVAL_MS = 1000 };

static const char top_help[] =
	"Usage: coll top [OPTION]... [JOB]\n"
	"Shows what the ranks of a running job on this host do: state, operation, its number,\n"
	"since when, and for whom they wait.  It reads the pages of the ranks (option page), and\n"
	"needs no help of theirs, so that ranks are seen that compute, hang, are stopped, or\n"
	"have died.  JOB is the number of the job or its beginning; without it, the only job of\n"
	"this user.  A rank marked * has called fewer collectives than others.\n"
	"\n"
	"States: waits (in libcoll), outside (the program is elsewhere), stopped (by a signal or\n"
	"a debugger), failed (a communicator), observer (a thread is in an observer's function),\n"
	"dead (the process has ended).\n"
	"\n"
	"      --once          print once and exit, as without a terminal\n"
	"      --json          print once, as one JSON document, all jobs unless JOB is given\n"
	"      --interval S    seconds between two pictures, default 1\n"
	"  -h, --help          show this help and exit\n"
	"\n"
	"Exit status: 0 if a job was shown, 1 if not, 2 if the command line is wrong.\n";

static const struct option top_options[] = {{"once", no_argument, NULL, TOP_OPT_ONCE},
					    {"json", no_argument, NULL, TOP_OPT_JSON},
					    {"interval", required_argument, NULL, 'i'},
					    {"help", no_argument, NULL, 'h'},
					    {NULL, 0, NULL, 0}};

struct top {
	int once, json;
	int64_t interval_ms;
	const char *job;
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
static int top_once(const struct top *top)
{
	struct jobs first, jobs;
	const struct job *job = NULL;
	int status = 0;

	if (jobs_read("top", &first, NULL))
		return 1;
	(void)screen_sleep(TOP_ONCE_MS);
	if (jobs_read("top", &jobs, &first)) {
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

/* One picture after the other until a signal comes or the job ends.  id: the job of the first picture, whatever starts later. */
static int top_watch(const struct top *top, const char *id)
{
	struct jobs before = {0}, jobs;
	const struct job *job;
	int lines, columns, status = 0;

	do {
		status = jobs_read("top", &jobs, before.count ? &before : NULL);
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

	while ((answer = getopt_long(argc, argv, ":h", top_options, NULL)) != -1)
		switch (answer) {
		case TOP_OPT_ONCE: top->once = 1; break;
		case TOP_OPT_JSON: top->json = top->once = 1; break;
		case 'i':
			if (tool_parse_seconds(optarg, &top->interval_ms) || top->interval_ms < 10)
				return tool_usage("top",
						  "--interval wants seconds from 0.01 on, got '%s'",
						  optarg);
			break;
		case 'h': fputs(top_help, stdout); exit(0);
		default: return tool_bad_option("top", answer, argv, top_options);
		}
	if (argc - optind > 1)
		return tool_usage("top", "it takes one job, got %d", argc - optind);
	top->job = argv[optind];
	return 0;
}

static int top_main(int argc, char **argv)
{
	struct top top = {.interval_ms = TOP_INTERVAL_MS};
	const struct job *job;
	struct jobs jobs;
	char id[32] = "";
	int status = top_parse(argc, argv, &top);

	if (status)
		return status;
	if (top.once || !isatty(STDOUT_FILENO))
		return top_once(&top);
	/* What is wrong is said before the terminal changes. */
	status = jobs_read("top", &jobs, NULL);
	if (!status) {
		job = jobs_find("top", &jobs, top.job);
		status = job == NULL;
		if (job)
			snprintf(id, sizeof(id), "%016" PRIx64, job->id);
		jobs_free(&jobs);
	}
	if (status)
		return status;
	screen_begin();
	status = top_watch(&top, id);
	screen_end();
	if (status)
		fprintf(stderr, "coll top: the job has ended\n");
	return status;
}

const struct tool_command tool_top = {
	.name = "top",
	.summary = "show what the ranks of a running job do",
	.help = top_help,
	.main = top_main,
};
