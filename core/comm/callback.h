/* SPDX-License-Identifier: BSD-3-Clause */
/* callback.h - functions of the program that are called when an operation is complete. */
#ifndef CORE_COMM_CALLBACK_H
#define CORE_COMM_CALLBACK_H

#include "comm/comm.h"

/* The lock is held in all of these. */

struct callback;

/* Memory for callback_insert, so that this cannot fail; free() frees it. */
struct callback *callback_new(coll_request_fn fn, void *user);
/* As callback_add, and takes the memory; `user` replaces that of callback_new. */
void callback_insert(struct comm *comm, uint64_t number, struct callback *callback, void *user);
/* Calls fn once operation `number` is complete or the communicator has failed; not before the function returns. */
int callback_add(struct comm *comm, uint64_t number, coll_request_fn fn, void *user);
void callback_call(struct comm *comm);
/* The same for a list of the caller's, whose functions it calls in the order of the additions and frees. */
int callback_append(struct callback **list, coll_request_fn fn, void *user);
void callback_end(struct callback **list, coll_result_t result);
void callback_free(struct comm *comm);

/* Operations are complete, or the communicator has failed: calls the functions that waited for this. */
static inline void callback_check(struct comm *comm)
{
	if (comm->callbacks)
		callback_call(comm);
}

#endif
