/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h - the commands that look at running jobs: `coll top`, `coll dump` and `coll metrics`. */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include "lib/tool.h"

extern const struct tool_command tool_dump, tool_metrics, tool_top;

#endif
