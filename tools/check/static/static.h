/* SPDX-License-Identifier: BSD-3-Clause */
/* static.h - checks of a plugin's file, table and options, before it opens an endpoint. */
#ifndef TOOLS_CHECK_STATIC_H
#define TOOLS_CHECK_STATIC_H

#include "check/kit/kit.h"

extern const struct check check_file_checks[]; /* exported and needed symbols of the file */
extern const struct check check_observer_file_checks[]; /* the same of an observer */
extern const struct check check_table_checks[];         /* coll_backend_v1 and its groups */
extern const struct check check_options_checks[];       /* the options that the plugin declares */
extern const struct check check_probe_checks[];         /* probe and info */

#endif
