/* SPDX-License-Identifier: BSD-3-Clause */
/* tool.h - what the subcommands of `coll` share: usage errors, numbers, the clock. */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status of a wrong command line. */
enum { TOOL_USAGE = 2 };

struct tool_command {
	const char *name;
	const char *summary; /* one line for `coll help` */
	const char *help;    /* what `coll <name> --help` prints */
	/* argv[0] is the command's name.  Returns the exit status. */
	int (*main)(int argc, char **argv);
};

/* Prints "coll <command>: <sentence>" and where help is, on stderr; returns TOOL_USAGE. */
__attribute__((format(printf, 2, 3))) int tool_usage(const char *command, const char *fmt, ...);

/* The same for what getopt_long (opterr = 0, short options beginning with ':') answered. */
int tool_bad_option(const char *command, int answer, char **argv, const struct option *known);

/* ", did you mean 'x'?" for the name nearest to word, or "".  names ends with NULL. */
const char *tool_did_you_mean(const char *word, const char *const *names);

/* Each returns 0, or -1 if text is not such a value or lies outside of what is allowed. */
int tool_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* "A-B", or "A" for both, with min <= A <= B <= max. */
int tool_parse_range(const char *text, int64_t min, int64_t max, int64_t *low, int64_t *high);
/* Bytes: a number and, if wanted, K, M or G (powers of 1024). */
int tool_parse_size(const char *text, uint64_t *bytes);
/* Seconds, also with a fraction, as milliseconds. */
int tool_parse_seconds(const char *text, int64_t *ms);

/* CLOCK_MONOTONIC. */
int64_t tool_now_ns(void);
int64_t tool_now_ms(void);

#endif
