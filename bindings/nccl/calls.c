/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c - collectives, messages, and operations of a program's own. */
#include "dropin.h"

/* Operations from here on are coll.h's of coll_red_op_create_*; the ones below are not NCCL's. */
enum { FIRST_OWN_OP = 256 };

static ncclResult_t check(const struct ncclComm *comm, const char *function, ncclDataType_t type,
			  ncclRedOp_t op)
{
	ncclResult_t code = comm_check_usable(comm, function);

	if (!code && (type < 0 || type >= ncclNumTypes))
		code = fail(ncclInvalidArgument, "%s: %d is no data type", function, type);
	if (!code && (op < 0 || (op >= ncclNumOps && op < FIRST_OWN_OP)))
		code = fail(ncclInvalidArgument, "%s: %d is no operation", function, op);
	return code;
}

/* site: the place in the program that called the function. */
static ncclResult_t call(struct ncclComm *comm, const char *function, const coll_args_t *args,
			 const void *site)
{
	ncclResult_t code = check(comm, function, args->dtype, args->op);

	return group_note(code ? code : group_operation(comm, args, site));
}

#define ARGS(KIND, TYPE, COUNT, STREAM)                                                            \
	.size = sizeof(coll_args_t), .kind = COLL_KIND_##KIND, .dtype = (TYPE), .count = (COUNT),  \
	.stream = (STREAM)

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(REDUCE, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .op = op, .root = root};

	return call(comm, "ncclReduce", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclReduce);

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	const coll_args_t args = {ARGS(BROADCAST, type, count, stream), .sendbuf = buffer,
				  .recvbuf = buffer, .root = root};

	return call(comm, "ncclBcast", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclBcast);

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
			   int root, ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(BROADCAST, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .root = root};

	return call(comm, "ncclBroadcast", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclBroadcast);

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(ALLREDUCE, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .op = op};

	return call(comm, "ncclAllReduce", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclAllReduce);

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(REDUCE_SCATTER, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .op = op};

	return call(comm, "ncclReduceScatter", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclReduceScatter);

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(ALLGATHER, type, count, stream), .sendbuf = send,
				  .recvbuf = recv};

	return call(comm, "ncclAllGather", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclAllGather);

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
			  ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(ALLTOALL, type, count, stream), .sendbuf = send,
				  .recvbuf = recv};

	return call(comm, "ncclAlltoAll", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclAlltoAll);

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(GATHER, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .root = root};

	return call(comm, "ncclGather", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclGather);

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
			 ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(SCATTER, type, count, stream), .sendbuf = send,
				  .recvbuf = recv, .root = root};

	return call(comm, "ncclScatter", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclScatter);

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(SEND, type, count, stream), .sendbuf = send, .root = peer};

	return call(comm, "ncclSend", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclSend);

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	const coll_args_t args = {ARGS(RECV, type, count, stream), .recvbuf = recv, .root = peer};
	ncclResult_t code = ncclSuccess;

	/* For coll.h -1 is any rank. */
	if (peer < 0)
		code = fail(ncclInvalidArgument, "ncclRecv: there is no rank %d", peer);
	return code ? group_note(code) : call(comm, "ncclRecv", &args, __builtin_return_address(0));
}
NCCL_ALSO(ncclRecv);

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	ncclResult_t code = check(comm, "ncclRedOpCreatePreMulSum", type, ncclSum);

	return code ? code
		    : from_coll(coll_red_op_create_pre_mul_sum(op, scalar, type, residence,
							       comm->coll));
}
NCCL_ALSO(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	ncclResult_t code = comm_check(comm, "ncclRedOpDestroy");

	if (!code && op < FIRST_OWN_OP)
		code = fail(ncclInvalidArgument,
			    "ncclRedOpDestroy: %d is no operation of ncclRedOpCreatePreMulSum", op);
	return code ? code : from_coll(coll_red_op_destroy(op, comm->coll));
}
NCCL_ALSO(ncclRedOpDestroy);
