/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_file.c - the file of a timeline.  Each write ends with the end of the array, which the next write replaces: so
 * the file is a whole JSON document whenever the process ends.
 */
#include "timeline.h"
#include "base/cancel.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_begin[] = "[", file_end[] = "\n]\n";

/* ------------------------------------------------------------------------ to open -- */

static coll_result_t file_fail(const struct timeline *timeline, coll_error_t *err, const char *why)
{
	return error_fill(err, COLL_ERR_SYSTEM,
			  "the timeline '%s' cannot be written: %s; name a file in a directory in "
			  "which this user may make files",
			  timeline->path, why);
}

/* Opens the directory of the file.  A link of another user could lead to any directory of this user. */
static int file_open_directory(const struct timeline *timeline, const char **name,
			       coll_error_t *err)
{
	const char *slash = strrchr(timeline->path, '/');
	char directory[TIMELINE_PATH] = ".";
	int fd;

	*name = slash ? slash + 1 : timeline->path;
	if (slash)
		snprintf(directory, sizeof(directory), "%.*s",
			 slash == timeline->path ? 1 : (int)(slash - timeline->path),
			 timeline->path);
	fd = descriptor_lift(open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0) {
		file_fail(timeline, err, strerror(errno));
		return -1;
	}
	if (!trust_check_links(directory, fd))
		return fd;
	file_fail(timeline, err, error_text());
	close(fd);
	return -1;
}

/* Removes the older file of that name, if there is one.  Returns -1 with errno if it is no regular file of this user. */
static int file_remove(int directory, const char *name)
{
	struct stat old;

	if (fstatat(directory, name, &old, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -1;
	if (!S_ISREG(old.st_mode) || old.st_uid != geteuid()) {
		errno = EEXIST;
		return -1;
	}
	return unlinkat(directory, name, 0);
}

static int file_make(int directory, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

	return file_remove(directory, name) ? -1
					    : descriptor_lift(openat(directory, name, flags, 0600));
}

/* Opens the file that this process has made before, if it still has its name. */
static int file_open_again(const struct timeline_file *file, int directory, const char *name)
{
	struct stat now;
	int fd;

	if (!file->ino)
		return -1;
	fd = descriptor_lift(openat(directory, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0 || (!fstat(fd, &now) && now.st_dev == file->dev && now.st_ino == file->ino))
		return fd;
	close(fd);
	return -1;
}

coll_result_t timeline_file_open(struct timeline *timeline, coll_error_t *err)
{
	struct timeline_file *file = &timeline->file;
	struct stat made = {0};
	const char *name;
	int directory = file_open_directory(timeline, &name, err);
	coll_result_t code = COLL_SUCCESS;

	if (directory < 0)
		return COLL_ERR_SYSTEM;
	file->fd = file_open_again(file, directory, name);
	if (file->fd < 0) {
		file->size = 0;
		file->fd = file_make(directory, name);
	}
	if (file->fd < 0 || fstat(file->fd, &made))
		code = file_fail(timeline, err,
				 errno == EEXIST ? "its name is taken by something that is no file "
						   "of this user"
						 : strerror(errno));
	file->dev = made.st_dev;
	file->ino = made.st_ino;
	file->broken = 0;
	close(directory);
	return code;
}

/* ----------------------------------------------------------------------- to write -- */

/* The program may have closed the descriptor, and its number may be another file's. */
static int file_is_own(const struct timeline_file *file)
{
	struct stat now;

	return !fstat(file->fd, &now) && now.st_dev == file->dev && now.st_ino == file->ino;
}

static int file_put(const struct timeline_file *file, const char *text, size_t size, uint64_t at)
{
	int tries = 0;

	while (size > 0) {
		ssize_t n = pwrite(file->fd, text, size, (off_t)at);

		if (interrupted(n, &tries))
			continue;
		if (n <= 0)
			return -1;
		text += n;
		at += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

/* The file stays a whole document: it ended with the end of the array before, so there is room for that. */
static void file_break(struct timeline *timeline, const char *why)
{
	struct timeline_file *file = &timeline->file;

	file->broken = 1;
	if (file->fd >= 0 && file_is_own(file) && file->size > 0) {
		if (ftruncate(file->fd, (off_t)(file->size + sizeof(file_end) - 1)) ||
		    file_put(file, file_end, sizeof(file_end) - 1, file->size))
			file->broken = 1;
	}
	timeline_warn(timeline,
		      "the timeline '%s' ends after %llu bytes, because it cannot be written: %s; "
		      "the job goes on without it",
		      timeline->path, (unsigned long long)file->size, why);
}

static const char *file_try(struct timeline *timeline, char *text, size_t size)
{
	struct timeline_file *file = &timeline->file;

	if (!file_is_own(file))
		return "the program has closed its descriptor";
	if (!descriptor_may_grow(file->size + size + sizeof(file_begin)))
		return "File too large (ulimit -f)";
	if (!file->size) {
		if (file_put(file, file_begin, 1, 0))
			return strerror(errno);
		file->size = 1;
		text[0] = ' '; /* no comma before the first event */
	}
	if (file_put(file, text, size, file->size))
		return strerror(errno);
	file->size += size - (sizeof(file_end) - 1);
	return NULL;
}

void timeline_file_write(struct timeline *timeline)
{
	CANCEL_OFF;
	const size_t size = timeline->used + sizeof(file_end) - 1;
	const char *why;

	if (timeline->used == 0)
		return;
	if (!timeline->file.broken) {
		/* The text has room for the end: see timeline_text.c. */
		memcpy(timeline->text + timeline->used, file_end, sizeof(file_end) - 1);
		why = file_try(timeline, timeline->text, size);
		if (why)
			file_break(timeline, why);
	}
	timeline->used = 0;
}

void timeline_file_close(struct timeline *timeline)
{
	struct timeline_file *file = &timeline->file;

	if (file->fd >= 0 && file_is_own(file) && close(file->fd) && !file->broken)
		file_break(timeline, strerror(errno));
	file->fd = -1;
}
