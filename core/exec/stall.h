/* SPDX-License-Identifier: BSD-3-Clause */
/* stall.h - operations that wait for ranks from which nothing comes.  The lock is held in all functions. */
#ifndef CORE_EXEC_STALL_H
#define CORE_EXEC_STALL_H

#include "exec/comm.h"

/* Fails the communicator if a running operation needs data from a rank that has left. */
void stall_check_left(struct comm *comm);
/* Fails the communicator because nothing has moved for so long; the text names the ranks that are missing. */
void stall_time_out(struct comm *comm, int64_t timeout_us);
/* The same for a backend without a transport, where no rank learns which other ranks have called. */
void stall_time_out_native(struct comm *comm, int64_t timeout_us);

#endif
