/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * header_test.c - the nccl plugin declares the parts of NCCL and of the CUDA driver that it uses.
 * Where the vendors' headers are installed, this test compares numbers, layouts and functions with
 * them.
 *
 * The vendors' headers are included last, because their macros collide with the plugin's names.
 */
#include "../../plugins/nccl/nccl.h"
#include "../lib/tap.h"

/*
 * All functions that the plugin calls; the user of this list names the types that the plugin
 * declares itself.
 */
#define NCCL_CALLS(X, RESULT, ID, COMM, CONFIG, TYPE, OP, RESIDENCE, STREAM)                       \
	X(ncclGetVersion, RESULT, (int *))                                                         \
	X(ncclGetUniqueId, RESULT, (ID *))                                                         \
	X(ncclGetErrorString, const char *, (RESULT))                                              \
	X(ncclGetLastError, const char *, (COMM))                                                  \
	X(ncclCommInitRankConfig, RESULT, (COMM *, int, ID, int, CONFIG *))                        \
	X(ncclCommInitAll, RESULT, (COMM *, int, const int *))                                     \
	X(ncclCommFinalize, RESULT, (COMM))                                                        \
	X(ncclCommDestroy, RESULT, (COMM))                                                         \
	X(ncclCommAbort, RESULT, (COMM))                                                           \
	X(ncclCommGetAsyncError, RESULT, (COMM, RESULT *))                                         \
	X(ncclCommSplit, RESULT, (COMM, int, int, COMM *, CONFIG *))                               \
	X(ncclRedOpCreatePreMulSum, RESULT, (OP *, void *, TYPE, RESIDENCE, COMM))                 \
	X(ncclRedOpDestroy, RESULT, (OP, COMM))                                                    \
	X(ncclAllReduce, RESULT, (const void *, void *, size_t, TYPE, OP, COMM, STREAM))           \
	X(ncclBroadcast, RESULT, (const void *, void *, size_t, TYPE, int, COMM, STREAM))          \
	X(ncclReduce, RESULT, (const void *, void *, size_t, TYPE, OP, int, COMM, STREAM))         \
	X(ncclAllGather, RESULT, (const void *, void *, size_t, TYPE, COMM, STREAM))               \
	X(ncclReduceScatter, RESULT, (const void *, void *, size_t, TYPE, OP, COMM, STREAM))       \
	X(ncclSend, RESULT, (const void *, size_t, TYPE, int, COMM, STREAM))                       \
	X(ncclRecv, RESULT, (void *, size_t, TYPE, int, COMM, STREAM))                             \
	X(ncclGroupStart, RESULT, (void))                                                          \
	X(ncclGroupEnd, RESULT, (void))

/* Functions added after 2.18, by the version that added them. */
#define NCCL_CALLS_21900(X, RESULT, COMM)                                                          \
	X(ncclCommRegister, RESULT, (COMM, void *, size_t, void **))                               \
	X(ncclCommDeregister, RESULT, (COMM, void *))
#define NCCL_CALLS_22700(X, RESULT, COMM, CONFIG)                                                  \
	X(ncclCommShrink, RESULT, (COMM, int *, int, COMM *, CONFIG *, int))
#define NCCL_CALLS_22807(X, RESULT, COMM, TYPE, STREAM)                                            \
	X(ncclCommRevoke, RESULT, (COMM, int))                                                     \
	X(ncclAlltoAll, RESULT, (const void *, void *, size_t, TYPE, COMM, STREAM))                \
	X(ncclGather, RESULT, (const void *, void *, size_t, TYPE, int, COMM, STREAM))             \
	X(ncclScatter, RESULT, (const void *, void *, size_t, TYPE, int, COMM, STREAM))

/*
 * The plugin loads functions that cuda.h renames by their real names: cuMemAlloc is cuMemAlloc_v2.
 */
#define CUDA_CALLS(X, RESULT, CONTEXT, STREAM, EVENT, PTR)                                         \
	X(cuInit, RESULT, (unsigned))                                                              \
	X(cuDriverGetVersion, RESULT, (int *))                                                     \
	X(cuGetErrorName, RESULT, (RESULT, const char **))                                         \
	X(cuGetErrorString, RESULT, (RESULT, const char **))                                       \
	X(cuDeviceGetCount, RESULT, (int *))                                                       \
	X(cuDeviceGet, RESULT, (int *, int))                                                       \
	X(cuDeviceGetName, RESULT, (char *, int, int))                                             \
	X(cuDevicePrimaryCtxRetain, RESULT, (CONTEXT *, int))                                      \
	X(cuCtxGetCurrent, RESULT, (CONTEXT *))                                                    \
	X(cuCtxGetDevice, RESULT, (int *))                                                         \
	X(cuCtxPushCurrent, RESULT, (CONTEXT))                                                     \
	X(cuCtxPopCurrent, RESULT, (CONTEXT *))                                                    \
	X(cuMemAlloc, RESULT, (PTR *, size_t))                                                     \
	X(cuMemFree, RESULT, (PTR))                                                                \
	X(cuMemcpyAsync, RESULT, (PTR, PTR, size_t, STREAM))                                       \
	X(cuMemsetD8Async, RESULT, (PTR, unsigned char, size_t, STREAM))                           \
	X(cuStreamCreate, RESULT, (STREAM *, unsigned))                                            \
	X(cuStreamDestroy, RESULT, (STREAM))                                                       \
	X(cuStreamQuery, RESULT, (STREAM))                                                         \
	X(cuStreamWaitEvent, RESULT, (STREAM, EVENT, unsigned))                                    \
	X(cuEventCreate, RESULT, (EVENT *, unsigned))                                              \
	X(cuEventDestroy, RESULT, (EVENT))                                                         \
	X(cuEventRecord, RESULT, (EVENT, STREAM))                                                  \
	X(cuEventQuery, RESULT, (EVENT))

/* Compares the plugin's declaration of a function with the header's. */
#define OWN_NCCL(NAME, RESULT, PARAMS)                                                             \
	ok(__builtin_types_compatible_p(__typeof__(nccl_lib.NAME), RESULT(*) PARAMS),              \
	   "the plugin's %s", #NAME);
#define OWN_CUDA(NAME, RESULT, PARAMS)                                                             \
	ok(__builtin_types_compatible_p(__typeof__(cuda_driver.NAME), RESULT(*) PARAMS),           \
	   "the plugin's %s", #NAME);
#define THEIRS(NAME, RESULT, PARAMS)                                                               \
	ok(__builtin_types_compatible_p(__typeof__(&NAME), RESULT(*) PARAMS), "the header's %s",   \
	   #NAME);

/* Constants whose names the header's macros would replace. */
static const int own_shrink[] = {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT};

static void test_own(void)
{
	NCCL_CALLS(OWN_NCCL, int, nccl_unique_id_t, nccl_comm_t, nccl_config_t, int, int, int,
		   void *)
	NCCL_CALLS_21900(OWN_NCCL, int, nccl_comm_t)
	NCCL_CALLS_22700(OWN_NCCL, int, nccl_comm_t, nccl_config_t)
	NCCL_CALLS_22807(OWN_NCCL, int, nccl_comm_t, int, void *)
	CUDA_CALLS(OWN_CUDA, int, void *, void *, void *, cuda_ptr_t)
}

/* ------------------------------------------------------------------------- NCCL's -- */

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>) && __has_include(<cuda_fp16.h>)
#include <nccl.h>

static void test_nccl_numbers(void)
{
	is_int(NCCL_SUCCESS, ncclSuccess, "ncclSuccess");
	is_int(NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError, "ncclUnhandledCudaError");
	is_int(NCCL_SYSTEM_ERROR, ncclSystemError, "ncclSystemError");
	is_int(NCCL_INTERNAL_ERROR, ncclInternalError, "ncclInternalError");
	is_int(NCCL_INVALID_ARGUMENT, ncclInvalidArgument, "ncclInvalidArgument");
	is_int(NCCL_INVALID_USAGE, ncclInvalidUsage, "ncclInvalidUsage");
	is_int(NCCL_REMOTE_ERROR, ncclRemoteError, "ncclRemoteError");
	is_int(NCCL_IN_PROGRESS, ncclInProgress, "ncclInProgress");
	is_int(NCCL_UNDEF, NCCL_CONFIG_UNDEF_INT, "NCCL_CONFIG_UNDEF_INT");
	is_int(NCCL_NOCOLOR, NCCL_SPLIT_NOCOLOR, "NCCL_SPLIT_NOCOLOR");
	is_int(NCCL_2_18, NCCL_VERSION(2, 18, 0), "versions are counted alike");
#if NCCL_VERSION_CODE >= 22700
	is_int(own_shrink[0], NCCL_SHRINK_DEFAULT, "NCCL_SHRINK_DEFAULT");
	is_int(own_shrink[1], NCCL_SHRINK_ABORT, "NCCL_SHRINK_ABORT");
#endif
}

/* Constants of coll.h that the plugin passes to NCCL unchanged. */
static void test_nccl_types(void)
{
	static const int pairs[][2] = {
		{COLL_INT8, ncclInt8},
		{COLL_UINT8, ncclUint8},
		{COLL_INT32, ncclInt32},
		{COLL_UINT32, ncclUint32},
		{COLL_INT64, ncclInt64},
		{COLL_UINT64, ncclUint64},
		{COLL_FLOAT16, ncclFloat16},
		{COLL_FLOAT32, ncclFloat32},
		{COLL_FLOAT64, ncclFloat64},
		{COLL_BFLOAT16, ncclBfloat16},
#if NCCL_VERSION_CODE >= 22400
		{COLL_FLOAT8E4M3, ncclFloat8e4m3},
		{COLL_FLOAT8E5M2, ncclFloat8e5m2},
#endif
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		is_int(pairs[i][0], pairs[i][1], "ncclDataType_t of %s",
		       coll_dtype_name(pairs[i][0]));
	is_int(COLL_SUM, ncclSum, "ncclSum");
	is_int(COLL_PROD, ncclProd, "ncclProd");
	is_int(COLL_MAX, ncclMax, "ncclMax");
	is_int(COLL_MIN, ncclMin, "ncclMin");
	is_int(COLL_AVG, ncclAvg, "ncclAvg");
	is_int(NCCL_NUM_OPS, ncclNumOps, "ncclNumOps");
	is_int(COLL_SCALAR_DEVICE, ncclScalarDevice, "ncclScalarDevice");
	is_int(COLL_SCALAR_HOST_IMMEDIATE, ncclScalarHostImmediate, "ncclScalarHostImmediate");
}

static void test_nccl_layouts(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	is_int(sizeof(nccl_unique_id_t), sizeof(ncclUniqueId), "size of ncclUniqueId");
	is_int(sizeof(ncclResult_t), sizeof(int), "size of ncclResult_t");
	is_int(sizeof(ncclDataType_t), sizeof(int), "size of ncclDataType_t");
	is_int(sizeof(ncclRedOp_t), sizeof(int), "size of ncclRedOp_t");
	is_int(sizeof(ncclScalarResidence_t), sizeof(int), "size of ncclScalarResidence_t");
	ok(sizeof(nccl_config_t) <= sizeof(ncclConfig_t), "the plugin's config is the beginning");
	is_int(offsetof(nccl_config_t, size), offsetof(ncclConfig_t, size), "config.size");
	is_int(offsetof(nccl_config_t, magic), offsetof(ncclConfig_t, magic), "config.magic");
	is_int(offsetof(nccl_config_t, version), offsetof(ncclConfig_t, version), "config.version");
	is_int(offsetof(nccl_config_t, blocking), offsetof(ncclConfig_t, blocking),
	       "config.blocking");
	is_int(offsetof(nccl_config_t, cga_cluster_size), offsetof(ncclConfig_t, cgaClusterSize),
	       "config.cgaClusterSize");
	is_int(offsetof(nccl_config_t, min_ctas), offsetof(ncclConfig_t, minCTAs),
	       "config.minCTAs");
	is_int(offsetof(nccl_config_t, max_ctas), offsetof(ncclConfig_t, maxCTAs),
	       "config.maxCTAs");
	is_int(offsetof(nccl_config_t, net_name), offsetof(ncclConfig_t, netName),
	       "config.netName");
	is_int(offsetof(nccl_config_t, split_share), offsetof(ncclConfig_t, splitShare),
	       "config.splitShare");
#if NCCL_VERSION_CODE >= 22600
	is_int(offsetof(nccl_config_t, traffic_class), offsetof(ncclConfig_t, trafficClass),
	       "config.trafficClass");
#endif
	is_int((unsigned)NCCL_CONFIG_MAGIC, config.magic, "the magic");
}

static void test_nccl_calls(void)
{
	NCCL_CALLS(THEIRS, ncclResult_t, ncclUniqueId, ncclComm_t, ncclConfig_t, ncclDataType_t,
		   ncclRedOp_t, ncclScalarResidence_t, cudaStream_t)
#if NCCL_VERSION_CODE >= 21900
	NCCL_CALLS_21900(THEIRS, ncclResult_t, ncclComm_t)
#endif
#if NCCL_VERSION_CODE >= 22700
	NCCL_CALLS_22700(THEIRS, ncclResult_t, ncclComm_t, ncclConfig_t)
#endif
#if NCCL_VERSION_CODE >= 22807
	NCCL_CALLS_22807(THEIRS, ncclResult_t, ncclComm_t, ncclDataType_t, cudaStream_t)
#endif
}

static void test_nccl(void)
{
	diag("nccl.h is %d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
	test_nccl_numbers();
	test_nccl_types();
	test_nccl_layouts();
	test_nccl_calls();
}
#else
static void test_nccl(void)
{
	(void)own_shrink;
	skip(1, "nccl.h, or CUDA's headers that it needs, are not installed");
}
#endif

/* ------------------------------------------------------------------- the driver's -- */

#if __has_include(<cuda.h>)
#include <cuda.h>

static void test_cuda(void)
{
	diag("cuda.h is %d", CUDA_VERSION);
	is_int(CUDA_OK, CUDA_SUCCESS, "CUDA_SUCCESS");
	is_int(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED");
	is_int(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED");
	is_int(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE");
	is_int(CUDA_NOT_READY, CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY");
	is_int(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, "CU_STREAM_NON_BLOCKING");
	is_int(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, "CU_EVENT_DISABLE_TIMING");
	is_int(sizeof(CUresult), sizeof(int), "size of CUresult");
	is_int(sizeof(cuda_ptr_t), sizeof(CUdeviceptr), "size of CUdeviceptr");
	CUDA_CALLS(THEIRS, CUresult, CUcontext, CUstream, CUevent, CUdeviceptr)
}
#else
static void test_cuda(void)
{
	skip(1, "cuda.h is not installed");
}
#endif

int main(void)
{
	test_own();
	test_nccl();
	test_cuda();
	return done_testing();
}
