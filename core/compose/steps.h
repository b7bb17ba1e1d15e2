/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h - runs the steps of schedules without blocking, for the composed engine (composed.h). */
#ifndef CORE_COMPOSE_STEPS_H
#define CORE_COMPOSE_STEPS_H

#include "comm/op.h"
#include "comm/run.h"
#include "transport/traffic.h"

/* The context's lock is held in all of these. */

/* Allocates the arrays for an operation's schedule, and sets op->scratch_bytes. */
int steps_reserve(struct op *op);
/* Fills in the messages and receives of an operation whose arrays exist, as far as its plan lacks them. */
void steps_prepare(struct op *op);
/* Starts the first steps of a running operation, whose messages are filled in. */
void steps_start(struct op *op);
/* Can a step of a running operation start or end without a message that is still to come, or to be taken? */
static inline int steps_may_move_alone(const struct op *op)
{
	return (op->ready_count | op->local_count | op->ready_sends_count | op->sending_count) ||
	       op->call.staged;
}
/* Has a running send handed its message to the transport, or the message that announces its pieces? */
static inline int steps_has_sent(const struct op *op)
{
	return op->pieces_tag || op->sending_count || !op->steps_left;
}
/* A step is complete: makes ready the steps that waited for it alone. */
void steps_complete(struct op *op, int step);
/* Runs the steps that can run.  Returns 1 if any moved. */
int steps_run(struct op *op);
/* A posted receive of an operation has completed. */
void steps_received(struct recv *recv);
/* Copies bytes to the device memory of a receive: see struct traffic_client. */
int steps_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
/*
 * A message to or from a rank has failed, and so does the communicator.  Usually the transport has reported the
 * cause.
 */
void steps_peer_failed(struct lane *lane, int rank, int code);
/* Ends a running operation, a receive or a send: nothing touches its buffers afterwards. */
void steps_cancel_op(struct op *op);
void steps_cancel_recv(struct context *context, struct recv *recv);
void steps_cancel_send(struct context *context, coll_send_t *send);

#endif
