/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the one engine that runs schedules without blocking. */
#ifndef CORE_EXEC_ENGINE_H
#define CORE_EXEC_ENGINE_H

#include "exec/op.h"

/* The context's lock is held in all of these. */

/* Allocates the arrays and the scratch memory for an operation's schedule. */
int engine_reserve(struct op *op);
/* Makes the first steps of an operation ready. */
void engine_begin(struct op *op);
/* A step is complete: makes ready the steps that waited for it alone. */
void engine_complete(struct op *op, int step);
/* Runs the steps that can run: 1 if any moved. */
int engine_run(struct op *op);
/* A posted receive of an operation has completed (struct context_client). */
void engine_received(struct recv *recv);
/* Copies bytes to the device memory of a receive (struct context_client). */
int engine_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
/* Ends an operation: nothing touches its buffers afterwards. */
void engine_cancel_op(struct op *op);

#endif
