/* SPDX-License-Identifier: BSD-3-Clause */
/* open_files.c - asks for the flags of each descriptor, and reads the list of mappings. */
#include "open_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

int mapped_files(const char *text)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[400];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, text) != NULL;
	if (maps)
		fclose(maps);
	return n;
}
