/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_fuzz.c - the timelines that `coll trace` reads: any bytes are merged and exported, or refused with a sentence, and
 * what was merged can be read.
 *
 * Input: a file, or two with a byte of 1 between them.
 */
#include <sys/mman.h>
#include <stdarg.h>
#include <unistd.h>
#include "fuzz.h"
#include "trace/trace.h"

enum { FILES = 2, PATH = 64, RANKS_SMALL = 100 };

const char *const fuzz_name = "trace";
const long fuzz_runs = 4000;

static char fault[512];

int trace_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(fault, sizeof(fault), fmt, args);
	va_end(args);
	return -1;
}

/* A file in memory with these bytes. */
static int file_of(const uint8_t *data, size_t size, char path[PATH])
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size))
		exit(2);
	snprintf(path, PATH, "/proc/self/fd/%d", fd);
	return fd;
}

static void read_merged(char *text, size_t size)
{
	struct trace_source source;
	const struct trace_slice *slice;
	char path[PATH], *paths[] = {path};
	int fd = file_of((uint8_t *)text, size, path), what;

	fuzz_promise(trace_source_open(&source, paths, 1) == 0, "a merged file is read");
	while ((what = trace_source_slice(&source, &slice)) > 0)
		fuzz_promise(what == 1 || slice->end_ns >= slice->begin_ns,
			     "an end after its begin");
	fuzz_promise(what == 0, "to its end");
	trace_source_close(&source);
	close(fd);
}

static void use(struct trace_source *source)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int code = trace_merge(source, out);

	fclose(out);
	if (code == 0)
		read_merged(text, size);
	free(text);
	if (source->rank[source->ranks - 1].pid > RANKS_SMALL || trace_source_rewind(source) != 0)
		return;
	out = open_memstream(&text, &size);
	trace_export_goal(source, out);
	fclose(out);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *second = size ? memchr(data, 1, size) : NULL;
	const size_t first = second ? (size_t)(second - data) : size;
	struct trace_source source = {0};
	char path[FILES][PATH], *paths[FILES] = {path[0], path[1]};
	int fd[FILES] = {file_of(data, first, path[0]), -1};

	if (second)
		fd[1] = file_of(second + 1, size - first - 1, path[1]);
	fault[0] = '\0';
	if (trace_source_open(&source, paths, second ? 2 : 1) == 0)
		use(&source);
	else
		fuzz_promise(fault[0] != '\0', "a fault has a text");
	trace_source_close(&source);
	for (int i = 0; i < FILES; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	return 0;
}
