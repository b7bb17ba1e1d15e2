/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_store.h - the key-value store of a launcher, through which rank 0 tells the other ranks where it is; for
 * core/bootstrap/ only.
 */
#ifndef CORE_BOOTSTRAP_LAUNCH_STORE_H
#define CORE_BOOTSTRAP_LAUNCH_STORE_H

#include "bootstrap/bootstrap.h"

/* The numbers of this process's job; local: on this host, -1: unknown. */
struct launch_job {
	int nranks, local_rank, local_nranks;
};

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
	/* Connects, and asks for the numbers; NULL: the launcher's variables have them. */
	int (*read_job)(struct launch_job *job);
};

/* prterun, Open MPI's mpirun, srun --mpi=pmix (pmix.c). */
extern const struct launch_store pmix_store;
/* MPICH's mpiexec, and every launcher that speaks version 1 of PMI (pmi.c). */
extern const struct launch_store pmi_store;

/* Opens the rendezvous of a launch that has a store, as bootstrap_open_launch does. */
int launch_store_open(struct bootstrap **bootstrap, const struct launch *launch,
		      const char *interface_name, int64_t timeout_ms);
/* Logs that ranks have not come to the fence. */
void launch_store_stalled(const struct launch_store *store);
/* COLL_ERR_TIMEOUT for a fence whose time is over. */
int launch_store_timed_out(const struct launch_store *store, int64_t timeout_ms);

#endif
