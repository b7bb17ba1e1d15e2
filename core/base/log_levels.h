/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_levels.h - which lines are logged, as the option `log` says it: "warn", or "info,watch:debug,tcp:trace", a level for
 * all lines and levels of subsystems.
 */
#ifndef CORE_BASE_LOG_LEVELS_H
#define CORE_BASE_LOG_LEVELS_H

#include <stddef.h>

enum { LOG_NAME_SIZE = 32, LOG_NAMES_MOST = 32 };

struct log_levels {
	int level; /* COLL_LOG_*, of lines whose subsystem `of` does not name */
	int count;
	struct {
		char name[LOG_NAME_SIZE];
		int level;
	} of[LOG_NAMES_MOST];
};

/*
 * Reads the text of the option.  Returns 0, or -1 and in `why` a sentence with the fault and the expected form.  A subsystem
 * need not exist: any name of the right form passes.
 */
int log_levels_parse(const char *text, struct log_levels *levels, char *why, size_t size);
/* The level of a subsystem's lines; NULL: the level of lines without a subsystem. */
int log_levels_of(const struct log_levels *levels, const char *subsystem);
/* The highest level that any line may have. */
int log_levels_most(const struct log_levels *levels);

/* "error" to "trace" for COLL_LOG_*. */
const char *log_level_name(int level);

/* The folders of core/ that log, in alphabetical order; the last one is NULL.  tests/source/layers.t compares the list. */
extern const char *const log_subsystems[];

#endif
