/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.c - `coll doctor`: the command line, and what the ranks do together. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "doctor/doctor.h"
#include "lib/tool.h"

enum { DOCTOR_OPT_NO_LINKS = 256, DOCTOR_OPT_STRICT };

/* The seconds in which rank 0 prints its page, if the ranks did not meet. */
enum { DOCTOR_PAGE_S = 2 };

/* How often links that look slow are measured again. */
enum { DOCTOR_AGAIN = 3 };

static const char doctor_help[] =
	"Usage: coll doctor [OPTION]...\n"
	"       coll run -n N coll doctor [OPTION]...\n"
	"       mpiexec -n N coll doctor [OPTION]...\n"
	"Says before a job whether it can run on these ranks, and what would slow it: versions,\n"
	"plugins, interfaces, clocks, limits, load, and the latency and bandwidth between each\n"
	"two ranks, with the slow rank or link named.  Rank 0 prints.\n"
	"\n"
	"      --json      print one JSON document\n"
	"      --no-links  do not measure the links and the clocks\n"
	"      --strict    a warning is a failure\n"
	"  -h, --help      show this help and exit\n"
	"\n"
	"Exit status: 0 if the ranks can run a job, 1 if not (--strict: or after a warning), 2\n"
	"if the command line is wrong.\n";

static const struct option doctor_options[] = {{"json", no_argument, NULL, 'j'},
					       {"no-links", no_argument, NULL, DOCTOR_OPT_NO_LINKS},
					       {"strict", no_argument, NULL, DOCTOR_OPT_STRICT},
					       {"help", no_argument, NULL, 'h'},
					       {NULL, 0, NULL, 0}};

/* The request of the command line, and this rank. */
struct doctor {
	int json, no_links, strict;
	coll_comm_t comm;
	int32_t rank;
	struct doctor_facts own;
	struct doctor_job job; /* rank 0's is complete at the end */
	struct doctor_report report;
};

/* ------------------------------------------------------------ what all ranks do -- */

/* The beginning of what a rank says; ranks of other versions know it, too. */
struct doctor_version {
	char text[DOCTOR_WORD];
	uint64_t facts; /* bytes of struct doctor_facts */
};

static coll_result_t doctor_sync(coll_comm_t comm, coll_result_t code)
{
	return code ? code : coll_sync(comm);
}

/* Returns the first rank whose version differs from rank 0's; 0: none does; -1: the exchange failed. */
static int32_t doctor_other_version(struct doctor *d, struct doctor_version *all)
{
	struct doctor_version own = {.facts = sizeof(struct doctor_facts)};
	coll_result_t code;

	snprintf(own.text, sizeof(own.text), "%s", coll_version_string());
	code = coll_allgather(&own, all, sizeof(own), COLL_UINT8, d->comm, NULL);
	if (doctor_sync(d->comm, code) != COLL_SUCCESS)
		return -1;
	for (int32_t r = 1; r < d->job.nranks; r++)
		if (memcmp(&all[r], &all[0], sizeof(all[0])) != 0)
			return r;
	return 0;
}

/* Brings the facts and the links of all ranks to rank 0. */
static coll_result_t doctor_gather(struct doctor *d, const struct doctor_link *links)
{
	struct doctor_job *job = &d->job;
	coll_result_t code =
		coll_gather(&d->own, job->facts, sizeof(d->own), COLL_UINT8, 0, d->comm, NULL);

	code = doctor_sync(d->comm, code);
	if (code != COLL_SUCCESS || d->no_links)
		return code;
	code = coll_gather(links, job->links, (size_t)job->nranks * sizeof(*links), COLL_UINT8, 0,
			   d->comm, NULL);
	return doctor_sync(d->comm, code);
}

/* Finds the slow links on rank 0, and tells them to all ranks.  Returns how many there are, or -1. */
static int doctor_share_slow(struct doctor *d)
{
	const size_t bytes = (size_t)d->job.nranks * (size_t)d->job.nranks;
	struct doctor_class class;
	int slow = 0;

	for (int near = 0; d->rank == 0 && near < 2; near++)
		doctor_find_slow(&d->job, near, &class);
	if (doctor_sync(d->comm, coll_broadcast(d->job.slow, d->job.slow, bytes, COLL_UINT8, 0,
						d->comm, NULL)))
		return -1;
	for (size_t i = 0; i < bytes; i++)
		slow += d->job.slow[i];
	return slow;
}

/* Measures slow links again, since other work of the hosts may have slowed them for a moment. */
static coll_result_t doctor_measure_again(struct doctor *d, struct doctor_link *links)
{
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; i < DOCTOR_AGAIN && code == COLL_SUCCESS; i++) {
		const int slow = doctor_share_slow(d);

		if (slow <= 0)
			return slow ? COLL_ERR_INTERNAL : COLL_SUCCESS;
		code = doctor_measure(d->comm, d->rank, d->job.nranks, d->job.slow, links,
				      &d->own.clock_ns);
		if (code == COLL_SUCCESS)
			code = doctor_gather(d, links);
	}
	return code;
}

/* Returns 0, or -1 with the reason as a failed check. */
static int doctor_examine(struct doctor *d, struct doctor_link *links, struct doctor_version *all)
{
	const int32_t other = doctor_other_version(d, all);
	coll_result_t code = other < 0 ? COLL_ERR_INTERNAL : COLL_SUCCESS;

	if (other > 0) {
		doctor_say(&d->report, "versions", DOCTOR_FAILED,
			   "rank 0 runs libcoll %s, rank %" PRId32 " %s", all[0].text, other,
			   all[other].text);
		return -1;
	}
	if (code == COLL_SUCCESS && !d->no_links)
		code = doctor_measure(d->comm, d->rank, d->job.nranks, NULL, links,
				      &d->own.clock_ns);
	if (code == COLL_SUCCESS)
		code = doctor_gather(d, links);
	if (code == COLL_SUCCESS && !d->no_links)
		code = doctor_measure_again(d, links);
	if (code == COLL_SUCCESS)
		return 0;
	doctor_say(&d->report, "messages", DOCTOR_FAILED, "%s", coll_get_last_error(d->comm));
	return -1;
}

/* Examines the job and adds rank 0's checks. */
static void doctor_together(struct doctor *d)
{
	struct doctor_job *job = &d->job;
	const size_t n = (size_t)job->nranks;
	struct doctor_link *links = calloc(n, sizeof(*links));
	struct doctor_version *all = calloc(n, sizeof(*all));

	job->facts = calloc(n, sizeof(*job->facts));
	job->links = d->no_links ? NULL : calloc(n * n, sizeof(*job->links));
	job->slow = d->no_links ? NULL : calloc(n * n, 1);
	if (links == NULL || all == NULL || job->facts == NULL ||
	    (!d->no_links && (job->links == NULL || job->slow == NULL))) {
		doctor_say(&d->report, "memory", DOCTOR_FAILED, "no memory for %zu ranks", n);
		job->nranks = 0;
	} else if (doctor_examine(d, links, all) != 0) {
		job->nranks = 0;
	} else if (d->rank == 0) {
		doctor_check_all(job, &d->report);
	}
	free(all);
	free(links);
}

/* Makes the communicator.  Returns 0, or -1 with the reason as a failed check. */
static int doctor_meet(struct doctor *d)
{
	if (coll_comm_init_env(&d->comm, NULL) == COLL_SUCCESS &&
	    coll_comm_user_rank(d->comm, &d->rank) == COLL_SUCCESS &&
	    coll_comm_count(d->comm, &d->job.nranks) == COLL_SUCCESS &&
	    coll_comm_backend(d->comm, &d->job.backend) == COLL_SUCCESS)
		return 0;
	doctor_say(&d->report, "communicator", DOCTOR_FAILED, "%s", coll_get_last_error(NULL));
	d->job.nranks = 0;
	return -1;
}

static int doctor_status(const struct doctor *d)
{
	return d->report.verdict == DOCTOR_FAILED ||
	       (d->strict && d->report.verdict == DOCTOR_WARNING);
}

/* All ranks exit with rank 0's status. */
static int doctor_agree(struct doctor *d)
{
	int32_t status = doctor_status(d);

	if (d->job.nranks > 0 &&
	    doctor_sync(d->comm, coll_broadcast(&status, &status, 1, COLL_INT32, 0, d->comm, NULL)))
		return 1;
	return status;
}

static int doctor_run(struct doctor *d)
{
	int status;

	/* Which rank prints is known also if the ranks do not meet. */
	coll_get_launch_info(&d->rank, NULL, NULL, NULL);
	/* Plugins are probed in child processes, so before a communicator may have threads. */
	doctor_facts(&d->own);
	if (doctor_meet(d) == 0)
		doctor_together(d);
	if (d->rank == 0 && d->json)
		doctor_print_json(&d->job, &d->report);
	else if (d->rank == 0)
		doctor_print(&d->job, &d->report);
	else if (d->report.verdict == DOCTOR_FAILED)
		fprintf(stderr, "coll doctor: rank %" PRId32 ": %s\n", d->rank,
			d->report.check[0].sentence);
	fflush(stdout);
	status = doctor_agree(d);
	/* A launcher may end rank 0 as soon as another rank fails, and ranks that did not meet cannot wait for its page. */
	if (d->rank != 0 && d->job.nranks == 0)
		sleep(DOCTOR_PAGE_S);
	coll_comm_destroy(d->comm);
	free(d->job.facts);
	free(d->job.links);
	free(d->job.slow);
	return status;
}

static int doctor_main(int argc, char **argv)
{
	struct doctor d = {0};
	int c;

	while ((c = getopt_long(argc, argv, ":h", doctor_options, NULL)) != -1)
		switch (c) {
		case 'j': d.json = 1; break;
		case DOCTOR_OPT_NO_LINKS: d.no_links = 1; break;
		case DOCTOR_OPT_STRICT: d.strict = 1; break;
		case 'h': fputs(doctor_help, stdout); return 0;
		default: return tool_bad_option("doctor", c, argv, doctor_options);
		}
	if (optind < argc)
		return tool_usage("doctor", "unexpected argument '%s'", argv[optind]);
	return doctor_run(&d);
}

const struct tool_command tool_doctor = {
	.name = "doctor",
	.summary = "say whether a job can run here, and what would slow it",
	.help = doctor_help,
	.main = doctor_main,
};
