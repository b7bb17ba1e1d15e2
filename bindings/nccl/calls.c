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

/* config: of a call of an nccl...Config function, or NULL.  site: the place in the program that called the function. */
static ncclResult_t call(struct ncclComm *comm, const char *function, const coll_args_t *args,
			 const ncclCollConfig_t *config, const void *site)
{
	struct operation operation = {.comm = comm, .args = *args, .site = site};
	ncclResult_t code = check(comm, function, args->dtype, args->op);

	if (!code)
		code = config_apply(function, config, &operation);
	return group_note(code ? code : group_operation(&operation));
}

#define ARGS(KIND, TYPE, COUNT, STREAM)                                                            \
	.size = sizeof(coll_args_t), .kind = COLL_KIND_##KIND, .dtype = (TYPE), .count = (COUNT),  \
	.stream = (STREAM)

/* Defines a function and its second form, which takes a ncclCollConfig_t too.  Behind the parameters: the coll_args_t. */
#define PARAMETERS(...) __VA_ARGS__
#define COLLECTIVE(NAME, PARAMS, ...)                                                              \
	ncclResult_t NAME(PARAMS)                                                                  \
	{                                                                                          \
		const coll_args_t args = {__VA_ARGS__};                                            \
                                                                                                   \
		return call(comm, #NAME, &args, NULL, __builtin_return_address(0));                \
	}                                                                                          \
	NCCL_ALSO(NAME);                                                                           \
	ncclResult_t NAME##Config(PARAMS, const ncclCollConfig_t *config)                          \
	{                                                                                          \
		const coll_args_t args = {__VA_ARGS__};                                            \
                                                                                                   \
		return call(comm, #NAME "Config", &args, config, __builtin_return_address(0));     \
	}                                                                                          \
	NCCL_ALSO(NAME##Config)

COLLECTIVE(ncclReduce,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type,
		      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream),
	   ARGS(REDUCE, type, count, stream), .sendbuf = send, .recvbuf = recv, .op = op,
	   .root = root);
COLLECTIVE(ncclBroadcast,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
		      ncclComm_t comm, cudaStream_t stream),
	   ARGS(BROADCAST, type, count, stream), .sendbuf = send, .recvbuf = recv, .root = root);
COLLECTIVE(ncclAllReduce,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type,
		      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
	   ARGS(ALLREDUCE, type, count, stream), .sendbuf = send, .recvbuf = recv, .op = op);
COLLECTIVE(ncclReduceScatter,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type,
		      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
	   ARGS(REDUCE_SCATTER, type, count, stream), .sendbuf = send, .recvbuf = recv, .op = op);
COLLECTIVE(ncclAllGather,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type,
		      ncclComm_t comm, cudaStream_t stream),
	   ARGS(ALLGATHER, type, count, stream), .sendbuf = send, .recvbuf = recv);
COLLECTIVE(ncclAlltoAll,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type,
		      ncclComm_t comm, cudaStream_t stream),
	   ARGS(ALLTOALL, type, count, stream), .sendbuf = send, .recvbuf = recv);
COLLECTIVE(ncclGather,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
		      ncclComm_t comm, cudaStream_t stream),
	   ARGS(GATHER, type, count, stream), .sendbuf = send, .recvbuf = recv, .root = root);
COLLECTIVE(ncclScatter,
	   PARAMETERS(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
		      ncclComm_t comm, cudaStream_t stream),
	   ARGS(SCATTER, type, count, stream), .sendbuf = send, .recvbuf = recv, .root = root);

/* NCCL's older broadcast, in place. */
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	const coll_args_t args = {ARGS(BROADCAST, type, count, stream), .sendbuf = buffer,
				  .recvbuf = buffer, .root = root};

	return call(comm, "ncclBcast", &args, NULL, __builtin_return_address(0));
}
NCCL_ALSO(ncclBcast);

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	const coll_args_t args = {ARGS(SEND, type, count, stream), .sendbuf = send, .root = peer};

	return call(comm, "ncclSend", &args, NULL, __builtin_return_address(0));
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
	return code ? group_note(code)
		    : call(comm, "ncclRecv", &args, NULL, __builtin_return_address(0));
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
