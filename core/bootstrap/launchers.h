/* SPDX-License-Identifier: BSD-3-Clause */
/* launchers.h - the table of the launchers: what differs between them; for core/bootstrap/ only. */
#ifndef CORE_BOOTSTRAP_LAUNCHERS_H
#define CORE_BOOTSTRAP_LAUNCHERS_H

#include "bootstrap/bootstrap.h"

struct launcher {
	const char *who;
	const char *rank, *size, *size_too; /* variables; size_too replaces an unset size */
	const char *local_rank, *local_size;
	const char *only_if, *only_if_too; /* at least one must be set, unless both are NULL */
	const char *job;                   /* identifies the job; NULL: no variable does */
	const char *label;                 /* stands before the identity of the job */
	/* This launcher has started another one further down in the table, which started the process. */
	int (*passed_over)(void);
	/* Asks the launcher for the numbers that no variable holds: all but the rank. */
	int (*ask)(struct launch *launch);
	/* The number of ranks on this host, where no variable holds it; -1: unknown. */
	int (*count_local)(const struct launch *launch);
	/*
	 * Finds where the ranks meet: fills launch->root and launch->key, or launch->store, or returns an error that asks
	 * for COLL_ROOT.  NULL: the identity of the job is all that the launcher tells.
	 */
	int (*meet)(struct launch *launch);
};

/*
 * The first launcher that applies counts.  A launcher further down may have started it.  The first launcher of the table
 * is `coll run`, which records how it left the variables of the others.
 */
extern const struct launcher launchers[];
extern const int launchers_count;

/* Finds where the ranks meet, by `meet` or by the identity of the job. */
int launcher_meet(const struct launcher *launcher, struct launch *launch);

#endif
