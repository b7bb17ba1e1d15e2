/* SPDX-License-Identifier: BSD-3-Clause */
/* tool.h - functions that the subcommands of `coll` share: usage errors, numbers, the clock. */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status after a wrong command line. */
enum { TOOL_USAGE = 2 };

struct tool_command {
	const char *name;
	const char *summary; /* one line for `coll help` */
	const char *help;    /* the text of `coll <name> --help` */
	/* argv[0] is the command's name.  Returns the exit status. */
	int (*main)(int argc, char **argv);
};

/* Prints "coll <command>: <message>" and a pointer to --help on stderr.  Returns TOOL_USAGE. */
__attribute__((format(printf, 2, 3))) int tool_usage(const char *command, const char *fmt, ...);

/* Reports so an error that getopt_long returned (opterr = 0, short options beginning with ':'). */
int tool_bad_option(const char *command, int answer, char **argv, const struct option *known);

/* Returns ", did you mean 'x'?" with the name nearest to word, or "".  names ends with NULL. */
const char *tool_did_you_mean(const char *word, const char *const *names);
/* Returns the same, or "; expected one of a, b, c" if no name is near to the word. */
const char *tool_expected(const char *word, const char *const *names);

/* Each parser returns 0, or -1 if the text has a wrong form or its value is out of range. */
int tool_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* Parses "A-B", or "A" for both, with min <= A <= B <= max. */
int tool_parse_range(const char *text, int64_t min, int64_t max, int64_t *low, int64_t *high);
/* Parses a number of bytes: a number with an optional K, M or G (powers of 1024). */
int tool_parse_size(const char *text, uint64_t *bytes);
/* Parses seconds, also with a fraction, into milliseconds. */
int tool_parse_seconds(const char *text, int64_t *ms);

/*
 * Makes coll_info_create() open and probe each plugin in a child process from now on, so that the library of a vendor may
 * crash or hang there.
 */
void tool_probe_apart(void);

/* Returns CLOCK_MONOTONIC. */
int64_t tool_now_ns(void);
int64_t tool_now_ms(void);

#endif
