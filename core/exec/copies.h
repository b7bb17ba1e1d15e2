/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies.h - the copies in flight on the copy streams of a context.  Operations and messages share the streams; the owner
 * of a copy learns of its end by the copy's function `ended`.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_EXEC_COPIES_H
#define CORE_EXEC_COPIES_H

#include "exec/comm.h"

/* Takes the copies that have ended off their streams: 1 if there were any. */
int copies_reap(struct context *context);
/*
 * Waits until no copy of the owner is in flight.  After a second the copies in flight on its stream are lost: `ended` gets
 * COPY_LOST.
 */
void copies_await(struct comm *comm, const void *owner);

#endif
