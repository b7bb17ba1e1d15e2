/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmi.h - the key-value store of a launcher that speaks version 1 of PMI (MPICH's mpiexec); for core/bootstrap/
 * only.
 */
#ifndef CORE_BOOTSTRAP_PMI_H
#define CORE_BOOTSTRAP_PMI_H

#include "bootstrap/launch_store.h"

/* Has this process a connection to such a launcher?  PMI_FD names its descriptor. */
int pmi_is_launcher(void);

#endif
