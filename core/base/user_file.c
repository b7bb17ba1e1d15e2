/* SPDX-License-Identifier: BSD-3-Clause */
/* user_file.c - directories and files for the library's output. */
#include "base/user_file.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int user_file_fail(int fd, const char *why)
{
	if (fd >= 0)
		close(fd);
	error_set(COLL_ERR_SYSTEM, "%s", why);
	return -1;
}

/* A link of another user could lead to any directory of this user. */
static int user_directory_enter(const char *path, int to_write)
{
	const int fd = descriptor_lift(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));

	if (fd < 0 || (to_write && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS)))
		return user_file_fail(fd, strerror(errno));
	if (!trust_check_links(path, fd))
		return fd;
	close(fd);
	return -1;
}

int user_directory_open(const char *path)
{
	return user_directory_enter(path, 1);
}

/* Opens the file, which *is_new tells: a file that another process makes or removes meanwhile is tried again. */
static int user_file_open(int directory, const char *name, int *is_new)
{
	enum { TRIES = 8 };
	const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = -1;

	for (int n = 0; fd < 0 && n < TRIES; n++) {
		*is_new = 0;
		fd = descriptor_lift(openat(directory, name, flags));
		if (fd >= 0 || errno != ENOENT)
			break;
		*is_new = 1;
		fd = descriptor_lift(openat(directory, name, flags | O_CREAT | O_EXCL, 0600));
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* Returns the reason why the library must not append to this file, which it has not made, or NULL. */
static const char *user_file_objection(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (S_ISCHR(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()))
		return NULL;
	if (!S_ISREG(st.st_mode))
		return "it is no regular file";
	if (st.st_uid != geteuid())
		return "refused for safety: the file belongs to another user";
	if (st.st_nlink > 1)
		return "refused for safety: the file has other names too (hard links)";
	return NULL;
}

static const char *user_file_reason(int err)
{
	return err == ELOOP   ? "refused for safety: it is a symbolic link"
	       : err == ENXIO ? "it is no regular file"
			      : strerror(err);
}

int user_file_append(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *objection;
	char directory[PATH_MAX];
	int at, fd, is_new;

	if (!name[0])
		return user_file_fail(-1, "it names no file");
	if (strlen(path) >= sizeof(directory))
		return user_file_fail(-1, strerror(ENAMETOOLONG));
	snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	at = user_directory_enter(directory, 0);
	if (at < 0)
		return -1;
	fd = user_file_open(at, name, &is_new);
	objection = fd < 0 ? user_file_reason(errno) : is_new ? NULL : user_file_objection(fd);
	close(at);
	return objection ? user_file_fail(fd, objection) : fd;
}
