/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - the arguments of operations.  An error names the argument in a sentence. */
#ifndef CORE_API_CHECK_H
#define CORE_API_CHECK_H

#include <coll/backend.h>

struct comm;

/* Checks all arguments of an operation against the communicator. */
int check_args(const struct comm *comm, const coll_args_t *args);
/* Checks stream, buffers and count alone: kind, types and root are right, and there are no arrays. */
int check_call(const struct comm *comm, const coll_args_t *args);

#endif
