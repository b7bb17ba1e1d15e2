/* SPDX-License-Identifier: BSD-3-Clause */
/* observer.h - checks of an observer: its table, its states, its events, and a job of libcoll beside it. */
#ifndef TOOLS_CHECK_OBSERVER_H
#define TOOLS_CHECK_OBSERVER_H

#include "check/kit/kit.h"

extern const struct check check_observer_table_checks[];
extern const struct check check_observer_event_checks[];

/* The path of the observer of that name in the plugin directories, or NULL. */
const char *check_observer_path(const char *name);
/* Writes the directories of the backends that libcoll finds, separated by ':'. */
void check_observer_find_backends(char *path, size_t size);
/* For check_options.needs: an observer needs nothing. */
void check_observer_needs(struct check_case *c);

#endif
