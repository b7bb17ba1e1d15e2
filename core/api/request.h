/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h - a request: the handle of a task (comm/task.h), to which it holds a reference. */
#ifndef CORE_API_REQUEST_H
#define CORE_API_REQUEST_H

#include "comm/task.h"

/* Makes the request, which takes the caller's reference.  On an error it takes none, and *request is NULL. */
int request_new(coll_request_t *request, struct task *task);
/* Takes back a request that the program has not seen yet, and sets it to NULL. */
void request_drop(coll_request_t *request);

/*
 * Pins the request and enters its communicator.  Returns NULL with an error if either is not valid; `what` names the
 * public function.
 */
struct task *request_enter(coll_request_t request, const char *what);
void request_leave(coll_request_t request, struct task *task);

#endif
