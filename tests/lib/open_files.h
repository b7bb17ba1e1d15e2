/* SPDX-License-Identifier: BSD-3-Clause */
/* open_files.h - the number of descriptors that this process has open: a test compares it before and after a call. */
#ifndef TESTS_LIB_OPEN_FILES_H
#define TESTS_LIB_OPEN_FILES_H

#include <fcntl.h>

/* Of the descriptors 0 to 1023. */
static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif
