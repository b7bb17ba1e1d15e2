/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_own.c - objects that a user makes for a communicator: reductions, registered buffers; and
 * memory.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "nccl_parts.h"

enum {
	OWN_DEVICE = 0,
	OWN_HOST = 1,
	OWN_TYPES = 12,
	OWN_FIRST = 0x5eed00
}; /* ncclScalarResidence_t */

/* ---------------------------------------------------------------------- reductions -- */

static int redop_new(nccl_comm_t comm, int *op, const void *scalar, int dtype, int residence)
{
	struct user_op *user;

	if (!op || !scalar || dtype < 0 || dtype >= OWN_TYPES)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "ncclRedOpCreatePreMulSum : invalid argument");
	user = calloc(1, sizeof(*user));
	if (!user)
		return NCCL_SYSTEM_ERROR;
	/* Scattered numbers, as NCCL's are, so that a handle cannot be taken for another object. */
	user->id = OWN_FIRST + comm->user_op_next++;
	user->dtype = dtype;
	user->redop.op = OP_PREMUL;
	user->redop.on_device = residence != OWN_HOST;
	user->redop.pointer = scalar;
	if (residence == OWN_HOST)
		memcpy(user->redop.bits, scalar, reduce_size(dtype));
	user->next = comm->user_ops;
	comm->user_ops = user;
	*op = user->id;
	return NCCL_SUCCESS;
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int dtype, int residence, nccl_comm_t comm)
{
	int code = call_count("ncclRedOpCreatePreMulSum");

	if (!code)
		code = comm_enter(comm, "ncclRedOpCreatePreMulSum");
	if (code)
		return code;
	code = comm_ready(comm, "ncclRedOpCreatePreMulSum");
	if (!code)
		code = redop_new(comm, op, scalar, dtype, residence);
	comm_leave(comm);
	return code;
}

static int redop_free(nccl_comm_t comm, int op)
{
	struct user_op **at = &comm->user_ops, *user;

	while (*at && (*at)->id != op)
		at = &(*at)->next;
	user = *at;
	if (!user)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "ncclRedOpDestroy : operator unknown to this communicator.");
	*at = user->next;
	free(user);
	return NCCL_SUCCESS;
}

int ncclRedOpDestroy(int op, nccl_comm_t comm)
{
	int code = call_count("ncclRedOpDestroy");

	if (code)
		return code;
	if (op >= 0 && op < NCCL_NUM_OPS)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "ncclRedOpDestroy : operator is a NCCL builtin.");
	code = comm_enter(comm, "ncclRedOpDestroy");
	if (code)
		return code;
	code = redop_free(comm, op);
	comm_leave(comm);
	return code;
}

#ifndef STANDIN_NCCL_OLD

/* ------------------------------------------------------------------------- buffers -- */

static int registration_new(nccl_comm_t comm, void *buf, size_t size, void **handle)
{
	struct registration *at = comm->registrations;

	while (at && !((char *)buf >= (char *)at->buf &&
		       (char *)buf + size <= (char *)at->buf + at->size))
		at = at->next;
	if (!at) {
		at = calloc(1, sizeof(*at));
		if (!at)
			return NCCL_SYSTEM_ERROR;
		at->buf = buf;
		at->size = size;
		at->next = comm->registrations;
		comm->registrations = at;
	}
	at->refs++;
	*handle = at;
	return NCCL_SUCCESS;
}

int ncclCommRegister(nccl_comm_t comm, void *buf, size_t size, void **handle)
{
	int code = call_count("ncclCommRegister");

	if (!code)
		code = comm_enter(comm, "ncclCommRegister");
	if (code)
		return code;
	code = handle ? registration_new(comm, buf, size, handle) : NCCL_INVALID_ARGUMENT;
	comm_leave(comm);
	return code;
}

static int registration_free(nccl_comm_t comm, const void *handle)
{
	struct registration **at = &comm->registrations, *found;

	if (!handle)
		return NCCL_SUCCESS;
	while (*at && *at != handle)
		at = &(*at)->next;
	found = *at;
	if (!found)
		return call_fail(NCCL_INVALID_USAGE, "Deregister: Could not find handle");
	if (--found->refs)
		return NCCL_SUCCESS;
	*at = found->next;
	free(found);
	return NCCL_SUCCESS;
}

int ncclCommDeregister(nccl_comm_t comm, void *handle)
{
	int code = call_count("ncclCommDeregister");

	if (!code)
		code = comm_enter(comm, "ncclCommDeregister");
	if (code)
		return code;
	code = registration_free(comm, handle);
	comm_leave(comm);
	return code;
}

/* -------------------------------------------------------------------------- memory -- */

int ncclMemAlloc(void **ptr, size_t size)
{
	int code = call_count("ncclMemAlloc");
	CUdeviceptr at;

	if (code)
		return code;
	if (!ptr || !size)
		return call_fail(NCCL_INVALID_ARGUMENT, "ncclMemAlloc : invalid argument");
	code = cuMemAlloc_v2(&at, size);
	if (code)
		return call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code);
	*ptr = (void *)(uintptr_t)at;
	return NCCL_SUCCESS;
}

int ncclMemFree(void *ptr)
{
	int code = call_count("ncclMemFree");

	if (!code && ptr && cuMemFree_v2((uintptr_t)ptr))
		code = call_fail(NCCL_UNHANDLED_CUDA_ERROR, "cannot free %p", ptr);
	return code;
}

#endif
