/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - what the parts of `coll info` share. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <coll/coll.h>

struct tool_command;
extern const struct tool_command tool_info;

/* Escape sequences, or "" where colour is not wanted. */
struct info_style {
	const char *bold, *good, *bad, *end;
};
const struct info_style *info_choose_style(void);

/* Prints text from plugins and files: nothing in it may steer the terminal. */
void info_put(const char *text);

/*
 * `coll info --algorithms`: the rules, with what they come to on so many ranks and nodes if nranks
 * is not 0, and the algorithms.  Returns the exit status.
 */
int info_algorithms(coll_info_t info, int32_t nranks, int32_t nnodes, int as_json);

#endif
