/* SPDX-License-Identifier: BSD-3-Clause */
/* overlap.h - finds operations of one group that would write to each other's buffers: option check_buffers. */
#ifndef CORE_API_OVERLAP_H
#define CORE_API_OVERLAP_H

#include "comm/call.h"

struct lane;

/*
 * Compares the buffers of an operation that joins the open group with the buffers of the operations before it.
 * COLL_ERR_INVALID_USAGE: they overlap, and one of the two operations writes there.  COLL_SUCCESS: later operations of
 * the group are compared with this one too, so nothing but this may refuse it any more.
 */
int overlap_check(const struct lane *lane, const struct call *call);
/* The group has ended. */
void overlap_forget(void);

#endif
