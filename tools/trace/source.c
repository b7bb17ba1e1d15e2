/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - the events of all files in the order of time: the files are read beside each other. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "trace/trace.h"

/* ------------------------------------------------------------------------- ranks -- */

static int source_rank_at(const struct trace_source *source, int32_t pid)
{
	int low = 0, high = source->ranks;

	while (low < high) {
		const int middle = (low + high) / 2;

		if (source->rank[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct trace_rank *trace_source_rank(const struct trace_source *source, int32_t pid)
{
	const int at = source_rank_at(source, pid);

	return at < source->ranks && source->rank[at].pid == pid ? &source->rank[at] : NULL;
}

static struct trace_rank *source_rank_new(struct trace_source *source, int32_t pid)
{
	struct trace_rank *rank = trace_source_rank(source, pid);
	const int at = source_rank_at(source, pid);

	if (rank != NULL || pid < 0 || pid >= TRACE_RANKS_MOST)
		return rank;
	rank = realloc(source->rank, ((size_t)source->ranks + 1) * sizeof(*rank));
	if (rank == NULL)
		return NULL;
	source->rank = rank;
	memmove(rank + at + 1, rank + at, (size_t)(source->ranks - at) * sizeof(*rank));
	rank[at] = (struct trace_rank){.pid = pid};
	source->ranks++;
	return &rank[at];
}

/* ------------------------------------------------------------------------- order -- */

int64_t trace_source_shift(const struct trace_source *source, const struct trace_file *file)
{
	const int clock = source->clock_of[file - source->file];

	return source->merged ? 0 : source->clock[clock].shift_ns;
}

/* Events without a time come at once. */
static int64_t source_key(const struct trace_source *source, int file)
{
	const struct trace_file *at = &source->file[file];

	return at->ts_ns == INT64_MIN ? INT64_MIN : at->ts_ns + trace_source_shift(source, at);
}

static void source_sift(struct trace_source *source, int at)
{
	int *heap = source->heap;

	for (;;) {
		int least = at, child = 2 * at + 1;

		for (int i = child; i < child + 2 && i < source->heaped; i++)
			if (source_key(source, heap[i]) < source_key(source, heap[least]))
				least = i;
		if (least == at)
			return;
		child = heap[at];
		heap[at] = heap[least];
		heap[least] = child;
		at = least;
	}
}

/* Reads the first event of each file. */
static int source_begin(struct trace_source *source)
{
	source->heaped = 0;
	for (int i = 0; i < source->files; i++) {
		const int got = trace_file_next(&source->file[i]);

		if (got < 0)
			return -1;
		if (got > 0)
			source->heap[source->heaped++] = i;
	}
	for (int i = source->heaped / 2; i-- > 0;)
		source_sift(source, i);
	return 0;
}

int trace_source_rewind(struct trace_source *source)
{
	for (int i = 0; i < source->files; i++)
		if (trace_file_rewind(&source->file[i]) != 0)
			return -1;
	for (int i = 0; i < source->ranks; i++) {
		for (int32_t row = 0; row < source->rank[i].rows; row++)
			source->rank[i].row[row].begin_ns = 0;
		free(source->rank[i].failure);
		source->rank[i].failure = NULL;
	}
	source->heaped = -1;
	return 0;
}

/* The file at the top of the heap has the current event, which is done. */
static int source_advance(struct trace_source *source)
{
	int got;

	if (source->heaped < 0)
		return source_begin(source);
	if (source->heaped == 0)
		return 0;
	got = trace_file_next(&source->file[source->heap[0]]);
	if (got < 0)
		return -1;
	if (got == 0)
		source->heap[0] = source->heap[--source->heaped];
	source_sift(source, 0);
	return 0;
}

struct trace_file *trace_source_next(struct trace_source *source, int *failed)
{
	struct trace_file *file;
	int64_t at_ns;

	*failed = source_advance(source) != 0;
	if (*failed || source->heaped == 0)
		return NULL;
	file = &source->file[source->heap[0]];
	at_ns = source_key(source, source->heap[0]);
	if (file->ts_ns == INT64_MIN)
		return file;
	if (source->first_ns == 0 || at_ns < source->first_ns)
		source->first_ns = at_ns;
	if (at_ns > source->last_ns)
		source->last_ns = at_ns;
	return file;
}

int trace_source_slice(struct trace_source *source, const struct trace_slice **slice)
{
	struct trace_file *file;
	int failed;

	while ((file = trace_source_next(source, &failed)) != NULL) {
		struct trace_rank *rank = trace_source_rank(source, file->pid);
		int got;

		if (rank == NULL)
			continue; /* events of another program beside them */
		got = trace_rank_take(rank, file, trace_source_shift(source, file), slice);
		if (got != 0)
			return got;
	}
	return failed ? -1 : 0;
}

/* -------------------------------------------------------------------------- open -- */

/* Takes an event without a time at the begin of a file; *ranks are the ranks that the file has told of. */
static int source_take_head(struct trace_source *source, struct trace_file *file, int *ranks)
{
	const char *name = json_get_text(file->json, "name", "");
	struct trace_rank *rank = trace_source_rank(source, file->pid);
	const struct trace_slice *slice;

	if (strcmp(name, "coll_merged") == 0)
		file->merged = 1;
	if (strcmp(name, "coll_clock") == 0) {
		if (rank != NULL && *ranks == 0 && !file->merged)
			return trace_error("'%s' is of rank %d, and so is another file: give one "
					   "file of each rank",
					   file->path, file->pid);
		*ranks += rank == NULL;
		source->file_pid[file - source->file] = file->pid;
		rank = source_rank_new(source, file->pid);
		if (rank == NULL)
			return trace_error("'%s': %d is no rank", file->path, file->pid);
	}
	return rank != NULL && trace_rank_take(rank, file, 0, &slice) < 0 ? -1 : 0;
}

/* Reads what a file says of its rank before the first event with a time. */
static int source_read_head(struct trace_source *source, struct trace_file *file)
{
	int got, ranks = 0;

	while ((got = trace_file_next(file)) > 0 && file->ts_ns == INT64_MIN)
		if (source_take_head(source, file, &ranks) != 0)
			return -1;
	if (got < 0)
		return -1;
	if (ranks == 0)
		return trace_error(
			"'%s' is no timeline of libcoll: it has no \"coll_clock\"; expected "
			"a file of the option `timeline`, or of 'coll trace merge'",
			file->path);
	source->merged |= file->merged;
	return 0;
}

static int source_check_jobs(const struct trace_source *source)
{
	const struct trace_rank *first = &source->rank[0];

	for (int i = 1; i < source->ranks; i++)
		if (first->job[0] && source->rank[i].job[0] &&
		    strcmp(first->job, source->rank[i].job) != 0)
			return trace_error("the files are of different jobs: rank %d of job %s, "
					   "rank %d of job %s; give the files of one job",
					   first->pid, first->job, source->rank[i].pid,
					   source->rank[i].job);
	return 0;
}

static int source_check_merged(const struct trace_source *source)
{
	return source->merged && source->files > 1
		       ? trace_error("a file of 'coll trace merge' has all ranks: give it alone")
		       : 0;
}

/* Each file has a descriptor. */
static void source_raise_limit(int files)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > (rlim_t)files + 32)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Finds the clock of each rank; the first clock is that of the lowest rank. */
static int source_find_clocks(struct trace_source *source)
{
	for (int i = 0; i < source->ranks; i++) {
		const struct trace_rank *rank = &source->rank[i];
		int at = 0;

		while (at < source->clocks && strcmp(source->clock[at].name, rank->clock) != 0)
			at++;
		if (at == source->clocks && at == TRACE_CLOCKS_MOST)
			return trace_error("the ranks are of more than %d hosts",
					   TRACE_CLOCKS_MOST);
		if (at == source->clocks) {
			struct trace_clock *clock = &source->clock[source->clocks++];

			clock->rank = rank->pid;
			clock->bound_ns = 0;
			clock->mono_begin = rank->mono_begin;
			clock->wall_begin = rank->wall_begin;
			snprintf(clock->name, sizeof(clock->name), "%s", rank->clock);
			snprintf(clock->host, sizeof(clock->host), "%s", rank->host);
		}
	}
	for (int i = 0; i < source->files && !source->merged; i++) {
		const struct trace_rank *rank = trace_source_rank(source, source->file_pid[i]);

		for (int at = 0; rank != NULL && at < source->clocks; at++)
			if (strcmp(source->clock[at].name, rank->clock) == 0)
				source->clock_of[i] = at;
	}
	return 0;
}

int trace_source_open(struct trace_source *source, char **paths, int n)
{
	*source = (struct trace_source){.file = calloc((size_t)n, sizeof(struct trace_file)),
					.file_pid = calloc((size_t)n, sizeof(int32_t)),
					.clock_of = calloc((size_t)n, sizeof(int)),
					.heap = calloc((size_t)n, sizeof(int)),
					.clock = calloc(TRACE_CLOCKS_MOST, sizeof(*source->clock))};
	if (!source->file || !source->file_pid || !source->clock_of || !source->heap ||
	    !source->clock)
		return trace_error("no memory");
	source_raise_limit(n);
	for (int i = 0; i < n; i++) {
		if (trace_file_open(&source->file[i], paths[i]) != 0)
			return -1;
		source->files = i + 1;
		if (source_check_merged(source) != 0 ||
		    source_read_head(source, &source->file[i]) != 0)
			return -1;
	}
	if (source_check_merged(source) != 0 || source_check_jobs(source) != 0 ||
	    source_find_clocks(source) != 0 || (!source->merged && trace_align(source) != 0))
		return -1;
	return trace_source_rewind(source);
}

void trace_source_close(struct trace_source *source)
{
	for (int i = 0; i < source->files; i++)
		trace_file_close(&source->file[i]);
	for (int i = 0; i < source->ranks; i++)
		trace_rank_free(&source->rank[i]);
	free(source->file);
	free(source->file_pid);
	free(source->clock_of);
	free(source->clock);
	free(source->rank);
	free(source->heap);
	*source = (struct trace_source){0};
}
