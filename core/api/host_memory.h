/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_memory.h - calls on host memory, and others that the backend cannot take, on a communicator of a backend
 * without a transport: its host lane has them (comm/lane.h).
 */
#ifndef CORE_API_HOST_MEMORY_H
#define CORE_API_HOST_MEMORY_H

#include "comm/lane.h"

/* Makes the host lane for the first communicator of an opened native context; *host NULL: it has no host_context. */
int host_memory_new(struct context *native, struct comm **host);
/* No lock is held, and no other thread knows the lane any more.  Accepts NULL. */
void host_memory_free(struct comm *host);

/*
 * Is the call, whose check has ended with `code`, one for the host lane?  All ranks come to the same answer if their
 * buffers are alike.  COLL_ERR_UNSUPPORTED: the backend lacks the operation.  HOST_MEMORY_STAGES: the host lane copies
 * device memory, so the call has a place in both lanes (lane_order.h).
 */
enum { HOST_MEMORY_NO, HOST_MEMORY_TAKES, HOST_MEMORY_STAGES };
int host_memory_takes(struct comm *comm, const struct call *call, int code);
/*
 * Adds to the text of COLL_ERR_UNSUPPORTED how the library would do a call that is not for the host lane.  may_stage: such a
 * call could be staged; 0: as a part of something it could not.
 */
int host_memory_hint(const struct comm *comm, const struct call *call, int code, int may_stage);
/* COLL_ERR_UNSUPPORTED: a staged call has no order where the text says. */
int host_memory_refuse(const coll_args_t *args, const char *where);
/*
 * A program that only asks, again and again, is the one that moves calls on host memory, for which a late rank may wait.
 * Moves those under way of all communicators of a native context.  comm: it is entered; NULL: no communicator is.
 */
void host_memory_help(struct context *context, struct comm *comm);
/* Moves the host lane, if there is one; comm is entered, and learns of its failure. */
void host_memory_progress(struct comm *comm);

#endif
