/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_ops.c - the entry functions of the operations: they check their arguments as NCCL does, and
 * add the operation to the open group, or to a group of its own.
 */
#include <stdlib.h>

#include "cuda.h"
#include "nccl_parts.h"

enum { OPS_FP8_FIRST = 10, OPS_TYPES = 12 };

/* An operation as its entry function received it. */
struct request {
	const char *fn;
	nccl_comm_t comm;
	int redop; /* ncclRedOp_t */
	struct op op;
};

static int ops_pointer(const void *ptr, const struct nccl_comm *comm, const char *fn)
{
	int device = -1, kind = 0, managed = 0;
	CUdeviceptr at = (uintptr_t)ptr;
	int code = cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);

	if (code)
		return call_fail(NCCL_INVALID_ARGUMENT, "%s : %p is not a valid pointer", fn, ptr);
	(void)cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
	(void)cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
	if (kind == CU_MEMORYTYPE_DEVICE && !managed && device != comm->device)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "%s : %p allocated on device %d mismatchs with NCCL device %d", fn,
				 ptr, device, comm->device);
	return NCCL_SUCCESS;
}

static int ops_pointers(const struct request *request)
{
	const struct op *op = &request->op;
	int at_root = request->comm->rank == op->root, code = NCCL_SUCCESS;

	if (!call_env("NCCL_CHECK_POINTERS", 0))
		return NCCL_SUCCESS;
	if (op->kind == KIND_SEND && op->count)
		return ops_pointer(op->send, request->comm, request->fn);
	if (op->kind == KIND_RECV && op->count)
		return ops_pointer(op->recv, request->comm, request->fn);
	if (op->kind == KIND_SEND || op->kind == KIND_RECV)
		return NCCL_SUCCESS;
	if (op->kind != KIND_BROADCAST || at_root)
		code = ops_pointer(op->send, request->comm, request->fn);
	if (!code && (op->kind != KIND_REDUCE || at_root))
		code = ops_pointer(op->recv, request->comm, request->fn);
	return code;
}

static int ops_redop(struct request *request)
{
	const struct user_op *user = request->comm->user_ops;

	if (request->redop >= 0 && request->redop < NCCL_NUM_OPS) {
		request->op.redop.op = request->redop;
		return NCCL_SUCCESS;
	}
	while (user && user->id != request->redop)
		user = user->next;
	if (!user)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "%s : reduction operation %d unknown to this communicator",
				 request->fn, request->redop);
	if (user->dtype != request->op.dtype)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "Data type supplied to user-created ncclRedOp_t does not match "
				 "type given to reduction operation");
	request->op.redop = user->redop;
	return NCCL_SUCCESS;
}

static int ops_check(struct request *request)
{
	int types = call_version() >= NCCL_2_24 ? OPS_TYPES : OPS_FP8_FIRST;
	int code;

	comm_must_be_complete(request->comm, request->fn);
	if (request->comm->finalized)
		call_misuse("%s(%p): the communicator is finalized", request->fn,
			    (void *)request->comm);
	if (request->op.root < 0 || request->op.root >= request->comm->nranks)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "%s : invalid root %d (root should be in the 0..%d range)",
				 request->fn, request->op.root, request->comm->nranks);
	if (request->op.dtype < 0 || request->op.dtype >= types)
		return call_fail(NCCL_INVALID_ARGUMENT, "%s : invalid type %d", request->fn,
				 request->op.dtype);
	code = ops_redop(request);
	if (code)
		return code;
	request->op.bytes = request->op.count * reduce_size(request->op.dtype);
	return ops_pointers(request);
}

/* Adds one send or receive of an operation composed of pairs; at: the address of part r. */
static int ops_pair(const struct request *request, int kind, const void *at, int part, int peer)
{
	struct op op = request->op;

	op.kind = kind;
	op.root = peer;
	op.send = kind == KIND_SEND ? (const char *)at + (size_t)part * op.bytes : NULL;
	op.recv = kind == KIND_RECV ? (char *)(uintptr_t)at + (size_t)part * op.bytes : NULL;
	return group_add_op(request->comm, &op);
}

/* NCCL composes alltoall, gather and scatter of sends and receives. */
static int ops_pairs(const struct request *request)
{
	const struct op *op = &request->op;
	int r, at_root = request->comm->rank == op->root, code = NCCL_SUCCESS;
	int kind = op->kind;

	if (kind == KIND_GATHER)
		code = ops_pair(request, KIND_SEND, op->send, 0, op->root);
	for (r = 0; r < request->comm->nranks && !code; r++) {
		if (kind == KIND_ALLTOALL || (kind == KIND_SCATTER && at_root))
			code = ops_pair(request, KIND_SEND, op->send, r, r);
		if (!code && (kind == KIND_ALLTOALL || (kind == KIND_GATHER && at_root)))
			code = ops_pair(request, KIND_RECV, op->recv, r, r);
	}
	if (!code && kind == KIND_SCATTER)
		code = ops_pair(request, KIND_RECV, op->recv, 0, op->root);
	return code;
}

enum { FLOAT8E4M3 = 10 }; /* ncclFloat8e4m3; ncclFloat8e5m2 follows */

/* A communicator of one rank runs its collectives at once, not at the group's end. */
static int ops_alone(const struct request *request)
{
	nccl_comm_t comm = request->comm;
	struct op *pairs = comm->p2ps;
	int code;

	/* NCCL has no kernel that multiplies float8 on one rank, though more ranks do (src/device/onerank.cu). */
	if (request->op.dtype >= FLOAT8E4M3 &&
	    (request->op.redop.op == OP_PREMUL || request->op.redop.op == OP_AVG) &&
	    (request->op.kind == KIND_ALLREDUCE || request->op.kind == KIND_REDUCE ||
	     request->op.kind == KIND_REDUCE_SCATTER))
		return NCCL_INVALID_ARGUMENT;
	comm->colls = malloc(sizeof(*comm->colls));
	if (!comm->colls)
		return NCCL_SYSTEM_ERROR;
	*comm->colls = request->op;
	if (request->op.kind >= KIND_ALLTOALL)
		comm->colls->kind = KIND_BROADCAST;
	comm->p2ps = NULL;
	code = kernel_launch(comm);
	ops_free(comm->colls);
	comm->colls = NULL;
	comm->p2ps = pairs;
	return code;
}

static int ops_add(struct request *request)
{
	if (request->op.kind >= KIND_SEND)
		return group_add_op(request->comm, &request->op);
	if (!request->op.count)
		return NCCL_SUCCESS;
	if (request->comm->nranks == 1)
		return ops_alone(request);
	if (request->op.kind >= KIND_ALLTOALL)
		return ops_pairs(request);
	return group_add_op(request->comm, &request->op);
}

/* Counts the threads that have made an operation. */
static void ops_count_thread(void)
{
	static _Thread_local int counted;

	if (!counted)
		(void)call_count("a thread's first operation");
	counted = 1;
}

static int ops_call(struct request request)
{
	int fault = call_count(request.fn), code = comm_enter(request.comm, request.fn), end;

	ops_count_thread();

	if (code)
		return group_note(code);
	if (request.comm->revoked) {
		comm_leave(request.comm);
		return group_note(
			call_fail(NCCL_INVALID_USAGE, "%s: communicator was revoked", request.fn));
	}
	group_start();
	code = fault ? fault : comm_ready(request.comm, request.fn);
	if (!code)
		code = ops_check(&request);
	if (!code)
		code = ops_add(&request);
	if (code && !request.comm->blocking)
		comm_set(request.comm, code);
	group_note(code);
	end = group_end(request.fn);
	if (end && end != NCCL_IN_PROGRESS)
		code = end;
	else if (!request.comm->blocking)
		code = comm_async(request.comm);
	comm_leave(request.comm);
	return code;
}

int ncclAllReduce(const void *sendbuf, void *recvbuf, size_t count, int dtype, int op,
		  nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclAllReduce",
					 comm,
					 op,
					 {.kind = KIND_ALLREDUCE,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclBroadcast(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
		  nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclBroadcast",
					 comm,
					 OP_SUM,
					 {.kind = KIND_BROADCAST,
					  .root = root,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclBcast(void *buf, size_t count, int dtype, int root, nccl_comm_t comm, void *stream)
{
	(void)call_count("ncclBcast");
	return ncclBroadcast(buf, buf, count, dtype, root, comm, stream);
}

int ncclReduce(const void *sendbuf, void *recvbuf, size_t count, int dtype, int op, int root,
	       nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclReduce",
					 comm,
					 op,
					 {.kind = KIND_REDUCE,
					  .root = root,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclAllGather(const void *sendbuf, void *recvbuf, size_t sendcount, int dtype, nccl_comm_t comm,
		  void *stream)
{
	return ops_call((struct request){"ncclAllGather",
					 comm,
					 OP_SUM,
					 {.kind = KIND_ALLGATHER,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = sendcount,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclReduceScatter(const void *sendbuf, void *recvbuf, size_t recvcount, int dtype, int op,
		      nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclReduceScatter",
					 comm,
					 op,
					 {.kind = KIND_REDUCE_SCATTER,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = recvcount,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclSend(const void *sendbuf, size_t count, int dtype, int peer, nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclSend",
					 comm,
					 OP_SUM,
					 {.kind = KIND_SEND,
					  .root = peer,
					  .send = sendbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclRecv(void *recvbuf, size_t count, int dtype, int peer, nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclRecv",
					 comm,
					 OP_SUM,
					 {.kind = KIND_RECV,
					  .root = peer,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

#ifndef STANDIN_NCCL_OLD

int ncclAlltoAll(const void *sendbuf, void *recvbuf, size_t count, int dtype, nccl_comm_t comm,
		 void *stream)
{
	return ops_call((struct request){"ncclAlltoAll",
					 comm,
					 OP_SUM,
					 {.kind = KIND_ALLTOALL,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclGather(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
	       nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclGather",
					 comm,
					 OP_SUM,
					 {.kind = KIND_GATHER,
					  .root = root,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

int ncclScatter(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
		nccl_comm_t comm, void *stream)
{
	return ops_call((struct request){"ncclScatter",
					 comm,
					 OP_SUM,
					 {.kind = KIND_SCATTER,
					  .root = root,
					  .send = sendbuf,
					  .recv = recvbuf,
					  .count = count,
					  .dtype = dtype,
					  .stream = stream}});
}

#endif
