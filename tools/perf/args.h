/* SPDX-License-Identifier: BSD-3-Clause */
/* args.h - the command line of `coll perf`. */
#ifndef TOOLS_PERF_ARGS_H
#define TOOLS_PERF_ARGS_H

#include "perf/perf.h"

enum { PERF_ARGS_GO = -1 };

extern const char perf_help[];

/*
 * Returns PERF_ARGS_GO, or the exit status after printing help or an error.  The caller must always
 * free options->size.
 */
int perf_args(struct perf_options *options, int argc, char **argv);

#endif
