/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_memory.h - calls on host memory, and others that the backend cannot take, on a communicator of a backend
 * without a transport: its host lane has them (comm/lane.h).
 */
#ifndef CORE_API_HOST_MEMORY_H
#define CORE_API_HOST_MEMORY_H

#include "comm/lane.h"

/* The place of an issued operation: its lane, and its number there. */
struct issued {
	int lane; /* LANE_* */
	uint64_t number;
};

/* The first communicator of an opened context has calls on host memory over context->host_context, if there is one. */
int host_memory_new(struct context *context, struct comm **host_comm);
/* No lock is held, and no other thread knows the lane any more.  Accepts NULL. */
void host_memory_free(struct comm *host_comm);

/*
 * Is the call, whose check has ended with `code`, one for host_comm?  All ranks come to the same answer if their
 * buffers are alike.  COLL_ERR_UNSUPPORTED: the backend lacks the operation.  HOST_MEMORY_STAGES: host_comm copies
 * device memory, so the call has a place among the native ones (lane_order.h).
 */
enum { HOST_MEMORY_NO, HOST_MEMORY_TAKES, HOST_MEMORY_STAGES };
int host_memory_takes(struct comm *comm, const struct call *call, int code);
/*
 * Adds to the text of COLL_ERR_UNSUPPORTED how the library would do a call that is not for host_comm.  may_stage: such a
 * call could be staged; 0: as a part of something it could not.
 */
int host_memory_hint(const struct comm *comm, const struct call *call, int code, int may_stage);
/* Operation `number` of host_comm is the newest one of both, unless a later one of host_comm is noted; comm is entered. */
void host_memory_note(struct comm *comm, uint64_t number);

/* comm is entered: leaves it and enters host_comm, which is then returned, instead; or returns comm, which has none. */
struct comm *host_memory_switch(struct comm *comm);
/* comm, which stays pinned, is entered: leaves it and enters host_comm, which is returned; and back. */
struct comm *host_memory_go(struct comm *comm);
void host_memory_return(struct comm *comm);
/* Waits for operation `number` of host_comm; 0: for all of them.  comm is entered, and is not while the function waits. */
int host_memory_wait(struct comm *comm, uint64_t number);
/*
 * A program that only asks, again and again, is the one that moves calls on host memory, for which a late rank may wait.
 * Moves those under way of all communicators of a native context.  comm: it is entered; NULL: no communicator is.
 */
void host_memory_help(struct context *context, struct comm *comm);
/* Moves host_comm; comm is entered, and learns of its failure. */
void host_memory_progress(struct comm *comm);
/* The newest operation of both. */
struct issued host_memory_newest(const struct comm *comm);

#endif
