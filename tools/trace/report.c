/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - counts what the ranks did.  A collective is counted when all ranks whose files are there have ended it: so the
 * memory depends on how many are under way, and on kinds and sizes, not on the length of the files.
 */
#include <stdlib.h>
#include <string.h>
#include "lib/kinds.h"
#include "trace/report.h"

/* -------------------------------------------------------------------------- rows -- */

static int report_bucket(double ns)
{
	uint64_t value = ns > 1 ? (uint64_t)ns : 1;
	const int octave = 63 - __builtin_clzll(value);
	const int sub = octave >= 5 ? (int)(value >> (octave - 5) & (REPORT_SUB - 1))
				    : (int)(value << (5 - octave) & (REPORT_SUB - 1));

	return octave * REPORT_SUB + sub;
}

double report_percentile(const struct report_row *row, double share)
{
	const double wanted = share * (double)row->count;
	double seen = 0;

	for (int i = 0; i < REPORT_BUCKETS; i++) {
		seen += row->bucket[i];
		if (row->bucket[i] > 0 && seen >= wanted)
			return (double)(UINT64_C(1) << i / REPORT_SUB) *
			       (1 + (i % REPORT_SUB + 0.5) / REPORT_SUB);
	}
	return 0;
}

int report_latest(const struct report *report, const struct report_row *row)
{
	int latest = -1;

	for (int i = 0; i < report->ranks; i++)
		if (row->late_ns[i] > 0 && (latest < 0 || row->late_ns[i] > row->late_ns[latest]))
			latest = i;
	return latest;
}

static int report_class(double bytes)
{
	int class = bytes > 0 ? 0 : -1;

	while (class >= 0 && class < 62 && (double)(UINT64_C(1) << class) < bytes)
		class ++;
	return class;
}

/* Rows stand by kind and size. */
static struct report_row *report_row(struct report *report, enum trace_what what, int32_t kind,
				     double bytes)
{
	const int class = report_class(bytes);
	struct report_row *row;
	int at = 0;

	for (; at < report->rows; at++) {
		row = &report->row[at];
		if (row->what == what && row->kind == kind && row->size_class == class)
			return row;
		if (row->what > what || (row->what == what && row->kind > kind) ||
		    (row->what == what && row->kind == kind && row->size_class > class))
			break;
	}
	row = realloc(report->row, ((size_t)report->rows + 1) * sizeof(*row));
	if (row == NULL)
		return NULL;
	report->row = row;
	memmove(row + at + 1, row + at, (size_t)(report->rows - at) * sizeof(*row));
	row[at] = (struct report_row){.what = what, .kind = kind, .size_class = class};
	row[at].late_ns = calloc((size_t)report->ranks, sizeof(double));
	report->rows++;
	return row[at].late_ns ? &row[at] : NULL;
}

static void report_count(struct report_row *row, int nranks, double size, double busy_ns, double ns,
			 int code)
{
	row->count++;
	row->failed += code != 0;
	row->bytes += size;
	row->bus += size * kinds_bus_factor(row->kind, nranks);
	row->busy_ns += busy_ns;
	row->bucket[report_bucket(ns)]++;
}

/* ------------------------------------------------------------- collectives under way -- */

static int report_index(const struct report *report, int32_t pid)
{
	const struct trace_rank *rank = trace_source_rank(report->source, pid);
	const long at = rank ? rank - report->source->rank : -1;

	return at >= 0 && at < report->ranks ? (int)at : -1;
}

/* The ranks of the communicator whose files are there. */
static int32_t report_expected(const struct report *report, const struct trace_slice *slice)
{
	const struct trace_rank *rank = trace_source_rank(report->source, slice->pid);
	int32_t expected = 0;

	if (report->ranks >= rank->nranks)
		return slice->nranks;
	for (int32_t i = 0; i < slice->nranks; i++)
		expected += report_index(report, trace_rank_world(rank, slice, i)) >= 0;
	return expected;
}

static struct report_call **report_find(struct report *report, uint64_t key)
{
	struct report_call **at = &report->table[(key >> 20) % REPORT_TABLE];

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static struct report_call *report_call_new(struct report *report, const struct trace_slice *slice)
{
	struct report_call *call =
		report->under_way < TRACE_UNDER_WAY_MOST ? malloc(sizeof(*call)) : NULL;

	if (call == NULL) {
		report->dropped++;
		return NULL;
	}
	*call = (struct report_call){.key = slice->key,
				     .kind = slice->kind,
				     .nranks = slice->nranks,
				     .expected = report_expected(report, slice),
				     .first_pid = slice->pid,
				     .first_begin = slice->begin_ns,
				     .number = slice->collective,
				     .comm = slice->comm};
	memcpy(call->comm_name, slice->comm_name, sizeof(call->comm_name));
	report->under_way++;
	return call;
}

static void report_slow(struct report *report, const struct report_call *call)
{
	const int64_t ns = call->last_end - call->first_begin;
	int at = report->slows;

	while (at > 0 && ns > report->slow[at - 1].last_end - report->slow[at - 1].first_begin)
		at--;
	if (at == report->slowest)
		return;
	report->slows += report->slows < report->slowest;
	memmove(&report->slow[at + 1], &report->slow[at],
		(size_t)(report->slows - 1 - at) * sizeof(*call));
	report->slow[at] = *call;
}

/* The bytes of the larger buffer of a rank. */
static double report_size(const struct report_call *call)
{
	const uint64_t bytes = kinds_adds_parts(call->kind) ? call->bytes_of_all : call->bytes;

	return kinds_bus_size(call->kind, call->nranks, (double)bytes);
}

static int report_done(struct report *report, const struct report_call *call)
{
	const double size = report_size(call);
	struct report_row *row = report_row(report, TRACE_CALL, call->kind, size);
	const int last = report_index(report, call->last_pid);
	const double wait_ns =
		(double)(call->last_begin - call->first_begin) * call->begun - call->later_ns;

	if (row == NULL)
		return trace_error("no memory");
	report_count(row, call->nranks, size, (double)(call->last_end - call->last_begin),
		     (double)(call->last_end - call->first_begin), call->code);
	row->wait_ns += wait_ns;
	report->wait_ns += wait_ns;
	report->collectives++;
	if (last >= 0 && call->begun > 1) {
		row->late_ns[last] += wait_ns;
		report->rank[last].late_ns += wait_ns;
		report->rank[last].late++;
	}
	report_slow(report, call);
	return 0;
}

/* The bit of the rank, or 0. */
static uint64_t report_bit(const struct trace_slice *slice)
{
	return slice->comm_rank >= 0 && slice->comm_rank < 64 ? UINT64_C(1) << slice->comm_rank : 0;
}

static void report_begin(struct report_call *call, const struct trace_slice *slice)
{
	if (slice->begin_ns < call->first_begin) { /* by the error of the clocks */
		call->later_ns += (double)(call->first_begin - slice->begin_ns) * call->begun;
		call->first_begin = slice->begin_ns;
	}
	call->later_ns += (double)(slice->begin_ns - call->first_begin);
	if (call->begun == 0 || slice->begin_ns >= call->last_begin) {
		call->last_begin = slice->begin_ns;
		call->last_pid = slice->pid;
	}
	call->begun++;
	call->begun_by |= report_bit(slice);
	call->bytes_of_all += slice->bytes;
	if (slice->bytes > call->bytes)
		call->bytes = slice->bytes;
}

static int report_collective(struct report *report, const struct trace_slice *slice, int ends)
{
	struct report_call **at = report_find(report, slice->key), *call = *at;
	int code = 0;

	if (call == NULL && !ends)
		*at = call = report_call_new(report, slice);
	if (call == NULL)
		return 0;
	if (!ends) {
		report_begin(call, slice);
		return 0;
	}
	call->ended++;
	call->ended_by |= report_bit(slice);
	call->code = slice->code ? slice->code : call->code;
	call->is_over |= slice->code == 0;
	if (slice->end_ns > call->last_end)
		call->last_end = slice->end_ns;
	if (call->ended < call->expected || call->begun < call->expected)
		return 0;
	code = report_done(report, call);
	*at = call->next;
	free(call);
	report->under_way--;
	return code;
}

/* ----------------------------------------------------------------------- overlap -- */

/* Counts the time since the last event of the rank. */
static void report_pass(struct report *report, const struct trace_slice *slice, int ends)
{
	const int at = report_index(report, slice->pid), change = ends ? -1 : 1;
	const int64_t now = ends ? slice->end_ns : slice->begin_ns;
	struct report_rank *rank = at >= 0 ? &report->rank[at] : NULL;

	if (rank == NULL)
		return;
	if (now > rank->last_ns) {
		if (rank->calls > 0)
			rank->comm_ns += now - rank->last_ns;
		if (rank->calls > 0 && rank->waits > 0)
			rank->waited_ns += now - rank->last_ns;
		rank->last_ns = now;
	}
	if (slice->what == TRACE_CALL || slice->what == TRACE_MESSAGE)
		rank->calls += change;
	else if (slice->what == TRACE_WAIT)
		rank->waits += change;
}

/* --------------------------------------------------------------------------- all -- */

static int report_take(struct report *report, const struct trace_slice *slice,
		       enum trace_phase phase)
{
	const int ends = phase == TRACE_ENDS;
	const int p2p = slice->what == TRACE_MESSAGE || (slice->what == TRACE_CALL && !slice->key);
	const double bytes = (double)slice->bytes, ns = (double)(slice->end_ns - slice->begin_ns);
	struct report_row *row;

	report_pass(report, slice, phase != TRACE_BEGINS);
	if (phase == TRACE_BREAKS)
		return 0;
	if (slice->what == TRACE_CALL && slice->key != 0)
		return report_collective(report, slice, ends);
	if (!p2p || !ends)
		return 0;
	row = report_row(report, slice->what, slice->kind, bytes);
	if (row == NULL)
		return trace_error("no memory");
	report_count(row, 2, bytes, ns, ns, slice->code);
	return 0;
}

static int report_read(struct report *report)
{
	const struct trace_slice *slice;
	int what;

	while ((what = trace_source_slice(report->source, &slice)) > 0)
		if (report_take(report, slice, (enum trace_phase)what) != 0)
			return -1;
	for (int i = 0; i < report->ranks; i++) {
		report->comm_ns += (double)report->rank[i].comm_ns;
		report->waited_ns += (double)report->rank[i].waited_ns;
	}
	return what;
}

static void report_free(struct report *report)
{
	for (size_t i = 0; report->table != NULL && i < REPORT_TABLE; i++)
		while (report->table[i] != NULL) {
			struct report_call *call = report->table[i];

			report->table[i] = call->next;
			free(call);
		}
	for (int i = 0; i < report->rows; i++)
		free(report->row[i].late_ns);
	free(report->table);
	free(report->row);
	free(report->rank);
	free(report->slow);
}

int trace_report(struct trace_source *source, int as_json, int slowest)
{
	struct report report = {.source = source, .ranks = source->ranks, .slowest = slowest};
	int code = -1;

	report.table = calloc(REPORT_TABLE, sizeof(struct report_call *));
	report.rank = calloc((size_t)source->ranks, sizeof(*report.rank));
	report.slow = calloc((size_t)slowest + 1, sizeof(*report.slow));
	if (report.table && report.rank && report.slow)
		code = report_read(&report);
	else
		trace_error("no memory");
	if (code == 0)
		(as_json ? report_print_json : report_print)(&report);
	report_free(&report);
	return code;
}
