/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * merge.c - writes the events of all files into one, in the order of time, with aligned times, and arrows from the steps that
 * send to the steps that receive.
 */
#include <inttypes.h>
#include <string.h>
#include <coll/coll.h>
#include "lib/json.h"
#include "trace/trace.h"

static const char *merge_method(enum trace_method method)
{
	switch (method) {
	case TRACE_BY_MESSAGES: return "messages";
	case TRACE_BY_WALL_CLOCK: return "time of day";
	default: return "same clock";
	}
}

/* Writes how the times of each host were shifted, and how far they may be off. */
static void merge_head(const struct trace_source *source, FILE *out)
{
	fprintf(out,
		"[ {\"ph\":\"M\",\"pid\":%" PRId32 ",\"tid\":0,\"name\":\"coll_merged\",\"args\":"
		"{\"format\":1,\"library\":\"%s\",\"files\":%d,\"clocks\":[",
		source->rank[0].pid, coll_version_string(), source->files);
	for (int c = 0; c < source->clocks; c++) {
		const struct trace_clock *clock = &source->clock[c];

		fprintf(out, "%s{\"host\":", c ? "," : "");
		json_quote(out, clock->host);
		fprintf(out, ",\"method\":\"%s\",\"shift_ns\":%" PRId64 ",\"samples\":%" PRIu64,
			merge_method(clock->method), clock->shift_ns, clock->samples);
		if (clock->bound_ns >= 0 && !clock->drifts)
			fprintf(out, ",\"error_at_most_ns\":%" PRId64 "}", clock->bound_ns);
		else
			fprintf(out, ",\"error_at_most_ns\":null}");
	}
	fprintf(out, "]}}");
}

static void merge_time(FILE *out, int64_t ns)
{
	ns = ns > 0 ? ns : 0;
	fprintf(out, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

/* Returns the number after the key, or NULL.  A string cannot hold the key with its quotes. */
static const char *merge_find(const struct trace_file *file, const char *key)
{
	const char *at = memmem(file->event, file->event_size, key, strlen(key));

	return at ? at + strlen(key) : NULL;
}

/* Copies the event with shifted times. */
static void merge_event(const struct trace_file *file, int64_t shift_ns, FILE *out)
{
	const char *end = file->event + file->event_size, *from = file->event;
	const char *ts = merge_find(file, "\"ts\":"), *issued = merge_find(file, "\"issued\":");

	fputs(",\n", out);
	if (shift_ns != 0 && file->ts_ns != INT64_MIN && ts != NULL) {
		fwrite(from, 1, (size_t)(ts - from), out);
		merge_time(out, file->ts_ns + shift_ns);
		from = ts + strspn(ts, "0123456789.eE+- ");
		if (issued != NULL && issued > from) {
			const double us =
				json_get_number(json_get(file->json, "args"), "issued", 0);

			fwrite(from, 1, (size_t)(issued - from), out);
			merge_time(out, (int64_t)(us * 1000 + 0.5) + shift_ns);
			from = issued + strspn(issued, "0123456789.eE+- ");
		}
	}
	fwrite(from, 1, (size_t)(end - from), out);
}

/* An arrow begins in the slice that sends, and ends with the slice that receives, just before its end. */
static void merge_arrow(const struct trace_slice *slice, int ends, FILE *out)
{
	if (slice->what != TRACE_STEP || slice->flow == 0 || slice->sends == ends)
		return;
	fprintf(out, ",\n{\"ph\":\"%s\",\"pid\":%" PRId32 ",\"tid\":%" PRId32 ",\"ts\":",
		ends ? "f" : "s", slice->pid, slice->tid);
	merge_time(out, ends ? slice->end_ns : slice->begin_ns);
	fprintf(out, ",\"cat\":\"message\",\"name\":\"message\",\"id\":\"0x%" PRIx64 "\"%s}",
		slice->flow, ends ? ",\"bp\":\"e\"" : "");
}

static int merge_one(struct trace_source *source, const struct trace_file *file, FILE *out)
{
	const int64_t shift_ns = trace_source_shift(source, file);
	struct trace_rank *rank = trace_source_rank(source, file->pid);
	const struct trace_slice *slice;
	int what = rank ? trace_rank_take(rank, file, shift_ns, &slice) : 0;

	if (what < 0)
		return -1;
	if (what == TRACE_ENDS)
		merge_arrow(slice, 1, out);
	merge_event(file, shift_ns, out);
	if (what == TRACE_BEGINS)
		merge_arrow(slice, 0, out);
	return 0;
}

int trace_merge(struct trace_source *source, FILE *out)
{
	const struct trace_file *file;
	int failed;

	if (source->merged)
		return trace_error("'%s' is merged already", source->file[0].path);
	merge_head(source, out);
	while ((file = trace_source_next(source, &failed)) != NULL)
		if (merge_one(source, file, out) != 0)
			return -1;
	fputs("\n]\n", out);
	return failed ? -1 : 0;
}
