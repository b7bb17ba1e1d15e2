/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_memory.h - calls on host memory, and calls that the backend cannot take, on a communicator of a backend
 * without a transport: its host lane has them (comm/lane.h).
 */
#ifndef CORE_API_HOST_MEMORY_H
#define CORE_API_HOST_MEMORY_H

#include "comm/lane.h"
#include "comm/op.h"

/*
 * Does the host lane do the call, whose check has ended with `code`?  All ranks come to the same answer if their
 * buffers are alike.  COLL_ERR_UNSUPPORTED: the backend lacks the operation.  HOST_MEMORY_STAGES: the host lane copies
 * device memory, so the call is in the issue order of both lanes (lane_order.h).
 */
enum { HOST_MEMORY_NO, HOST_MEMORY_TAKES, HOST_MEMORY_STAGES };
int host_memory_takes(struct lane *lane, const struct call *call, int code);
/* Makes the operation of such a call, unless the host lane does the call: then *to_host says how, and *op is NULL. */
static inline int host_memory_make(struct lane *lane, const struct call *call, int code,
				   struct op **op, int *to_host)
{
	*op = NULL;
	*to_host = host_memory_takes(lane, call, code);
	if (code || *to_host)
		return code;
	code = op_make(lane, call, op);
	if (code)
		*to_host = host_memory_takes(lane, call, code);
	return code;
}
/*
 * Adds to the text of COLL_ERR_UNSUPPORTED how the library would do a call that is not for the host lane.  may_stage: 0
 * if the call is part of a group or of a request, where it could not be staged.
 */
int host_memory_hint(const struct lane *lane, const struct call *call, int code, int may_stage);
/* COLL_ERR_UNSUPPORTED: a staged call has no order where the text says. */
int host_memory_refuse(const coll_args_t *args, const char *where);

#endif
