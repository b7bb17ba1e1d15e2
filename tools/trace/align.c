/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * align.c - the clocks of several hosts.
 *
 * A message that host a sends at t (by a's clock) and host b has received at u (by b's clock) says that b's clock is ahead of
 * a's by at most u - t.  So does a collective in which every rank waits for all others: its end on b comes after its begin on
 * a.  Let ab be the least such difference from a to b, and ba from b to a (the minimum-delay filter of NTP).  Then b's
 * clock is ahead of a's by
 *
 *     (ab - ba) / 2,   and the error is at most   (ab + ba) / 2,
 *
 * if neither clock drifts while the job runs.  If ab + ba is negative, one of the two drifts by at least that much: then half
 * of it is the least error, and the clock is marked.  Hosts without messages both ways to the first host are shifted over other
 * hosts, along the way with the least sum of errors.  Clocks that no messages reach are shifted by the time of day, without a
 * bound.
 *
 * Memory: messages and collectives are kept by their number until their other end is read, at most SAMPLES_MOST of them.  If
 * there are more, those with a further low bit set in their number are dropped: the same messages and collectives in all files.
 */
#include <stdlib.h>
#include <string.h>
#include "lib/kinds.h"
#include "trace/trace.h"

enum { SAMPLES_MOST = 1 << 18, SAMPLES_BYTES = 32 << 20 };

/* The latest begin and the earliest end by a clock. */
struct align_times {
	int64_t begin_ns, end_ns; /* INT64_MIN, INT64_MAX: none */
};

/* A table by hash: of each key the times by each clock. */
struct align_table {
	uint64_t *key; /* 0: free */
	struct align_times *times;
	size_t size, used;
	uint64_t dropped; /* keys with one of these bits are not kept */
	int clocks;
};

struct align {
	struct trace_source *source;
	struct align_table table;
	int64_t *least; /* [from * clocks + to]; INT64_MAX: no message */
	uint64_t *samples;
};

/* ------------------------------------------------------------------------- table -- */

static size_t align_slot(const struct align_table *table, uint64_t key)
{
	size_t at = (size_t)(key >> 32) & (table->size - 1);

	while (table->key[at] != 0 && table->key[at] != key)
		at = (at + 1) & (table->size - 1);
	return at;
}

static int align_table_begin(struct align_table *table, int clocks)
{
	table->clocks = clocks;
	table->size = SAMPLES_MOST;
	while (table->size > 64 &&
	       table->size * (size_t)clocks * sizeof(*table->times) > SAMPLES_BYTES)
		table->size /= 2;
	table->key = calloc(table->size, sizeof(*table->key));
	table->times = calloc(table->size * (size_t)clocks, sizeof(*table->times));
	return table->key && table->times ? 0 : -1;
}

static void align_clear(struct align_table *table, size_t at)
{
	for (int c = 0; c < table->clocks; c++)
		table->times[at * (size_t)table->clocks + (size_t)c] =
			(struct align_times){.begin_ns = INT64_MIN, .end_ns = INT64_MAX};
}

/* Drops the keys with a further bit, and puts the others at their new places. */
static int align_thin(struct align_table *table)
{
	struct align_table less = *table;
	const size_t row = (size_t)table->clocks * sizeof(*table->times);

	less.dropped = table->dropped << 1 | 2;
	less.used = 0;
	if (align_table_begin(&less, table->clocks) != 0)
		return -1;
	for (size_t i = 0; i < table->size; i++)
		if (table->key[i] != 0 && !(table->key[i] & less.dropped)) {
			const size_t at = align_slot(&less, table->key[i]);

			less.key[at] = table->key[i];
			memcpy(&less.times[at * (size_t)table->clocks],
			       &table->times[i * (size_t)table->clocks], row);
			less.used++;
		}
	free(table->key);
	free(table->times);
	*table = less;
	return 0;
}

/* Returns the times of the key by the clock; NULL: the key is not kept, or there is no memory. */
static struct align_times *align_times(struct align_table *table, uint64_t key, int clock)
{
	size_t at;

	if (table->used * 2 > table->size && align_thin(table) != 0)
		return NULL;
	if (key & table->dropped)
		return NULL;
	at = align_slot(table, key);
	if (table->key[at] == 0) {
		table->key[at] = key;
		table->used++;
		align_clear(table, at);
	}
	return &table->times[at * (size_t)table->clocks + (size_t)clock];
}

/* ----------------------------------------------------------------------- samples -- */

static void align_take(struct align *align, const struct trace_slice *slice, int ends, int clock)
{
	const int collective = slice->what == TRACE_CALL && slice->key != 0 &&
			       kinds_is_barrier(slice->kind) && slice->code == 0 &&
			       (slice->bytes > 0 || strcmp(slice->name, "barrier") == 0);
	const uint64_t key = collective ? slice->key : slice->what == TRACE_STEP ? slice->flow : 0;
	struct align_times *times;

	/* A message begins with the step that sends it, and ends with the step that receives it. */
	if (key == 0 || (!collective && slice->sends == ends))
		return;
	times = align_times(&align->table, key, clock);
	if (times == NULL)
		return;
	if (!ends && slice->begin_ns > times->begin_ns)
		times->begin_ns = slice->begin_ns;
	if (ends && slice->end_ns < times->end_ns)
		times->end_ns = slice->end_ns;
}

static int align_read(struct align *align, int i)
{
	struct trace_source *source = align->source;
	struct trace_file *file = &source->file[i];
	struct trace_rank *rank = trace_source_rank(source, source->file_pid[i]);
	const struct trace_slice *slice;
	int got;

	if (trace_file_rewind(file) != 0)
		return -1;
	while ((got = trace_file_next(file)) > 0) {
		const int what =
			file->pid == rank->pid ? trace_rank_take(rank, file, 0, &slice) : 0;

		if (what < 0)
			return -1;
		if (what == TRACE_BEGINS || what == TRACE_ENDS)
			align_take(align, slice, what == TRACE_ENDS, source->clock_of[i]);
	}
	return got;
}

/* Takes the least difference of each pair of clocks. */
static void align_count(struct align *align)
{
	const int n = align->table.clocks;

	for (size_t i = 0; i < align->table.size; i++) {
		const struct align_times *times = &align->table.times[i * (size_t)n];

		for (int a = 0; align->table.key[i] != 0 && a < n; a++)
			for (int b = 0; b < n && times[a].begin_ns != INT64_MIN; b++) {
				int64_t *least = &align->least[a * n + b];

				if (a == b || times[b].end_ns == INT64_MAX)
					continue;
				align->samples[b]++;
				if (times[b].end_ns - times[a].begin_ns < *least)
					*least = times[b].end_ns - times[a].begin_ns;
			}
	}
}

/* ------------------------------------------------------------------------ shifts -- */

/* The error of the shift between two clocks; INT64_MAX: there are no messages both ways. */
static int64_t align_error(const struct align *align, int a, int b)
{
	const int n = align->table.clocks;
	const int64_t ab = align->least[a * n + b], ba = align->least[b * n + a];

	if (ab == INT64_MAX || ba == INT64_MAX)
		return INT64_MAX;
	return (llabs(ab + ba) + 1) / 2;
}

/* Dijkstra's algorithm: takes the clock with the least error that is not done.  Returns -1 if none is left. */
static int align_nearest(const struct trace_source *source, const int *done, const int64_t *error)
{
	int nearest = -1;

	for (int c = 0; c < source->clocks; c++)
		if (!done[c] && error[c] != INT64_MAX && (nearest < 0 || error[c] < error[nearest]))
			nearest = c;
	return nearest;
}

/* Shifts of many years are none. */
static int64_t align_clamp(int64_t shift_ns)
{
	const int64_t most = INT64_C(2000000000000000000);

	return shift_ns > most ? most : shift_ns < -most ? -most : shift_ns;
}

static void align_shift(struct align *align, int *done, int64_t *error)
{
	struct trace_source *source = align->source;
	const int n = source->clocks;
	int a;

	for (int c = 0; c < n; c++)
		error[c] = c == 0 ? 0 : INT64_MAX;
	while ((a = align_nearest(source, done, error)) >= 0) {
		done[a] = 1;
		for (int b = 0; b < n; b++) {
			const int64_t more = align_error(align, a, b);

			if (done[b] || more == INT64_MAX || more >= error[b] - error[a])
				continue;
			error[b] = error[a] + more;
			source->clock[b].method = TRACE_BY_MESSAGES;
			source->clock[b].bound_ns = error[b];
			source->clock[b].drifts =
				source->clock[a].drifts ||
				align->least[a * n + b] + align->least[b * n + a] < 0;
			source->clock[b].shift_ns = align_clamp(
				source->clock[a].shift_ns -
				(align->least[a * n + b] - align->least[b * n + a]) / 2);
		}
	}
}

/* The clocks that no messages reach. */
static void align_by_wall(struct trace_source *source, const int *done)
{
	const struct trace_clock *first = &source->clock[0];

	for (int c = 1; c < source->clocks; c++) {
		struct trace_clock *clock = &source->clock[c];

		if (done[c])
			continue;
		clock->method = TRACE_BY_WALL_CLOCK;
		clock->bound_ns = -1;
		clock->shift_ns = align_clamp((clock->wall_begin - clock->mono_begin) -
					      (first->wall_begin - first->mono_begin));
	}
}

static int align_all(struct align *align, int *done, int64_t *error)
{
	struct trace_source *source = align->source;
	const size_t n = (size_t)source->clocks;

	for (size_t i = 0; i < n * n; i++)
		align->least[i] = INT64_MAX;
	for (int i = 0; i < source->files; i++)
		if (align_read(align, i) != 0)
			return -1;
	align_count(align);
	align_shift(align, done, error);
	align_by_wall(source, done);
	for (size_t c = 1; c < n; c++)
		source->clock[c].samples = align->samples[c];
	return 0;
}

int trace_align(struct trace_source *source)
{
	const size_t n = (size_t)source->clocks;
	struct align align = {.source = source};
	int *done = NULL, code = -1;
	int64_t *error = NULL;

	if (n < 2)
		return 0;
	align.least = calloc(n * n, sizeof(*align.least));
	align.samples = calloc(n, sizeof(*align.samples));
	done = calloc(n, sizeof(*done));
	error = calloc(n, sizeof(*error));
	if (align.least && align.samples && done && error &&
	    align_table_begin(&align.table, (int)n) == 0)
		code = align_all(&align, done, error);
	else
		trace_error("no memory");
	free(align.least);
	free(align.samples);
	free(align.table.key);
	free(align.table.times);
	free(done);
	free(error);
	return code;
}
