/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.h - the key-value store of a PMIx launcher (prterun, Open MPI's mpirun, srun --mpi=pmix); for
 * core/bootstrap/ only.
 *
 * pmix.c opens the library libpmix.so.2 at run time.  An MPI program may use PMIx too: the library counts its
 * users.
 */
#ifndef CORE_BOOTSTRAP_PMIX_H
#define CORE_BOOTSTRAP_PMIX_H

#include <stddef.h>
#include <stdint.h>

/* The numbers of this process's job; local: on this host, -1: unknown. */
struct pmix_job {
	int nranks, local_rank, local_nranks;
};

/* Did a PMIx launcher start this process?  Its variables say so. */
int pmix_is_launcher(void);
/*
 * Connects to the launcher's daemon on this host, until the process ends with exit().  (Open MPI 4's daemon loses
 * messages of a process that connects a second time: 3 of 12 jobs of three hosts hung.)  COLL_ERR_UNSUPPORTED:
 * there is no library; COLL_ERR_SYSTEM: the daemon does not answer.
 */
int pmix_connect(void);
/* Connects, and asks for the numbers. */
int pmix_read_job(struct pmix_job *job);

/* The functions below are for use after pmix_connect. */

/* Stores a text of this rank. */
int pmix_put(const char *key, const char *text);
/*
 * Waits for all ranks of the job, and brings the texts that they have stored to this host; blocks at most
 * timeout_ms.
 */
int pmix_fence(int64_t timeout_ms);
/* Reads the text that rank 0 stored before the fence; blocks at most timeout_ms. */
int pmix_get(const char *key, char *text, size_t size, int64_t timeout_ms);

#endif
