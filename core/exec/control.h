/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - what a rank does with the control messages of the others, and with the loss of one.  comm.h has the
 * functions that send them.
 */
#ifndef CORE_EXEC_CONTROL_H
#define CORE_EXEC_CONTROL_H

#include "comm/comm.h"

/*
 * Takes from comm->shrunk.behind the answer for this hash, and drops the answers before it, of calls that this rank has
 * not made: 1.  0: there is none.
 */
int comm_shrunk_before(struct comm *comm, uint64_t hash, struct shrunk *answer);

/* See comm_check (comm/comm.h). */
void control_check(struct comm *comm);

/* See struct comm_client. */
void control_listen(struct comm *comm);

/* See struct context_client and struct traffic_client: client.c. */
extern const struct context_client comm_context_client;
extern const struct traffic_client comm_traffic_client;

#endif
