/* SPDX-License-Identifier: BSD-3-Clause */
/* lines.c - reads a file line by line. */
#include "lines.h"

#include <stdio.h>
#include <string.h>

int lines_with(const char *path, const char *text)
{
	FILE *file = fopen(path, "re");
	char line[8192];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return n;
}
