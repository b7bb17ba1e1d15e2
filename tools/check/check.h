/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - the command `coll check`, and the tables of its checks. */
#ifndef TOOLS_CHECK_H
#define TOOLS_CHECK_H

#include "check/kit/kit.h"

struct tool_command;
extern const struct tool_command tool_check;

/* All tables of checks, of a backend and of an observer; the arrays end with NULL. */
extern const struct check *const check_lists[];
extern const struct check *const check_observer_lists[];

#endif
