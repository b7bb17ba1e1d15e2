/* SPDX-License-Identifier: BSD-3-Clause */
/* expand.c - paths with %h, %r, %p and %j: see expand.h. */
#include "observe/expand.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Writes what the letter after a '%' stands for.  Returns 0: it stands for nothing. */
static int expand_letter(char letter, const struct expand_names *names, char text[80])
{
	switch (letter) {
	case 'h':
		snprintf(text, 80, "%.64s", names->host);
		for (char *slash = text; (slash = strchr(slash, '/')) != NULL;)
			*slash = '_';
		return 1;
	case 'r': snprintf(text, 80, "%d", names->rank); return 1;
	case 'p': snprintf(text, 80, "%ld", (long)getpid()); return 1;
	case 'j': snprintf(text, 80, "%016" PRIx64, names->job); return 1;
	case '%': snprintf(text, 80, "%%"); return 1;
	default: return 0;
	}
}

int expand_pattern(const char *pattern, const struct expand_names *names, char *out, size_t size,
		   coll_error_t *err)
{
	char text[80];
	size_t used = 0, n;

	for (const char *at = pattern; *at; at++) {
		snprintf(text, sizeof(text), "%c", *at);
		if (*at == '%' && !expand_letter(*++at, names, text))
			return error_fill(err, COLL_ERR_INVALID_ARGUMENT,
					  "the path '%.300s' has %%%.1s, but after %% there must "
					  "be h (host), r (rank), p (process id), j (job) or %%",
					  pattern, at);
		n = strlen(text);
		if (used + n >= size)
			return error_fill(
				err, COLL_ERR_INVALID_ARGUMENT,
				"the path '%.300s' stands for more than %zu bytes: name a "
				"shorter path",
				pattern, size - 1);
		memcpy(out + used, text, n);
		used += n;
	}
	if (size)
		out[used] = '\0';
	return COLL_SUCCESS;
}
