/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - declarations that the parts of `coll info` share. */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <coll/coll.h>

struct tool_command;
extern const struct tool_command tool_info;

/* Terminal escape sequences, or "" if the output has no colour. */
struct info_style {
	const char *bold, *good, *bad, *end;
};
const struct info_style *info_choose_style(void);

/*
 * Prints text from plugins and files, with control characters replaced, so that the text cannot
 * steer the terminal.
 */
void info_put(const char *text);
/*
 * Each prints text as info_put does.  If the text is too long for its line, it goes on in the next line, indented.  A
 * sentence is folded on a terminal only, so that other programs find it whole; a value everywhere.
 */
void info_put_sentence(const char *text, int indent);
void info_put_value(const char *text, int indent);

/*
 * `coll info --algorithms`: prints the rules and the algorithms.  If nranks is not 0, each rule also says whether a call on
 * that many ranks and nodes can match it.  Returns the exit status.
 */
int info_algorithms(coll_info_t info, int32_t nranks, int32_t nnodes, int as_json);

#endif
