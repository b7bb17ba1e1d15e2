/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - the launchers: their environment variables, what differs between them, and their key-value stores, through
 * which rank 0 tells the other ranks where it is; for core/meet/ only.
 *
 * The files call each other in one direction: launch.c -> launchers.c -> pmi.c, pmix.c -> launch_env.c
 */
#ifndef CORE_MEET_LAUNCH_H
#define CORE_MEET_LAUNCH_H

#include <stddef.h>

#include "meet/meet.h"

/* ---- launch_env.c ---- */

/*
 * The value of an environment variable without white space before it; NULL if it is unset or white space only, or if
 * name is NULL.
 */
const char *launch_get(const char *name);
/* The number of bytes of a value of launch_get without the white space behind it. */
size_t launch_length(const char *value);
/* The value without white space around it, in `text`; "" if launch_get returns NULL. */
const char *launch_text(const char *name, char *text, size_t size);
/* Are two variables set and equal? */
int launch_same(const char *a, const char *b);

/* Has `coll run` started this process, itself or through another launcher? */
int launch_is_below_run(void);
/* Has the variable the value with which `coll run` left it, or another?  0 and 0 without `coll run`, and for NULL. */
int launch_is_left(const char *name);
int launch_is_newer(const char *name);

/* ---- pmi.c and pmix.c: the key-value store of a launcher ---- */

/*
 * The functions return COLL_SUCCESS or a code with error_text().  Each blocks at most for its timeout; connect, put
 * and read_job ask only the launcher's daemon on this host.
 */
struct launch_store {
	const char *name; /* of the protocol */
	/* Did a launcher that has this store start the process?  The environment says so. */
	int (*is_there)(void);
	/* Must come before put, fence and get; may be called again. */
	int (*connect)(void);
	/* Stores a text. */
	int (*put)(const char *key, const char *text);
	/*
	 * Waits for all ranks of the job, and brings the texts that they have stored to this host.  At the time
	 * stall_at it calls launch_store_stalled(), and waits on.
	 */
	int (*fence)(int64_t timeout_ms, int64_t stall_at);
	/* Reads the text that rank 0 stored before the fence. */
	int (*get)(const char *key, char *text, size_t size, int64_t timeout_ms);
	/* Connects, and asks for all numbers of a launch but the rank; NULL: the launcher's variables have them. */
	int (*read_job)(struct launch *launch);
};

/* prterun, Open MPI's mpirun, srun --mpi=pmix (pmix.c). */
extern const struct launch_store pmix_store;
/* MPICH's mpiexec, and every launcher that speaks version 1 of PMI (pmi.c). */
extern const struct launch_store pmi_store;

/* Logs that ranks have not come to the fence. */
void launch_store_stalled(const struct launch_store *store);
/* COLL_ERR_TIMEOUT for a fence whose time is over. */
int launch_store_timed_out(const struct launch_store *store, int64_t timeout_ms);

/* ---- launchers.c ---- */

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
 * is `coll run`, which records how it left the variables of all launchers.
 */
extern const struct launcher launchers[];
extern const int launchers_count;

/* Finds where the ranks meet, by `meet` or by the identity of the job. */
int launcher_meet(const struct launcher *launcher, struct launch *launch);

#endif
