/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h - the check of an operation's arguments. */
#ifndef CORE_API_CHECK_H
#define CORE_API_CHECK_H

#include "comm/comm.h"

/*
 * Checks the arguments, whose kind is valid, against the communicator and begins *call.  An error's message names the
 * argument.  Of a call that is like an earlier call (plan_alike) it checks only stream, buffers and count.
 */
int check_call(const struct lane *lane, const coll_args_t *args, struct call *call);

#endif
