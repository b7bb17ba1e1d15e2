/* SPDX-License-Identifier: BSD-3-Clause */
/* self.c - finds the file of the running libcoll. */
#include "base/self.h"
#include "base/descriptor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the path in a line of /proc/self/maps if the line's range holds the address; else NULL. */
static const char *self_in_line(char *line, uintptr_t address)
{
	uintptr_t first, end;
	char *path = strchr(line, '/');

	line[strcspn(line, "\n")] = '\0';
	if (!path || sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &end) != 2)
		return NULL;
	return address >= first && address < end ? path : NULL;
}

/*
 * The kernel knows the file, and dladdr() may not: its name may be relative to a former directory.  For a program that a
 * shell found in PATH, dladdr() has the bare name, which may be anybody's file in the current directory.
 */
char *self_path(void)
{
	static const char here;
	FILE *maps = descriptor_read("/proc/self/maps");
	char line[PATH_MAX + 128], *found = NULL;
	const char *path;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		path = self_in_line(line, (uintptr_t)&here);
		found = path ? realpath(path, NULL) : NULL;
	}
	if (maps)
		fclose(maps);
	return found;
}
