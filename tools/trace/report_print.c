/* SPDX-License-Identifier: BSD-3-Clause */
/* report_print.c - prints a report as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coll/coll.h>
#include "lib/json.h"
#include "lib/kinds.h"
#include "trace/report.h"

enum { PRINT_MISSING = 8, PRINT_TEXT = 160, PRINT_FAILURES = 8 };

static double print_share(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}

static double print_seconds(const struct report *report)
{
	return (double)(report->source->last_ns - report->source->first_ns) / 1e9;
}

/* From the last begin to the last end is the time of the data only if all ranks wait for all: a root may have ended before. */
static int print_has_busbw(const struct report_row *row)
{
	return !kinds_is_collective(row->kind) || kinds_is_mutual(row->kind);
}

/* Bytes per nanosecond are gigabytes per second. */
static double print_busbw(const struct report_row *row)
{
	return print_share(row->bus, row->busy_ns);
}

static const char *print_name(const struct report_row *row)
{
	if (row->what == TRACE_MESSAGE)
		return row->kind == COLL_KIND_SEND ? "isend" : "irecv";
	return kinds_name(row->kind);
}

static const char *print_size(int size_class, char text[24])
{
	static const char units[] = " KMGTPE";

	if (size_class < 0)
		return "-";
	snprintf(text, 24, "<= %d%.1s", 1 << size_class % 10,
		 size_class < 10 ? "" : &units[size_class / 10]);
	return text;
}

/* ------------------------------------------------------- collectives that are not done */

/* Returns the ranks in the job that are not in the set, of the ranks below 64 of the call's communicator: "2, 5". */
static const char *print_missing(const struct report *report, const struct report_call *call,
				 uint64_t set, char text[PRINT_TEXT])
{
	const struct trace_rank *rank = trace_source_rank(report->source, call->first_pid);
	const struct trace_slice slice = {.comm = call->comm};
	size_t used = 0;
	int n = 0;

	text[0] = '\0';
	for (int32_t r = 0; r < call->nranks && r < 64 && n < PRINT_MISSING; r++)
		if (!(set >> r & 1)) {
			used += (size_t)snprintf(text + used, PRINT_TEXT - used, "%s%" PRId32,
						 n++ ? ", " : "",
						 trace_rank_world(rank, &slice, r));
		}
	return text;
}

/* Puts the call into the list of `n` calls, the earliest first, unless REPORT_UNDONE calls are earlier. */
static void print_insert(const struct report_call *list[REPORT_UNDONE], int n,
			 const struct report_call *call)
{
	int at = n < REPORT_UNDONE ? n : REPORT_UNDONE, last = at < REPORT_UNDONE ? at : at - 1;

	while (at > 0 && list[at - 1]->first_begin > call->first_begin)
		at--;
	if (at == REPORT_UNDONE)
		return;
	memmove(&list[at + 1], &list[at], (size_t)(last - at) * sizeof(*list));
	list[at] = call;
}

/*
 * Is the call done, though a file lacks events of it?  A rank ends an allreduce, say, only when all ranks have begun it.
 * A rank that was stopped or killed has not written its last events.
 */
static int print_is_cut(const struct report_call *call)
{
	return call->is_over && kinds_is_barrier(call->kind) &&
	       (call->bytes > 0 || call->kind == COLL_KIND_BARRIER);
}

/*
 * Finds the collectives that are not done.  Returns their number; the earliest REPORT_UNDONE are in the list.  *cut: the
 * number of further collectives for which print_is_cut holds.
 */
static int print_find_undone(const struct report *report,
			     const struct report_call *list[REPORT_UNDONE], int *cut)
{
	int n = 0;

	*cut = 0;
	for (size_t i = 0; i < REPORT_TABLE; i++)
		for (const struct report_call *call = report->table[i]; call; call = call->next)
			if (print_is_cut(call))
				++*cut;
			else
				print_insert(list, n++, call);
	return n;
}

/* -------------------------------------------------------------------------- text -- */

static void print_clocks(const struct report *report)
{
	const struct trace_source *source = report->source;

	if (source->merged || source->clocks == 1) {
		printf("# clocks: %s\n",
		       source->merged ? "aligned by coll trace merge" : "the ranks share one");
		return;
	}
	for (int c = 1; c < source->clocks; c++) {
		const struct trace_clock *clock = &source->clock[c];

		printf("# clock of host %s: shifted by %.3f ms to that of %s, ", clock->host,
		       (double)clock->shift_ns / 1e6, source->clock[0].host);
		if (clock->method == TRACE_BY_MESSAGES)
			printf("by %" PRIu64 " messages: wrong by at %s %.1f us\n", clock->samples,
			       clock->drifts ? "least" : "most", (double)clock->bound_ns / 1e3);
		else
			printf("by the time of day: no messages bound its error\n");
	}
}

static void print_row(const struct report *report, const struct report_row *row)
{
	const int latest = report_latest(report, row);
	char size[24], last[48] = "-", busbw[24] = "-";

	if (latest >= 0)
		snprintf(last, sizeof(last), "%" PRId32 " (%.0f %%)",
			 report->source->rank[latest].pid,
			 100 * print_share(row->late_ns[latest], row->wait_ns));
	if (print_has_busbw(row))
		snprintf(busbw, sizeof(busbw), "%.3f", print_busbw(row));
	printf("%-16s %8s %9" PRIu64 " %10.3f %8s %11.1f %11.1f %11.3f  %s\n", print_name(row),
	       print_size(row->size_class, size), row->count, row->bytes / 1e6, busbw,
	       report_percentile(row, 0.5) / 1e3, report_percentile(row, 0.99) / 1e3,
	       row->wait_ns / 1e6, last);
}

static void print_late(const struct report *report)
{
	const struct report_rank *worst = NULL;

	for (int i = 0; i < report->ranks; i++)
		if (report->rank[i].late_ns > 0 &&
		    (worst == NULL || report->rank[i].late_ns > worst->late_ns))
			worst = &report->rank[i];
	printf("\nWaiting for the last rank to begin: %.3f s of the ranks together\n",
	       report->wait_ns / 1e9);
	if (worst != NULL)
		printf("  most for rank %" PRId32 ": %.3f s (%.0f %%), the last in %" PRIu64
		       " of %" PRIu64 " collectives\n",
		       report->source->rank[worst - report->rank].pid, worst->late_ns / 1e9,
		       100 * print_share(worst->late_ns, report->wait_ns), worst->late,
		       report->collectives);
}

static void print_overlap(const struct report *report)
{
	const double overlap = report->comm_ns - report->waited_ns;

	printf("\nOverlap: %.0f %% of the communication time (%.3f s of %.3f s of the ranks "
	       "together) no thread waited\n",
	       100 * print_share(overlap, report->comm_ns), overlap / 1e9, report->comm_ns / 1e9);
}

static void print_slow(const struct report *report)
{
	if (report->slows > 0)
		printf("\nSlowest collectives\n");
	for (int i = 0; i < report->slows; i++) {
		const struct report_call *call = &report->slow[i];

		printf("  %s number %" PRIu64 " of communicator %s, %" PRIu64
		       " bytes: %.3f ms, %.3f ms of it until rank %" PRId32 " began\n",
		       kinds_name(call->kind), call->number, call->comm_name, call->bytes,
		       (double)(call->last_end - call->first_begin) / 1e6,
		       (double)(call->last_begin - call->first_begin) / 1e6, call->last_pid);
	}
}

static void print_undone(const struct report *report)
{
	const struct report_call *list[REPORT_UNDONE];
	char missing[PRINT_TEXT];
	int cut;
	const int n = print_find_undone(report, list, &cut);

	if (n > 0)
		printf("\nNot done: %d collective%s\n", n, n == 1 ? "" : "s");
	for (int i = 0; i < n && i < REPORT_UNDONE; i++) {
		const struct report_call *call = list[i];
		const char *what = ", not by rank ";

		if (!print_missing(report, call, call->begun_by, missing)[0]) {
			what = ", not ended by rank ";
			print_missing(report, call, call->ended_by, missing);
		}
		printf("  %s number %" PRIu64 " of communicator %s, begun by %" PRId32
		       " of %" PRId32 " ranks%s%s\n",
		       kinds_name(call->kind), call->number, call->comm_name, call->begun,
		       call->nranks, missing[0] ? what : "", missing);
	}
	if (cut > 0)
		printf("\nDone, but not in all files, since ranks write their last events late: %d "
		       "collective%s\n",
		       cut, cut == 1 ? "" : "s");
}

/* Returns the index of the rank with the earliest failure that is not shown, or -1. */
static int print_next_failure(const struct trace_source *source, const uint8_t *shown)
{
	int next = -1;

	for (int i = 0; i < source->ranks; i++)
		if (source->rank[i].failure && !shown[i] &&
		    (next < 0 || source->rank[i].failed_ns < source->rank[next].failed_ns))
			next = i;
	return next;
}

/* Prints "rank 0, 2", all ranks whose failure has the same sentence, and marks them as shown. */
static void print_failed_ranks(const struct trace_source *source, int first, uint8_t *shown)
{
	int n = 0;

	for (int i = 0; i < source->ranks; i++) {
		const struct trace_rank *rank = &source->rank[i];

		if (!rank->failure || strcmp(rank->failure, source->rank[first].failure) != 0)
			continue;
		shown[i] = 1;
		if (n++ < PRINT_MISSING)
			printf("%s%" PRId32, n > 1 ? ", " : "  rank ", rank->pid);
	}
	if (n > PRINT_MISSING)
		printf(" and %d more", n - PRINT_MISSING);
}

static void print_failures(const struct report *report)
{
	const struct trace_source *source = report->source;
	uint8_t *shown = calloc((size_t)source->ranks + 1, 1);
	int next = shown ? print_next_failure(source, shown) : -1;

	if (next >= 0)
		printf("\nFailures, the earliest first\n");
	for (int n = 0; next >= 0 && n < PRINT_FAILURES; n++) {
		print_failed_ranks(source, next, shown);
		printf(" after %.3f s: %s\n",
		       (double)(source->rank[next].failed_ns - source->first_ns) / 1e9,
		       source->rank[next].failure);
		next = print_next_failure(source, shown);
	}
	if (next >= 0)
		printf("  and others (--json has all)\n");
	free(shown);
}

void report_print(const struct report *report)
{
	printf("# %d ranks, %d clock%s, %.3f s\n", report->ranks, report->source->clocks,
	       report->source->clocks == 1 ? "" : "s", print_seconds(report));
	print_clocks(report);
	printf("#\n# collective       size     count      bytes    busbw      median         p99"
	       "     waiting  last rank\n"
	       "#                   (B)                (MB)   (GB/s)        (us)        (us)"
	       "        (ms)  (of the waiting)\n");
	for (int i = 0; i < report->rows; i++)
		print_row(report, &report->row[i]);
	print_late(report);
	print_overlap(report);
	print_slow(report);
	print_undone(report);
	print_failures(report);
	if (report->dropped > 0)
		printf("\n%" PRIu64 " collectives are not counted: more than %d were under way\n",
		       report->dropped, TRACE_UNDER_WAY_MOST);
}

/* -------------------------------------------------------------------------- JSON -- */

static void json_rows(struct json *json, const struct report *report)
{
	json_array(json, "collectives");
	for (int i = 0; i < report->rows; i++) {
		const struct report_row *row = &report->row[i];
		const int latest = report_latest(report, row);

		json_object(json, NULL);
		json_string(json, "collective", print_name(row));
		json_int(json, "size_at_most",
			 row->size_class < 0 ? 0 : INT64_C(1) << row->size_class);
		json_int(json, "count", (int64_t)row->count);
		json_int(json, "failed", (int64_t)row->failed);
		json_number(json, "bytes", row->bytes);
		if (print_has_busbw(row))
			json_number(json, "busbw_gbps", print_busbw(row));
		else
			json_null(json, "busbw_gbps");
		json_number(json, "median_us", report_percentile(row, 0.5) / 1e3);
		json_number(json, "p99_us", report_percentile(row, 0.99) / 1e3);
		json_number(json, "waiting_s", row->wait_ns / 1e9);
		if (latest >= 0)
			json_int(json, "last_rank", report->source->rank[latest].pid);
		else
			json_null(json, "last_rank");
		json_number(json, "last_rank_waiting_s",
			    latest >= 0 ? row->late_ns[latest] / 1e9 : 0);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_ranks(struct json *json, const struct report *report)
{
	json_array(json, "ranks");
	for (int i = 0; i < report->ranks; i++) {
		const struct report_rank *rank = &report->rank[i];
		const struct trace_rank *facts = &report->source->rank[i];

		json_object(json, NULL);
		json_int(json, "rank", facts->pid);
		json_string(json, "host", facts->host);
		json_int(json, "last_in", (int64_t)rank->late);
		json_number(json, "others_waited_s", rank->late_ns / 1e9);
		json_number(json, "communication_s", (double)rank->comm_ns / 1e9);
		json_number(json, "overlap",
			    print_share((double)(rank->comm_ns - rank->waited_ns),
					(double)rank->comm_ns));
		json_bool(json, "ended", facts->ended);
		json_int(json, "events_lost", (int64_t)(facts->lost + facts->left_out));
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_call(struct json *json, const struct report_call *call)
{
	json_string(json, "collective", kinds_name(call->kind));
	json_int(json, "number", (int64_t)call->number);
	json_string(json, "communicator", call->comm_name);
	json_int(json, "bytes", (int64_t)call->bytes);
}

static void json_calls(struct json *json, const struct report *report)
{
	const struct report_call *list[REPORT_UNDONE];
	char missing[PRINT_TEXT];
	int cut;
	const int n = print_find_undone(report, list, &cut);

	json_array(json, "slowest");
	for (int i = 0; i < report->slows; i++) {
		const struct report_call *call = &report->slow[i];

		json_object(json, NULL);
		json_call(json, call);
		json_number(json, "ms", (double)(call->last_end - call->first_begin) / 1e6);
		json_number(json, "waiting_ms",
			    (double)(call->last_begin - call->first_begin) / 1e6);
		json_int(json, "last_rank", call->last_pid);
		json_object_end(json);
	}
	json_array_end(json);
	json_int(json, "done_not_in_all_files", cut);
	json_int(json, "not_done", n);
	json_array(json, "first_not_done");
	for (int i = 0; i < n && i < REPORT_UNDONE; i++) {
		json_object(json, NULL);
		json_call(json, list[i]);
		json_int(json, "begun", list[i]->begun);
		json_int(json, "ranks", list[i]->nranks);
		json_string(json, "missing",
			    print_missing(report, list[i], list[i]->begun_by, missing));
		json_string(json, "not_ended",
			    print_missing(report, list[i], list[i]->ended_by, missing));
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_failures(struct json *json, const struct trace_source *source)
{
	json_array(json, "failures");
	for (int i = 0; i < source->ranks; i++) {
		const struct trace_rank *rank = &source->rank[i];

		if (!rank->failure)
			continue;
		json_object(json, NULL);
		json_int(json, "rank", rank->pid);
		json_number(json, "seconds", (double)(rank->failed_ns - source->first_ns) / 1e9);
		json_int(json, "code", rank->failure_code);
		json_string(json, "text", rank->failure);
		json_object_end(json);
	}
	json_array_end(json);
}

static void json_clocks(struct json *json, const struct trace_source *source)
{
	json_array(json, "clocks");
	for (int c = 0; c < source->clocks; c++) {
		const struct trace_clock *clock = &source->clock[c];

		json_object(json, NULL);
		json_string(json, "host", clock->host);
		json_int(json, "shift_ns", clock->shift_ns);
		if (clock->bound_ns >= 0 && !clock->drifts)
			json_int(json, "error_at_most_ns", clock->bound_ns);
		else
			json_null(json, "error_at_most_ns");
		json_object_end(json);
	}
	json_array_end(json);
}

void report_print_json(const struct report *report)
{
	struct json json = {.out = stdout};

	json_object(&json, NULL);
	json_string(&json, "version", coll_version_string());
	json_number(&json, "seconds", print_seconds(report));
	json_clocks(&json, report->source);
	json_ranks(&json, report);
	json_rows(&json, report);
	json_number(&json, "waiting_s", report->wait_ns / 1e9);
	json_number(&json, "communication_s", report->comm_ns / 1e9);
	json_number(&json, "overlap",
		    print_share(report->comm_ns - report->waited_ns, report->comm_ns));
	json_calls(&json, report);
	json_failures(&json, report->source);
	json_object_end(&json);
}
