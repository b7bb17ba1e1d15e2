/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_local.c - coll_reduce_local: a reduction of two arrays of this process. */
#include "device/device.h"
#include "comm/comm.h"
#include "base/error.h"
#include "reduce/redop.h"

#include <stdint.h>

static const char local_name[] = "coll_reduce_local";

/* Copies the operation of that number to *redop; a communicator is needed only for made operations. */
static int local_find(coll_comm_t handle, int dtype, int op, struct redop *redop)
{
	struct lane *lane;
	int code;

	if (!handle)
		return redop_find(NULL, local_name, dtype, op, redop);
	lane = comm_enter(handle, local_name);
	if (!lane)
		return error_code();
	code = redop_find(lane->comm->redops, local_name, dtype, op, redop);
	comm_leave(lane);
	return code;
}

static int local_check_op(const struct redop *redop)
{
	if (redop->premul_sum)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: the operation scales the input of each rank, and a local "
				 "reduction has no ranks: use COLL_PROD, then COLL_SUM",
				 local_name);
	if (!redop->fn && redop->op == COLL_AVG)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: COLL_AVG divides by the number of ranks, and a local "
				 "reduction has no ranks: use COLL_SUM, then divide",
				 local_name);
	return COLL_SUCCESS;
}

static int local_check_memory(const char *name, const void *buf)
{
	char where[64];
	uint32_t kind;
	int device;

	if (!device_open())
		return COLL_SUCCESS;
	kind = device_kind(buf, &device);
	if (!kind)
		return COLL_ERR_DEVICE;
	if (kind & (COLL_MEM_HOST | COLL_MEM_CUDA_MANAGED))
		return COLL_SUCCESS;
	device_describe(kind, device, where, sizeof(where));
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: %s is %s, and the processor reduces: copy it to host memory first",
			 local_name, name, where);
}

static int local_check_buffers(const void *inbuf, const void *inoutbuf, size_t count, size_t elem)
{
	uintptr_t in = (uintptr_t)inbuf, inout = (uintptr_t)inoutbuf;
	int code;

	if (!inbuf || !inoutbuf)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s is NULL, count is %zu",
				 local_name, inbuf ? "inoutbuf" : "inbuf", count);
	if (count > PTRDIFF_MAX / elem)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: %zu elements do not fit into memory", local_name, count);
	if (in != inout && in < inout + count * elem && inout < in + count * elem)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: inbuf and inoutbuf overlap: they must be equal or disjoint",
				 local_name);
	code = local_check_memory("inbuf", inbuf);
	return code ? code : local_check_memory("inoutbuf", inoutbuf);
}

coll_result_t coll_reduce_local(const void *inbuf, void *inoutbuf, size_t count, coll_dtype_t dtype,
				coll_op_t op, coll_comm_t comm)
{
	struct redop redop;
	int code;

	if (!coll_dtype_size(dtype))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %d is not a data type", local_name,
				 (int)dtype);
	if (!comm && op >= REDOP_FIRST && op < REDOP_EVERYWHERE)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: op %d was made on a communicator: pass that communicator, "
				 "not NULL",
				 local_name, (int)op);
	code = local_find(comm, dtype, op, &redop);
	if (!code)
		code = local_check_op(&redop);
	if (!code && count)
		code = local_check_buffers(inbuf, inoutbuf, count, coll_dtype_size(dtype));
	if (!code && count)
		redop_apply(&redop, inoutbuf, inbuf, inoutbuf, count);
	return code;
}
