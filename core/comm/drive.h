/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drive.h - what a context asks of its lanes: the functions of struct context_client that concern all its lanes, by
 * the same names.  The lock of the context is held.
 */
#ifndef CORE_COMM_DRIVE_H
#define CORE_COMM_DRIVE_H

#include "comm/comm.h"

void drive_check(struct context *context);
int drive_advance(struct context *context);
int drive_look(struct context *context);
void drive_shut(struct context *context);
/* Does an operation wait for something whose progress the transport's descriptor does not signal? */
int drive_awaits(const struct context *context);
int64_t drive_due(const struct context *context);
int drive_busy(const struct context *context);
void drive_rest(struct context *context);

#endif
