/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged_order.h - calls on device memory that a native communicator leaves to its host_comm (comm/pair.h), which
 * stages the memory: the backend lacks the operation.  They belong to both sequences.  Such a call begins when the
 * backend's earlier operations, on all streams, are complete, and the later ones begin when it is complete; its stream of
 * the program waits in the same way.
 *
 * Over a backend with streams, host_comm orders the call with a stream of the library's own (compose/stream_order.h), the
 * gate: the gate waits for the other streams before the call, and they wait for it after the call.  The gate takes a
 * place among the backend's operations both times.  So the order needs no thread of the program.  Over another backend
 * the queue of each communicator waits for the queue of the other communicator (compose/await.c).
 */
#ifndef CORE_API_STAGED_ORDER_H
#define CORE_API_STAGED_ORDER_H

#include "comm/comm.h"

/* The native communicator is entered in all of these. */

/* Before the call is issued on host_comm: *args are those of the program, and become those for host_comm. */
int staged_order_begin(struct comm *comm, coll_args_t *args);
/* The call has become operation `number` of host_comm; args are those of the program. */
int staged_order_end(struct comm *comm, const coll_args_t *args, uint64_t number);
/* COLL_ERR_UNSUPPORTED: such a call has no order where the text says. */
int staged_order_refuse(const coll_args_t *args, const char *where);
/* lanes->staged_number is not 0: waits for that call. */
int staged_order_wait(struct comm *comm);

#endif
