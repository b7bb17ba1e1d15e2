/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl.h - the functions that the stand-in for NCCL exports, with the names, numbers and meanings of
 * NVIDIA's nccl.h and plain ints for its enums; at the end the queries for tests only.
 *
 * Environment variables, read at each use:
 *   STANDIN_NCCL_VERSION=22809       the version of ncclGetVersion, and its set of functions
 *   STANDIN_NCCL_DELAY_US=300        most time until a non-blocking communicator is ready
 *   STANDIN_NCCL_FAULT=ncclAllReduce:3@4[,...]   the 4th call of that function fails with 3;
 *                                    3@4/ncclCommSplit: the 4th after the first call of the other one
 *   STANDIN_NCCL_ASYNC=6@2           the 2nd launch fails with 6 while it runs, and hangs
 *   STANDIN_NCCL_RUNTIME=35          the CUDA runtime inside refuses the driver with this error
 *   STANDIN_NCCL_CONF=0              NCCL_COMM_BLOCKING in a file nccl.conf
 *   STANDIN_NCCL_INIT_HANG=1         no communicator is ever complete
 *   STANDIN_NCCL_SHRINK_MS=300       least duration of a shrink
 *   STANDIN_NCCL_SPLIT_MS=300        the same of a split
 *   STANDIN_NCCL_MUTE=1              operations of rank 1 never run
 *   STANDIN_NCCL_CONNECT=0           first uses of a connection do not wait for the peer
 *   NCCL_HOSTID, NCCL_CHECK_POINTERS, NCCL_COMM_BLOCKING   as in NCCL
 */
#ifndef TESTS_FAKES_NCCL_H
#define TESTS_FAKES_NCCL_H

#include "../../plugins/nccl/nccl_api.h"

#define NCCL_API __attribute__((visibility("default")))

NCCL_API int ncclGetVersion(int *version);
NCCL_API int ncclGetUniqueId(nccl_unique_id_t *id);
NCCL_API const char *ncclGetErrorString(int result);
NCCL_API const char *ncclGetLastError(nccl_comm_t comm);

NCCL_API int ncclCommInitRank(nccl_comm_t *comm, int nranks, nccl_unique_id_t id, int rank);
NCCL_API int ncclCommInitRankConfig(nccl_comm_t *comm, int nranks, nccl_unique_id_t id, int rank,
				    nccl_config_t *config);
NCCL_API int ncclCommInitAll(nccl_comm_t *comms, int ndev, const int *devices);
NCCL_API int ncclCommFinalize(nccl_comm_t comm);
NCCL_API int ncclCommDestroy(nccl_comm_t comm);
NCCL_API int ncclCommAbort(nccl_comm_t comm);
NCCL_API int ncclCommRevoke(nccl_comm_t comm, int flags);
NCCL_API int ncclCommSplit(nccl_comm_t comm, int color, int key, nccl_comm_t *newcomm,
			   nccl_config_t *config);
NCCL_API int ncclCommShrink(nccl_comm_t comm, int *exclude, int count, nccl_comm_t *newcomm,
			    nccl_config_t *config, int flags);
NCCL_API int ncclCommGetAsyncError(nccl_comm_t comm, int *result);
NCCL_API int ncclCommCount(nccl_comm_t comm, int *count);
NCCL_API int ncclCommCuDevice(nccl_comm_t comm, int *device);
NCCL_API int ncclCommUserRank(nccl_comm_t comm, int *rank);
NCCL_API int ncclCommRegister(nccl_comm_t comm, void *buf, size_t size, void **handle);
NCCL_API int ncclCommDeregister(nccl_comm_t comm, void *handle);
NCCL_API int ncclRedOpCreatePreMulSum(int *op, void *scalar, int dtype, int residence,
				      nccl_comm_t comm);
NCCL_API int ncclRedOpDestroy(int op, nccl_comm_t comm);

NCCL_API int ncclAllReduce(const void *sendbuf, void *recvbuf, size_t count, int dtype, int op,
			   nccl_comm_t comm, void *stream);
NCCL_API int ncclBroadcast(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
			   nccl_comm_t comm, void *stream);
NCCL_API int ncclBcast(void *buf, size_t count, int dtype, int root, nccl_comm_t comm,
		       void *stream);
NCCL_API int ncclReduce(const void *sendbuf, void *recvbuf, size_t count, int dtype, int op,
			int root, nccl_comm_t comm, void *stream);
NCCL_API int ncclAllGather(const void *sendbuf, void *recvbuf, size_t sendcount, int dtype,
			   nccl_comm_t comm, void *stream);
NCCL_API int ncclReduceScatter(const void *sendbuf, void *recvbuf, size_t recvcount, int dtype,
			       int op, nccl_comm_t comm, void *stream);
NCCL_API int ncclAlltoAll(const void *sendbuf, void *recvbuf, size_t count, int dtype,
			  nccl_comm_t comm, void *stream);
NCCL_API int ncclGather(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
			nccl_comm_t comm, void *stream);
NCCL_API int ncclScatter(const void *sendbuf, void *recvbuf, size_t count, int dtype, int root,
			 nccl_comm_t comm, void *stream);
NCCL_API int ncclSend(const void *sendbuf, size_t count, int dtype, int peer, nccl_comm_t comm,
		      void *stream);
NCCL_API int ncclRecv(void *recvbuf, size_t count, int dtype, int peer, nccl_comm_t comm,
		      void *stream);
NCCL_API int ncclGroupStart(void);
NCCL_API int ncclGroupEnd(void);
NCCL_API int ncclMemAlloc(void **ptr, size_t size);
NCCL_API int ncclMemFree(void *ptr);

/* Number of communicators of this process that are neither destroyed nor aborted. */
NCCL_API int standin_nccl_comms(void);
/*
 * Number of calls of a function in this process, by the function's name; "pthread_create": the threads that calls
 * on non-blocking communicators have started; "a thread's first operation": the threads that have made one.
 */
NCCL_API long standin_nccl_calls(const char *function);

#endif
