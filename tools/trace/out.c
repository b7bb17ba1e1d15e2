/* SPDX-License-Identifier: BSD-3-Clause */
/* out.c - the files that the commands write. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include "trace/trace.h"

/* Is the path one of the files that are read? */
static int out_is_input(const struct trace_source *source, const char *path)
{
	struct stat out, in;

	if (stat(path, &out) != 0)
		return 0;
	for (int i = 0; i < source->files; i++)
		if (fstat(fileno(source->file[i].in), &in) == 0 && in.st_dev == out.st_dev &&
		    in.st_ino == out.st_ino)
			return 1;
	return 0;
}

/* Is the output a regular file?  Devices and pipes are not removed. */
static int out_is_file(FILE *out)
{
	struct stat st;

	return fstat(fileno(out), &st) == 0 && S_ISREG(st.st_mode);
}

FILE *trace_out_open(const struct trace_source *source, const char *path)
{
	FILE *out;

	if (strcmp(path, "-") == 0)
		return stdout;
	if (out_is_input(source, path)) {
		trace_error("'%s' is one of the files that are read", path);
		return NULL;
	}
	out = fopen(path, "we");
	if (out == NULL)
		trace_error("cannot write '%s': %s", path, strerror(errno));
	return out;
}

int trace_out_close(FILE *out, const char *path, int code)
{
	const int is_ours = out != stdout && out_is_file(out);
	int wrong;

	errno = 0;
	wrong = ferror(out) | fflush(out);
	if (out != stdout)
		wrong |= fclose(out);
	if (wrong && code == 0)
		code = trace_error("cannot write '%s': %s", path, strerror(errno));
	if (code != 0 && is_ours)
		remove(path);
	return code;
}
