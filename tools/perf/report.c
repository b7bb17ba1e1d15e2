/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - prints rows in the format of nccl-tests, as JSON or as CSV. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "lib/kinds.h"
#include "perf/perf.h"

static const char *const report_heading[] = {
	"#                                                                "
	"out-of-place                       in-place",
	"#       size         count        type   redop    root     "
	"time   algbw   busbw #wrong     time   algbw   busbw #wrong",
	"#        (B)    (elements)                                 "
	"(us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
};
/* Three lines above the columns of each place. */
static const char *const report_percentiles_heading[] = {
	"                     out-of-place                        in-place",
	"     p50     p90     p99     max     p50     p90     p99     max",
	"    (us)    (us)    (us)    (us)    (us)    (us)    (us)    (us)"};
static const char *const report_issue_heading[] = {"           issue", "     out      in",
						   "           (ns)    (ns)"};

static double report_algbw(const struct perf_case *c, const struct perf_times *t)
{
	/* Bytes per microsecond are megabytes per second. */
	return t->mean > 0 ? (double)c->size * c->group / t->mean / 1000 : 0;
}

static const char *report_op(const struct perf_case *c)
{
	return c->kind->reduces ? coll_op_name(c->op) : "none";
}

static const char *report_dtype(const struct perf_case *c)
{
	return c->kind->no_data ? "none" : coll_dtype_name(c->dtype);
}

/* The table shows other sizes than the user asked for if elements do not divide them. */
static void report_rounding(const struct perf_options *o)
{
	if (o->kind != NULL && o->kind->no_data)
		return;
	for (int t = 0; t < o->dtypes; t++)
		for (size_t s = 0; s < o->sizes; s++)
			if (o->size[s] % coll_dtype_size(o->dtype[t]) != 0) {
				fprintf(stderr,
					"coll perf: %" PRIu64 " bytes are no whole number of %s: "
					"sizes are rounded to whole elements, at least one\n",
					o->size[s], coll_dtype_name(o->dtype[t]));
				return;
			}
}

void perf_report_begin(struct perf_report *report, const struct perf_options *o,
		       const struct perf_case *c, int memory)
{
	const char *backend = "?";

	*report = (struct perf_report){.format = o->format,
				       .quiet = c->rank != 0,
				       .issue = o->issue,
				       .percentiles = o->percentiles,
				       .svg = o->svg,
				       .json = {.out = stdout}};
	if (report->quiet)
		return;
	report_rounding(o);
	coll_comm_backend(c->comm, &backend);
	progress_begin(&report->progress, 0);
	snprintf(report->title, sizeof(report->title), "libcoll %s, %s, %d ranks, %s memory",
		 coll_version_string(), backend, c->nranks, perf_memory_name(memory));
	if (report->format == PERF_JSON) {
		json_object(&report->json, NULL);
		json_string(&report->json, "version", coll_version_string());
		json_string(&report->json, "backend", backend);
		json_int(&report->json, "nranks", c->nranks);
		json_string(&report->json, "memory", perf_memory_name(memory));
		json_int(&report->json, "warmup", o->warmup);
		json_int(&report->json, "iters", o->iters);
		json_array(&report->json, "results");
	} else if (report->format == PERF_CSV) {
		printf("collective,size,count,type,redop,root,place,time_us,min_us,median_us,"
		       "algbw_gbps,busbw_gbps,wrong%s%s\n",
		       o->percentiles ? ",p90_us,p99_us,max_us" : "", o->issue ? ",issue_ns" : "");
	} else {
		printf("# libcoll %s, backend %s, %d rank%s, %s memory, %d warm-up and %d timed "
		       "iterations\n",
		       coll_version_string(), backend, c->nranks, c->nranks == 1 ? "" : "s",
		       perf_memory_name(memory), o->warmup, o->iters);
	}
}

void perf_report_progress(struct perf_report *report, const struct perf_case *c)
{
	progress_show(&report->progress, "%s, %zu bytes", c->kind->name, c->size);
}

static void report_table_half(const struct perf_case *c, const struct perf_row *row, int place)
{
	const struct perf_times *t = &row->times[place];
	double bw = report_algbw(c, t);
	int digits = t->mean >= 10000 ? 0 : t->mean >= 100 ? 1 : 2;

	if (place == 1 && !row->in_place) {
		printf("  %7s  %6s  %6s %6s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	printf("  %7.*f  %6.2f  %6.2f ", digits, t->mean, bw,
	       bw * kinds_bus_factor(c->kind->number, c->nranks));
	if (row->wrong[place] < 0)
		printf("%6s", "N/A");
	else
		printf("%6" PRId64, row->wrong[place]);
}

static void report_table_percentiles(const struct perf_row *row, int place)
{
	const struct perf_times *t = &row->times[place];

	if (place == 1 && !row->in_place)
		printf("     N/A     N/A     N/A     N/A");
	else
		printf(" %7.2f %7.2f %7.2f %7.2f", t->median, t->p90, t->p99, t->max);
}

static void report_table_issue(const struct perf_row *row)
{
	printf(" %7.0f", row->times[0].issue);
	if (row->in_place)
		printf(" %7.0f", row->times[1].issue);
	else
		printf(" %7s", "N/A");
}

static void report_table_heading(const struct perf_report *report, const struct perf_case *c)
{
	printf("#\n# %s\n", c->kind->name);
	for (int i = 0; i < 3; i++)
		printf("%s%s%s\n", report_heading[i],
		       report->percentiles ? report_percentiles_heading[i] : "",
		       report->issue ? report_issue_heading[i] : "");
}

static void report_table(struct perf_report *report, const struct perf_case *c,
			 const struct perf_row *row)
{
	if (report->kind != c->kind)
		report_table_heading(report, c);
	report->kind = c->kind;
	printf("%12zu  %12zu  %10s  %6s  %6d", c->size, c->count, report_dtype(c), report_op(c),
	       c->kind->rooted ? c->root : -1);
	report_table_half(c, row, 0);
	report_table_half(c, row, 1);
	for (int place = 0; report->percentiles && place < 2; place++)
		report_table_percentiles(row, place);
	if (report->issue)
		report_table_issue(row);
	putchar('\n');
}

static void report_csv(const struct perf_report *report, const struct perf_case *c,
		       const struct perf_row *row, int place)
{
	const struct perf_times *t = &row->times[place];
	double bw = report_algbw(c, t);

	printf("%s,%zu,%zu,%s,%s,%d,%s,%.3f,%.3f,%.3f,%.6g,%.6g,", c->kind->name, c->size, c->count,
	       report_dtype(c), report_op(c), c->kind->rooted ? c->root : -1, place ? "in" : "out",
	       t->mean, t->min, t->median, bw, bw * kinds_bus_factor(c->kind->number, c->nranks));
	if (row->wrong[place] >= 0)
		printf("%" PRId64, row->wrong[place]);
	if (report->percentiles)
		printf(",%.3f,%.3f,%.3f", t->p90, t->p99, t->max);
	if (report->issue)
		printf(",%.0f", t->issue);
	putchar('\n');
}

static void report_json_half(struct perf_report *report, const char *key, const struct perf_case *c,
			     const struct perf_row *row, int place)
{
	struct json *json = &report->json;
	const struct perf_times *t = &row->times[place];
	double bw = report_algbw(c, t);

	json_object(json, key);
	json_number(json, "time_us", t->mean);
	json_number(json, "min_us", t->min);
	json_number(json, "median_us", t->median);
	json_number(json, "p90_us", t->p90);
	json_number(json, "p99_us", t->p99);
	json_number(json, "max_us", t->max);
	if (report->issue)
		json_number(json, "issue_ns", t->issue);
	json_number(json, "algbw_gbps", bw);
	json_number(json, "busbw_gbps", bw * kinds_bus_factor(c->kind->number, c->nranks));
	if (row->wrong[place] < 0)
		json_null(json, "wrong");
	else
		json_int(json, "wrong", row->wrong[place]);
	json_object_end(json);
}

static void report_json(struct perf_report *report, const struct perf_case *c,
			const struct perf_row *row)
{
	struct json *json = &report->json;

	json_object(json, NULL);
	json_string(json, "collective", c->kind->name);
	json_int(json, "size", (int64_t)c->size);
	json_int(json, "count", (int64_t)c->count);
	json_string(json, "type", report_dtype(c));
	json_string(json, "redop", report_op(c));
	json_int(json, "root", c->kind->rooted ? c->root : -1);
	report_json_half(report, "out_of_place", c, row, 0);
	if (row->in_place)
		report_json_half(report, "in_place", c, row, 1);
	else
		json_null(json, "in_place");
	json_object_end(json);
}

/* Adds the calls out of place to the chart. */
static void report_chart(struct perf_report *report, const struct perf_case *c,
			 const struct perf_row *row)
{
	const struct perf_point point = {.kind = c->kind,
					 .dtype = c->dtype,
					 .op = c->op,
					 .size = (double)c->size,
					 .time = row->times[0].mean,
					 .busbw = report_algbw(c, &row->times[0]) *
						  kinds_bus_factor(c->kind->number, c->nranks)};

	if (report->svg != NULL && c->size > 0)
		perf_chart_add(&report->chart, &point);
}

void perf_report_row(struct perf_report *report, const struct perf_case *c,
		     const struct perf_row *row)
{
	for (int place = 0; place <= row->in_place; place++) {
		report->bus_sum += report_algbw(c, &row->times[place]) *
				   kinds_bus_factor(c->kind->number, c->nranks);
		report->bus_count++;
		if (row->wrong[place] > 0)
			report->wrong += row->wrong[place];
	}
	if (report->quiet)
		return;
	progress_clear(&report->progress);
	report_chart(report, c, row);
	if (report->format == PERF_JSON)
		report_json(report, c, row);
	else if (report->format == PERF_TABLE)
		report_table(report, c, row);
	else
		for (int place = 0; place <= row->in_place; place++)
			report_csv(report, c, row, place);
	fflush(stdout);
}

void perf_report_skipped(struct perf_report *report, const char *message)
{
	/* A message about the whole collective is printed once, not again for each type. */
	if (report->quiet || strncmp(report->skipped, message, sizeof(report->skipped) - 1) == 0)
		return;
	snprintf(report->skipped, sizeof(report->skipped), "%s", message);
	progress_clear(&report->progress);
	/* JSON and CSV have no place for a message between rows. */
	if (report->format == PERF_TABLE)
		printf("#\n# skipped: %s\n", message);
	else
		fprintf(stderr, "coll perf: skipped: %s\n", message);
}

int perf_report_end(struct perf_report *report, const char *error)
{
	double bus = report->bus_count ? report->bus_sum / report->bus_count : 0;

	if (report->quiet)
		return 0;
	progress_clear(&report->progress);
	if (report->format == PERF_JSON) {
		json_array_end(&report->json);
		json_int(&report->json, "wrong", report->wrong);
		json_number(&report->json, "average_busbw_gbps", bus);
		json_string(&report->json, "error", error);
		json_object_end(&report->json);
	} else if (report->format == PERF_TABLE && error == NULL) {
		printf("# Out of bounds values : %" PRId64 " %s\n", report->wrong,
		       report->wrong ? "FAILED" : "OK");
		printf("# Avg bus bandwidth    : %g\n", bus);
	}
	fflush(stdout);
	return report->svg ? perf_chart_write(&report->chart, report->svg, report->title) : 0;
}
