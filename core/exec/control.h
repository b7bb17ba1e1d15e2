/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - what a rank does with the control messages of the other ranks, and with the loss of a rank.  comm.h has
 * the functions that send control messages.
 */
#ifndef CORE_EXEC_CONTROL_H
#define CORE_EXEC_CONTROL_H

#include "comm/comm.h"

/* See lane_check (comm/comm.h). */
void control_check(struct lane *lane);

/* See struct comm_client. */
void control_listen(struct lane *lane);

/* See struct comm_client: parts.c. */
extern const struct comm_client comm_parts_client;
/* See struct context_client and struct traffic_client: client.c. */
extern const struct context_client comm_context_client;
extern const struct traffic_client comm_traffic_client;

#endif
