/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path_pattern.h - the paths of files that each rank of a job writes, as an option names them:
 *
 *   %h  the name of the host        %r  the rank in the job
 *   %p  the process id              %j  the number of the job, 16 hexadecimal digits
 *   %%  a percent sign
 *
 * An option takes the letters that its owner knows: the number of the job is not known before the ranks have met.
 */
#ifndef CORE_BASE_PATH_PATTERN_H
#define CORE_BASE_PATH_PATTERN_H

#include <stddef.h>
#include <stdint.h>

struct path_names {
	const char *host; /* a '/' and a '.' at its beginning become '_' */
	int rank;
	long pid;
	uint64_t job; /* 0 where `letters` has no 'j' */
};

/*
 * Checks a pattern that may have these letters after %, such as "hrp"; "%%" is always allowed.  Returns 0, or -1 and in
 * `why` a sentence with the fault and the letters that are expected.
 */
int path_pattern_check(const char *pattern, const char *letters, char *why, size_t size);
/*
 * Writes the path of a pattern that path_pattern_check has passed.  Returns 0, or -1 and in `why` the reason: the path
 * has no room in `out`.
 */
int path_pattern_expand(const char *pattern, const struct path_names *names, char *out,
			size_t out_size, char *why, size_t why_size);

#endif
