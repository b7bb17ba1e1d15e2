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

#include "bootstrap/launch_store.h"

/* The numbers of this process's job; local: on this host, -1: unknown. */
struct pmix_job {
	int nranks, local_rank, local_nranks;
};

/* Did a PMIx launcher start this process?  Its variables say so. */
int pmix_is_launcher(void);
/* Connects as pmix_store does, and asks for the numbers. */
int pmix_read_job(struct pmix_job *job);

#endif
