/* SPDX-License-Identifier: BSD-3-Clause */
/* page_directory.c - the directories of pages: see page_directory.h. */
#include "page/page_directory.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Writes the path of directory `n`, and of the directory above it.  Returns 0, or -1: there is none. */
static int directory_path(int n, char path[PAGE_PATH], char above[PAGE_PATH])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	const unsigned uid = (unsigned)geteuid();

	if (n == 0 && (!runtime || runtime[0] != '/' || strlen(runtime) > PAGE_PATH - 8))
		return -1;
	if (n == 0)
		snprintf(above, PAGE_PATH, "%.500s", runtime);
	else
		snprintf(above, PAGE_PATH, n == 1 ? "/run/user/%u" : "/dev/shm", uid);
	if (n == 2)
		snprintf(path, PAGE_PATH, "/dev/shm/coll-%u", uid);
	else
		snprintf(path, PAGE_PATH, "%.500s/coll", above);
	return 0;
}

/* Returns 0 if the directory is in memory; -1 if there is none; else an error. */
static int directory_check_memory(const char *path)
{
	struct statfs fs;

	if (statfs(path, &fs))
		return -1;
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return 0;
	return error_set(COLL_ERR_SYSTEM,
			 "'%s' is not in memory (tmpfs), and a call would wait for its disk now "
			 "and then",
			 path);
}

/* The way to the directories that the system makes is the system's; only the last step is looked at. */
static int directory_check_way(int n, const char *path, const char *above)
{
	struct trust trust;
	struct stat st;

	if (n == 0)
		return trust_check(path, 0, &trust);
	if (!stat(above, &st) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
	    (!(st.st_mode & 022) || st.st_mode & S_ISVTX))
		return 0;
	return error_set(COLL_ERR_PERMISSION, "others may replace entries of '%s'", above);
}

/* Is the open directory the user's alone? */
static int directory_check(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return error_set(COLL_ERR_SYSTEM, "'%s': %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return error_set(COLL_ERR_PERMISSION,
				 "'%s' belongs to user %u, not to user %u: let its owner remove it",
				 path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 077)
		return error_set(COLL_ERR_PERMISSION,
				 "'%s' has mode %03o, which lets others in: run chmod 700 %s", path,
				 (unsigned)(st.st_mode & 0777), path);
	return COLL_SUCCESS;
}

/* Makes the directory, unless another user could change the way to it. */
static int directory_make(const char *path, const char *above)
{
	struct trust trust;

	if (access(above, F_OK))
		return -1;
	if (trust_check(above, 0, &trust))
		return -1;
	if (!mkdir(path, 0700) || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		error_set(COLL_ERR_SYSTEM, "'%s': %s", path, strerror(errno));
	return -1;
}

int page_directory_open(int n, int make, char path[PAGE_PATH])
{
	char above[PAGE_PATH];
	int fd;

	error_set(COLL_SUCCESS, "%s", "");
	if (directory_path(n, path, above) || directory_check_memory(above) ||
	    (make && directory_make(path, above)))
		return -1;
	fd = descriptor_lift(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0) {
		if (errno != ENOENT)
			error_set(COLL_ERR_SYSTEM, "'%s' is no directory of this user: %s", path,
				  strerror(errno));
		return -1;
	}
	if (!directory_check(fd, path) && !directory_check_way(n, path, above))
		return fd;
	close(fd);
	return -1;
}

int page_directory_file(int directory, const char *name, int flags)
{
	const int all = flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

	return descriptor_lift(openat(directory, name, all, 0600));
}

void page_name_write(const struct page_name *page, char text[128])
{
	snprintf(text, 128, "coll-%016" PRIx64 "-rank-%d-pid-%ld.page", page->job, page->rank,
		 page->pid);
}

int page_name_read(const char *text, struct page_name *page)
{
	char same[128];

	if (sscanf(text, "coll-%16" SCNx64 "-rank-%d-pid-%ld.page", &page->job, &page->rank,
		   &page->pid) != 3)
		return -1;
	page_name_write(page, same);
	return strcmp(text, same) == 0 && page->rank >= 0 && page->pid > 0 ? 0 : -1;
}
