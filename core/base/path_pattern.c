/* SPDX-License-Identifier: BSD-3-Clause */
/* path_pattern.c - paths with the names of a rank in them. */
#include "base/path_pattern.h"

#include <stdio.h>
#include <string.h>

/* Appends "%h (host), %r (rank)" for each of the letters. */
static void path_pattern_list(const char *letters, char *text, size_t size)
{
	static const char *const name[] = {"h (host)", "r (rank)", "p (process id)", "j (job)"};
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		if (strchr(letters, name[i][0]) && at < size)
			at += (size_t)snprintf(text + at, size - at, "%%%s, ", name[i]);
}

static int path_pattern_fault(const char *at, const char *letters, char *why, size_t size)
{
	const unsigned char letter = (unsigned char)at[1];
	char known[80];

	path_pattern_list(letters, known, sizeof(known));
	if (!letter)
		snprintf(why, size, "it ends with a single %%: expected %sor %%%% for a %%", known);
	else if (letter > ' ' && letter < 0x7f)
		snprintf(why, size, "%%%c is not known here: expected %sor %%%% for a %%", letter,
			 known);
	else
		snprintf(why, size, "a %% has no letter after it: expected %sor %%%% for a %%",
			 known);
	return -1;
}

int path_pattern_check(const char *pattern, const char *letters, char *why, size_t size)
{
	for (const char *at = strchr(pattern, '%'); at; at = strchr(at + 2, '%'))
		if (at[1] != '%' && (!at[1] || !strchr(letters, at[1])))
			return path_pattern_fault(at, letters, why, size);
	return 0;
}

/* Returns the value of the letter after %, which is written to `text`. */
static const char *path_pattern_value(char letter, const struct path_names *names, char text[256])
{
	switch (letter) {
	case 'h':
		snprintf(text, 256, "%s", names->host);
		for (char *at = text; *at; at++)
			if (*at == '/' || (*at == '.' && at == text))
				*at = '_';
		break;
	case 'r': snprintf(text, 256, "%d", names->rank); break;
	case 'p': snprintf(text, 256, "%ld", names->pid); break;
	case 'j': snprintf(text, 256, "%016llx", (unsigned long long)names->job); break;
	default: snprintf(text, 256, "%c", letter);
	}
	return text;
}

int path_pattern_expand(const char *pattern, const struct path_names *names, char *out,
			size_t out_size, char *why, size_t why_size)
{
	char text[256];
	size_t used = 0;

	if (!out_size) {
		snprintf(why, why_size, "the buffer for the path has no bytes");
		return -1;
	}
	for (const char *at = pattern; *at; at++) {
		const int named = at[0] == '%' && at[1];
		const char *part = named ? path_pattern_value(*++at, names, text) : at;
		const size_t len = named ? strlen(part) : 1;

		if (used + len >= out_size) {
			snprintf(why, why_size,
				 "the path is longer than the %zu characters that fit: name a "
				 "shorter one",
				 out_size - 1);
			return -1;
		}
		memcpy(out + used, part, len);
		used += len;
	}
	out[used] = '\0';
	return 0;
}
