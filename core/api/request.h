/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h - a request: a position in a communicator's queue, and a persistent request's operation; or a
 * message outside that order.
 */
#ifndef CORE_API_REQUEST_H
#define CORE_API_REQUEST_H

#include "comm/comm.h"

struct message;
struct op;

struct request {
	coll_comm_t comm;
	int lane;        /* of the communicator: LANE_* */
	uint64_t number; /* the operation; 0: not started */
	struct op *op;   /* persistent: the communicator owns it and frees it */
	int starting; /* persistent: a thread is in coll_request_start, which may have released the lock */
	struct message *message; /* outside the order: a reference; else NULL */
	struct split *split;     /* coll_comm_isplit: a reference; else NULL */
};

/* Makes a request with its handle.  On an error *made is NULL. */
int request_new(coll_request_t *request, const struct request *like, struct request **made);

/*
 * Pins the request and enters its communicator.  NULL with an error if one of them is not valid; `what` names
 * the public function.
 */
struct request *request_enter(coll_request_t handle, const char *what, struct comm **comm);
void request_leave(coll_request_t handle, struct comm *comm);

/* Is it complete?  A failure of its communicator does not count. */
int request_is_over(const struct request *request, const struct comm *comm);
/* The result of a request that is over. */
int request_result(const struct request *request);
/* Does it wait for the end of a group that the calling thread has open, or for the group of a split that blocks? */
int request_is_deferred(const struct request *request, const struct comm *comm);

#endif
