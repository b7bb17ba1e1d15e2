/* SPDX-License-Identifier: BSD-3-Clause */
/* page.c - the report as a page, and as a JSON document. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "doctor/doctor.h"
#include "lib/json.h"

/* With more ranks a table of all links is no page; the sentences and --json name the slow ones. */
enum { PAGE_TABLE_RANKS = 16, PAGE_COLUMN = 10 };

static const char *const page_status[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_FAILED] = "failed"};
static const char *const page_verdict[] = {[DOCTOR_OK] = "ready",
					   [DOCTOR_WARNING] = "ready, with warnings",
					   [DOCTOR_FAILED] = "not ready"};

/* Writes "64 MiB" or "unlimited". */
static const char *page_mib(int64_t bytes, char text[32])
{
	if (bytes == DOCTOR_UNLIMITED)
		return "unlimited";
	if (bytes < 0)
		return "none";
	snprintf(text, 32, "%" PRId64 " MiB", bytes >> 20);
	return text;
}

static void page_ranks(const struct doctor_job *job)
{
	char memlock[32], nofile[32], shm[32];

	printf("\nRanks\n  %5s  %-16s %5s %6s %10s %10s %12s %12s\n", "rank", "host", "cpus",
	       "load", "files", "memlock", "/dev/shm", "clock (ms)");
	for (int32_t r = 0; r < job->nranks; r++) {
		const struct doctor_facts *f = &job->facts[r];

		snprintf(nofile, sizeof(nofile), "%" PRId64, f->nofile);
		printf("  %5" PRId32 "  %-16.16s %5" PRId32 " %6.2f %10s %10s %12s", r, f->host,
		       f->processors, f->load_percent / 100.0,
		       f->nofile == DOCTOR_UNLIMITED ? "unlimited" : nofile,
		       page_mib(f->memlock, memlock), page_mib(f->shm_free, shm));
		if (job->links != NULL)
			printf(" %12.3f\n", (double)f->clock_ns / 1e6);
		else
			printf(" %12s\n", "");
	}
}

/* Prints the interfaces of each host once. */
static void page_interfaces(const struct doctor_job *job)
{
	printf("\nInterfaces\n");
	for (int32_t r = 0; r < job->nranks; r++) {
		int32_t first = 0;

		while (!doctor_near(job, first, r))
			first++;
		if (first == r)
			printf("  rank %" PRId32 ", %s: %s\n", r, job->facts[r].host,
			       job->facts[r].interfaces[0] ? job->facts[r].interfaces : "none up");
	}
}

static void page_table(const struct doctor_job *job, int of_latency)
{
	const int32_t n = job->nranks;

	printf("\n%s\n  from\\to",
	       of_latency ? "Latency (us; * slow)" : "Bandwidth (MB/s; * slow)");
	for (int32_t b = 0; b < n; b++)
		printf(" %*" PRId32 " ", PAGE_COLUMN, b);
	for (int32_t a = 0; a < n; a++) {
		printf("\n  %7" PRId32, a);
		for (int32_t b = 0; b < n; b++) {
			const struct doctor_link *link = &job->links[a * n + b];

			if (a == b)
				printf(" %*s ", PAGE_COLUMN, "-");
			else
				printf(" %*.1f%c", PAGE_COLUMN,
				       of_latency ? link->latency_us : link->mbytes_s,
				       job->slow[a * n + b] ? '*' : ' ');
		}
	}
	putchar('\n');
}

void doctor_print(const struct doctor_job *job, const struct doctor_report *report)
{
	printf("libcoll %s, %" PRId32 " rank%s\n", coll_version_string(), job->nranks,
	       job->nranks == 1 ? "" : "s");
	if (job->nranks > 0) {
		page_ranks(job);
		page_interfaces(job);
	}
	if (job->links != NULL && job->nranks > 1 && job->nranks <= PAGE_TABLE_RANKS) {
		page_table(job, 1);
		page_table(job, 0);
	}
	printf("\nChecks\n");
	for (int i = 0; i < report->checks; i++)
		printf("  %-8s %s: %s\n", page_status[report->check[i].status],
		       report->check[i].name, report->check[i].sentence);
	printf("\nVerdict\n  %s\n", page_verdict[report->verdict]);
}

/* ---------------------------------------------------------------------------- JSON -- */

static void page_json_limit(struct json *json, const char *key, int64_t value)
{
	if (value == DOCTOR_UNLIMITED)
		json_string(json, key, "unlimited");
	else
		json_int(json, key, value);
}

static void page_json_rank(struct json *json, const struct doctor_job *job, int32_t r)
{
	const struct doctor_facts *f = &job->facts[r];

	json_object(json, NULL);
	json_int(json, "rank", r);
	json_string(json, "host", f->host);
	json_string(json, "kernel", f->kernel);
	json_string(json, "plugins", f->plugins);
	json_string(json, "interfaces", f->interfaces);
	json_int(json, "processors", f->processors);
	json_number(json, "load", f->load_percent / 100.0);
	page_json_limit(json, "nofile", f->nofile);
	page_json_limit(json, "memlock", f->memlock);
	json_int(json, "shm_free", f->shm_free);
	if (job->links != NULL)
		json_number(json, "clock_ms", (double)f->clock_ns / 1e6);
	else
		json_null(json, "clock_ms");
	json_object_end(json);
}

static void page_json_links(struct json *json, const struct doctor_job *job)
{
	const int32_t n = job->links ? job->nranks : 0;

	json_array(json, "links");
	for (int32_t i = 0; i < n * n; i++) {
		if (i / n == i % n)
			continue;
		json_object(json, NULL);
		json_int(json, "from", i / n);
		json_int(json, "to", i % n);
		json_bool(json, "same_host", doctor_near(job, i / n, i % n));
		json_number(json, "latency_us", job->links[i].latency_us);
		json_number(json, "mbytes_s", job->links[i].mbytes_s);
		json_bool(json, "slow", job->slow[i]);
		json_object_end(json);
	}
	json_array_end(json);
	json_array(json, "slow_ranks");
	for (int32_t r = 0; r < (job->links ? job->nranks : 0); r++)
		if (doctor_rank_is_slow(job, 0, r) || doctor_rank_is_slow(job, 1, r))
			json_int(json, NULL, r);
	json_array_end(json);
}

void doctor_print_json(const struct doctor_job *job, const struct doctor_report *report)
{
	struct json json = {.out = stdout};

	json_object(&json, NULL);
	json_string(&json, "version", coll_version_string());
	json_string(&json, "backend", job->backend);
	json_int(&json, "nranks", job->nranks);
	json_array(&json, "ranks");
	for (int32_t r = 0; r < job->nranks; r++)
		page_json_rank(&json, job, r);
	json_array_end(&json);
	page_json_links(&json, job);
	json_array(&json, "checks");
	for (int i = 0; i < report->checks; i++) {
		json_object(&json, NULL);
		json_string(&json, "name", report->check[i].name);
		json_string(&json, "status", page_status[report->check[i].status]);
		json_string(&json, "sentence", report->check[i].sentence);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_string(&json, "verdict", page_verdict[report->verdict]);
	json_object_end(&json);
}
