/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.c - a file in the Trace Event Format, event by event: an array of objects, or an object with the array
 * "traceEvents".  The end of the array may be missing, as the format allows: so may the end of the last event, where the
 * disk was full.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trace/trace.h"

enum { FILE_ROOM = 64 << 10 };

static int file_error(const struct trace_file *file, size_t at, const char *what)
{
	return trace_error("'%s' is no timeline: byte %llu: %s", file->path,
			   (unsigned long long)(file->offset + at), what);
}

int trace_file_open(struct trace_file *file, const char *path)
{
	*file = (struct trace_file){.path = path, .ts_ns = INT64_MIN};
	file->in = fopen(path, "re");
	if (file->in == NULL)
		return trace_error("cannot read '%s': %s", path, strerror(errno));
	file->room = FILE_ROOM;
	file->text = malloc(file->room + 1);
	return file->text ? 0 : trace_error("no memory");
}

int trace_file_rewind(struct trace_file *file)
{
	json_free(file->json);
	file->json = NULL;
	file->used = file->at = 0;
	file->offset = 0;
	file->is_open = file->truncated = 0;
	if (fseeko(file->in, 0, SEEK_SET) != 0)
		return trace_error("cannot read '%s' again: %s: name a file, no pipe", file->path,
				   strerror(errno));
	return 0;
}

void trace_file_close(struct trace_file *file)
{
	json_free(file->json);
	free(file->text);
	if (file->in != NULL)
		fclose(file->in);
	*file = (struct trace_file){0};
}

/* Reads more behind what is there; what is before `at` goes.  Returns 1, 0 at the end of the file, or -1. */
static int file_fill(struct trace_file *file)
{
	size_t n;

	memmove(file->text, file->text + file->at, file->used - file->at);
	file->offset += file->at;
	file->used -= file->at;
	file->at = 0;
	if (file->used == file->room) {
		char *more = file->room < TRACE_EVENT_MOST ? realloc(file->text, file->room * 2 + 1)
							   : NULL;

		if (more == NULL)
			return file_error(file, 0, "an event is longer than 16 MiB");
		file->text = more;
		file->room *= 2;
	}
	n = fread(file->text + file->used, 1, file->room - file->used, file->in);
	file->used += n;
	if (n == 0 && ferror(file->in))
		return trace_error("cannot read '%s': %s", file->path, strerror(errno));
	return n > 0;
}

/* Goes to the next byte that is none of `skipped`.  Returns it, 0 at the end, or -1. */
static int file_skip(struct trace_file *file, const char *skipped)
{
	for (;;) {
		int more;

		while (file->at < file->used && file->text[file->at] != '\0' &&
		       strchr(skipped, file->text[file->at]))
			file->at++;
		if (file->at < file->used)
			return (unsigned char)file->text[file->at];
		more = file_fill(file);
		if (more <= 0)
			return more;
	}
}

/* Goes behind the bracket of the array.  Returns 1, 0 in an empty file, or -1. */
static int file_begin(struct trace_file *file)
{
	static const char key[] = "\"traceEvents\"";
	int c = file_skip(file, " \t\r\n");
	char *found;

	if (c == '{') {
		while ((found = memmem(file->text + file->at, file->used - file->at, key,
				       sizeof(key) - 1)) == NULL)
			if (file_fill(file) <= 0)
				return file_error(file, 0, "the object has no \"traceEvents\"");
		file->at = (size_t)(found - file->text) + sizeof(key) - 1;
		c = file_skip(file, " \t\r\n:");
	}
	if (c < 0)
		return -1;
	if (c == 0 && file->offset == 0)
		return file_error(file, 0, "the file is empty");
	if (c != '[')
		return file_error(file, file->at, "an array of events is expected");
	file->at++;
	file->is_open = 1;
	return 1;
}

/* Returns the size of the object that begins at `at`; 0: it ends beyond what is read. */
static size_t file_object(const struct trace_file *file)
{
	int depth = 0, in_string = 0;

	for (size_t i = file->at; i < file->used; i++) {
		const char c = file->text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = 0;
		} else if (c == '"') {
			in_string = 1;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if ((c == '}' || c == ']') && --depth == 0) {
			return i + 1 - file->at;
		}
	}
	return 0;
}

int32_t trace_int(const struct json_value *json, const char *key, int32_t otherwise)
{
	const double number = json_get_number(json, key, otherwise);

	return number >= INT32_MIN && number <= INT32_MAX ? (int32_t)number : otherwise;
}

/* Reads the object, which has so many bytes. */
static int file_take(struct trace_file *file, size_t size)
{
	char *text = file->text + file->at, after = text[size];
	const char *wrong = NULL;
	double ts;
	size_t at = 0;

	text[size] = '\0';
	json_free(file->json);
	file->json = strlen(text) == size ? json_parse(text, &wrong, &at) : NULL;
	if (file->json == NULL)
		return file_error(file, file->at + at, wrong ? wrong : "a byte is 0");
	text[size] = after;
	file->event = text;
	file->event_size = size;
	file->at += size;
	file->ph = json_get_text(file->json, "ph", "")[0];
	file->pid = trace_int(file->json, "pid", 0);
	file->tid = trace_int(file->json, "tid", 0);
	ts = json_get_number(file->json, "ts", NAN);
	/* Beyond 63 years no time is one. */
	file->ts_ns = ts >= 0 && ts < 2e15 ? (int64_t)(ts * 1000 + 0.5) : INT64_MIN;
	return 1;
}

int trace_file_next(struct trace_file *file)
{
	size_t size;
	int c = file->is_open ? 1 : file_begin(file);

	if (c > 0)
		c = file_skip(file, " \t\r\n,");
	if (c < 0)
		return -1;
	file->truncated |= c == 0;
	if (c == ']' || c == 0)
		return 0;
	if (c != '{')
		return file_error(file, file->at, "an event is expected, an object");
	while ((size = file_object(file)) == 0) {
		c = file_fill(file);
		if (c < 0)
			return -1;
		if (c == 0) {
			file->truncated = 1;
			return 0;
		}
	}
	return file_take(file, size);
}
