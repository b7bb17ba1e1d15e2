/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.h - what the observer audit (tests/plugins/observers) has written of a job. */
#ifndef TESTS_OBSERVE_AUDIT_H
#define TESTS_OBSERVE_AUDIT_H

#include "../lib/plugin_dir.h"
#include "../lib/ranks.h"

/* The files of the observers go to the test's own directory; names: the option `observers`. */
void audit_begin(const char *names);
/* The count in the file of a rank that the observer has written last, or -1: there is no such file. */
long audit_count(const char *observer, int rank, const char *name);
/* Makes one check: no rank of the job saw a fault, and each rank's observer was closed once.  Then removes the files. */
void audit_ok(const char *observer, int nranks, const char *what);
void audit_forget(int nranks);

#endif
