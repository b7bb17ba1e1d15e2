/* SPDX-License-Identifier: BSD-3-Clause */
/* expand.h - paths with %h, %r, %p and %j, so that each rank writes a file of its own. */
#ifndef CORE_OBSERVE_EXPAND_H
#define CORE_OBSERVE_EXPAND_H

#include <coll/backend.h>

#include <stddef.h>

/* What the letters stand for. */
struct expand_names {
	const char *host; /* %h; its '/' become '_' */
	int rank;         /* %r */
	uint64_t job;     /* %j, 16 hexadecimal digits; %p is the process id, %% is '%' */
};

/* Writes the path to out.  Returns COLL_ERR_INVALID_ARGUMENT with a sentence: another letter follows a '%', or it does not fit. */
int expand_pattern(const char *pattern, const struct expand_names *names, char *out, size_t size,
		   coll_error_t *err);

#endif
