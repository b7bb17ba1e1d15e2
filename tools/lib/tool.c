/* SPDX-License-Identifier: BSD-3-Clause */
/* tool.c - usage errors with a suggestion, numbers from the command line, the clock. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/tool.h"

enum { TOOL_WORD_MAX = 32, TOOL_OPTIONS_MAX = 64 };

int tool_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "coll%s%s: ", command[0] ? " " : "", command);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nTry 'coll%s%s --help'.\n", command[0] ? " " : "", command);
	return TOOL_USAGE;
}

static size_t tool_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the edit distance: the number of insertions, deletions, replacements and swaps of neighbours that lead from a to
 * b.
 */
static size_t tool_distance(const char *a, const char *b)
{
	size_t d[TOOL_WORD_MAX + 1][TOOL_WORD_MAX + 1], m = strlen(a), n = strlen(b);

	if (m > TOOL_WORD_MAX || n > TOOL_WORD_MAX)
		return TOOL_WORD_MAX;
	for (size_t i = 0; i <= m; i++)
		for (size_t j = 0; j <= n; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			d[i][j] = tool_min(d[i - 1][j], d[i][j - 1]) + 1;
			d[i][j] = tool_min(d[i][j], d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = tool_min(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[m][n];
}

const char *tool_did_you_mean(const char *word, const char *const *names)
{
	static char text[64];
	size_t best = 3;

	/* A suggestion must share most letters with the word, else the word is no typing mistake. */
	if (strlen(word) < 5)
		best = strlen(word) < 3 ? 1 : 2;
	text[0] = '\0';
	for (size_t i = 0; names[i] != NULL; i++) {
		size_t distance = tool_distance(word, names[i]);

		if (distance >= best)
			continue;
		best = distance;
		snprintf(text, sizeof(text), ", did you mean '%s'?", names[i]);
	}
	return text;
}

const char *tool_expected(const char *word, const char *const *names)
{
	static char text[512];
	const char *guess = tool_did_you_mean(word, names);
	size_t used = 0;

	if (guess[0] != '\0')
		return guess;
	for (size_t i = 0; names[i] != NULL && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
					 i > 0 ? ", " : "; expected one of ", names[i]);
	return text;
}

static int tool_unknown_long(const char *command, const char *given, const struct option *known)
{
	const char *names[TOOL_OPTIONS_MAX];
	char text[TOOL_OPTIONS_MAX][TOOL_WORD_MAX], word[TOOL_WORD_MAX];
	size_t n, prefixes = 0;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(given, "="), given);
	for (n = 0; known[n].name != NULL && n + 1 < TOOL_OPTIONS_MAX; n++) {
		snprintf(text[n], sizeof(text[n]), "--%s", known[n].name);
		names[n] = text[n];
		prefixes += strncmp(text[n], word, strlen(word)) == 0;
	}
	names[n] = NULL;
	if (prefixes > 1)
		return tool_usage(command, "option '%s' is ambiguous", word);
	if (prefixes == 1)
		return tool_usage(command, "option '%s' takes no value", word);
	return tool_usage(command, "no option '%s'%s", word, tool_did_you_mean(word, names));
}

int tool_bad_option(const char *command, int answer, char **argv, const struct option *known)
{
	const char *given = argv[optind - 1];

	if (answer == ':')
		return tool_usage(command, "option '%s' needs a value", given);
	/* getopt_long sets optopt to the letter, or to 0 or a long option's value. */
	if (strncmp(given, "--", 2) == 0)
		return tool_unknown_long(command, given, known);
	return tool_usage(command, "no option '-%c'", optopt);
}

int tool_parse_int(const char *text, int64_t min, int64_t max, int64_t *value)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || n < min || n > max)
		return -1;
	*value = n;
	return 0;
}

int tool_parse_range(const char *text, int64_t min, int64_t max, int64_t *low, int64_t *high)
{
	char first[24];
	size_t n = strcspn(text, "-");

	snprintf(first, sizeof(first), "%.*s", (int)n, text);
	if (n >= sizeof(first) || tool_parse_int(first, min, max, low) != 0)
		return -1;
	return tool_parse_int(text[n] ? text + n + 1 : first, *low, max, high);
}

int tool_parse_size(const char *text, uint64_t *bytes)
{
	char *end;
	unsigned long long n;
	int shift;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || text[0] < '0' || text[0] > '9')
		return -1;
	switch (*end) {
	case 'k':
	case 'K': shift = 10; break;
	case 'm':
	case 'M': shift = 20; break;
	case 'g':
	case 'G': shift = 30; break;
	default: shift = 0;
	}
	if (end[shift > 0] != '\0' || n > (UINT64_MAX >> 1) >> shift)
		return -1;
	*bytes = n << shift;
	return 0;
}

int tool_parse_seconds(const char *text, int64_t *ms)
{
	const double most = 1e9;
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(text, &end);
	if (errno != 0 || end == text || *end != '\0' || !(seconds >= 0 && seconds <= most))
		return -1;
	*ms = (int64_t)ceil(seconds * 1000);
	return 0;
}

int64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t tool_now_ms(void)
{
	return tool_now_ns() / 1000000;
}

void tool_probe_apart(void)
{
	setenv("COLL_INFO_PROBE", "child", 1);
}
