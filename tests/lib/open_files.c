/* SPDX-License-Identifier: BSD-3-Clause */
/* open_files.c - asks for the flags of each descriptor. */
#include "open_files.h"

#include <fcntl.h>

int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
