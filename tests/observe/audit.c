/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.c - reads the files of the observer audit: see audit.h. */
#include "audit.h"

enum { AUDIT_NAMES = 3 };

static const char *const audit_names[AUDIT_NAMES] = {"audit", "audit2", "terse"};

static void audit_path(char path[128], const char *observer, int rank)
{
	snprintf(path, 128, "%s/%s.%d", dir, observer, rank);
}

void audit_begin(const char *names)
{
	static const char *const variables[] = {"COLL_AUDIT_FILE", "COLL_AUDIT2_FILE",
						"COLL_TERSE_FILE"};
	char pattern[128];

	for (int i = 0; i < AUDIT_NAMES; i++) {
		snprintf(pattern, sizeof(pattern), "%s/%s.%%r", dir, audit_names[i]);
		setenv(variables[i], pattern, 1);
	}
	setenv("COLL_OBSERVERS", names, 1);
}

/* Returns the rest of the line behind `name`, or NULL.  times: how often it comes. */
static char *audit_line(const char *observer, int rank, const char *name, int *times)
{
	static char line[512];
	char path[128], *found = NULL;
	const size_t n = strlen(name);
	FILE *in;

	audit_path(path, observer, rank);
	*times = 0;
	in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in)) {
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		line[strcspn(line, "\n")] = '\0';
		++*times;
		free(found);
		found = strdup(line + n + 1);
	}
	if (in)
		fclose(in);
	return found;
}

long audit_count(const char *observer, int rank, const char *name)
{
	int times;
	char *text = audit_line(observer, rank, name, &times);
	const long count = text ? atol(text) : -1;

	free(text);
	return count;
}

void audit_ok(const char *observer, int nranks, const char *what)
{
	int bad = 0, times;

	for (int r = 0; r < nranks; r++) {
		char *fault = audit_line(observer, r, "fault", &times);

		if (!fault || fault[0] || times != 1) {
			bad++;
			diag("rank %d: %d files of %s, fault: %s", r, times, observer,
			     fault ? fault : "no file");
		}
		free(fault);
	}
	ok(!bad, "%s: the events are in order", what);
}

void audit_forget(int nranks)
{
	char path[128];

	for (int r = 0; r < nranks; r++)
		for (int i = 0; i < AUDIT_NAMES; i++) {
			audit_path(path, audit_names[i], r);
			unlink(path);
		}
}
