/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor.c - new descriptors leave the numbers of stdin, stdout and stderr to the program. */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int descriptor_lift(int fd)
{
	int high, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return high;
}

int descriptor_replace(int fd, int other)
{
	if (dup3(fd, other, O_CLOEXEC) < 0)
		return -1;
	close(fd);
	return 0;
}

FILE *descriptor_read(const char *path)
{
	int fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC)), err;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file) {
		err = errno;
		close(fd);
		errno = err;
	}
	return file;
}

int descriptor_pipe(int ends[2])
{
	int err;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	ends[0] = descriptor_lift(ends[0]);
	err = errno;
	ends[1] = descriptor_lift(ends[1]);
	if (ends[0] >= 0 && ends[1] >= 0)
		return 0;
	err = ends[0] < 0 ? err : errno;
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	errno = err;
	return -1;
}

int descriptor_may_grow(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || size <= limit.rlim_cur;
}
