/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_abi.h - the binary interface of NVIDIA's nccl.h, version 2.32, and of what nccl_device.h has for the host, so
 * that no header of NVIDIA's is needed to build libcoll.  Programs include NVIDIA's own headers.
 *
 * Names, numbers and layouts are those of the NCCL documentation and of nccl.h, which from 2.18 to 2.32 only
 * added.  Enumerations are ints here, handles are pointers.  tests/bindings/nccl.t compiles the test of this
 * library with the real header too, where that is installed.
 */
#ifndef BINDINGS_NCCL_NCCL_ABI_H
#define BINDINGS_NCCL_NCCL_ABI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NCCL_VERSION_CODE = 23203 };

typedef int ncclResult_t;
enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclTimeout = 8,
	ncclNumResults = 9
};

typedef int ncclDataType_t;
enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
};

/* From ncclNumOps on: operations of ncclRedOpCreatePreMulSum. */
typedef int ncclRedOp_t;
enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4, ncclNumOps = 5 };

typedef int ncclScalarResidence_t;
enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

typedef int ncclCommMemStat_t;

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParamHandle *ncclParamHandle_t;
typedef void *cudaStream_t;
typedef void *cudaEvent_t;

enum { NCCL_UNIQUE_ID_BYTES = 128 };

typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

enum { NCCL_SPLIT_NOCOLOR = -1 };
enum { NCCL_SHRINK_DEFAULT = 0, NCCL_SHRINK_ABORT = 1 };
enum {
	NCCL_CONFIG_UNDEF_INT = INT_MIN,
	NCCL_API_MAGIC = (int)0xcafebeef,
	NCCL_SIM_MAGIC = 0x74685283
};

/* The beginning of NVIDIA's ncclConfig_t; the later members say how NCCL uses the device. */
typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	int blocking;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
	{                                                                                          \
		sizeof(ncclConfig_t), (unsigned)NCCL_API_MAGIC, NCCL_VERSION_CODE,                 \
			NCCL_CONFIG_UNDEF_INT                                                      \
	}

/* How one call of an nccl...Config function is to be executed. */
typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	void *ext; /* a list of vendors' options */
	int minCTAs;
	int maxCTAs;
	int nvlsCTAs;
	int cgaClusterSize;
	const char *algSelection; /* the algorithms that the call may take; NULL or "": any */
	int forceAlgSelection;    /* 1: the call fails if it cannot take one of these */
	int CTAPolicy;
	uint64_t userProfilerTag;
	cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                \
	{                                                                                          \
		sizeof(ncclCollConfig_t), (unsigned)NCCL_API_MAGIC, NCCL_VERSION_CODE, NULL,       \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT, NULL, 1, NCCL_CONFIG_UNDEF_INT, 0, NULL             \
	}

/* The bits of ncclCollConfig_t.CTAPolicy. */
enum { NCCL_CTA_POLICY_EFFICIENCY = 1, NCCL_CTA_POLICY_ZERO = 2, NCCL_CTA_POLICY_ALL = 3 };

enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 };

typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	int mode;
	const char *psk; /* a text, the same on all ranks */
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                         \
	{                                                                                          \
		sizeof(ncclEncryptionConfig_t), (unsigned)NCCL_API_MAGIC, NCCL_VERSION_CODE,       \
			NCCL_ENCRYPTION_MODE_NONE, NULL                                            \
	}

typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                  \
	{                                                                                          \
		sizeof(ncclSimInfo_t), NCCL_SIM_MAGIC, NCCL_VERSION_CODE, -1.0f                    \
	}

typedef struct {
	int opCnt;
	int peer;
	int sigIdx;
	int ctx;
} ncclWaitSignalDesc_t;

#define NCCL_API __attribute__((visibility("default")))

/*
 * Gives a function its second name, pncclX, for tools that stand between a program and the library: they define
 * ncclX and call pncclX.
 */
#define NCCL_ALSO(NAME)                                                                            \
	extern __typeof__(NAME) p##NAME __attribute__((alias(#NAME), visibility("default")))

/* The mark by which plugins/nccl knows that this is not NVIDIA's library. */
NCCL_API extern const char ncclDropInOfColl[];

/* ----------------------------------------------------------- library and communicators -- */

NCCL_API ncclResult_t ncclGetVersion(int *version);
NCCL_API const char *ncclGetErrorString(ncclResult_t result);
NCCL_API const char *ncclGetLastError(ncclComm_t comm);
NCCL_API void ncclResetDebugInit(void);
NCCL_API ncclResult_t ncclMemAlloc(void **ptr, size_t size);
NCCL_API ncclResult_t ncclMemFree(void *ptr);
NCCL_API ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config);

NCCL_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
NCCL_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
NCCL_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id,
					     int rank, ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids,
					       ncclUniqueId *ids, ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devices);
NCCL_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
				    ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommShrink(ncclComm_t comm, int *exclude, int nexclude,
				     ncclComm_t *newcomm, ncclConfig_t *config, int flags);
NCCL_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommAbort(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
NCCL_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
NCCL_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
NCCL_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
NCCL_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
NCCL_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size,
				       void **handle);
NCCL_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);

/* ------------------------------------------------------------------- operations -- */

NCCL_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
					       ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
NCCL_API ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
				 ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
				ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
				    int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
				    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
					ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
					cudaStream_t stream);
NCCL_API ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
				    ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
				   ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type,
				 int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
				  int root, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count,
				       ncclDataType_t type, ncclRedOp_t op, int root,
				       ncclComm_t comm, cudaStream_t stream,
				       const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count,
					  ncclDataType_t type, int root, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count,
					  ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
					  cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t count,
					      ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
					      cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t count,
					  ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
					  const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count,
					 ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
					 const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count,
				       ncclDataType_t type, int root, ncclComm_t comm,
				       cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count,
					ncclDataType_t type, int root, ncclComm_t comm,
					cudaStream_t stream, const ncclCollConfig_t *config);
NCCL_API ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
			       ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer,
			       ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclGroupStart(void);
NCCL_API ncclResult_t ncclGroupEnd(void);

/* ---------------------------------------------------------------- not supported -- */

NCCL_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info);
NCCL_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
NCCL_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank,
				   ncclComm_t *newcomm, ncclConfig_t *config);
NCCL_API ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
NCCL_API ncclResult_t ncclCommResume(ncclComm_t comm);
NCCL_API ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
NCCL_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size,
					     ncclWindow_t *window, int flags);
NCCL_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
NCCL_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr);
NCCL_API ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer,
				    ncclWindow_t window, size_t offset, int signal, int context,
				    unsigned flags, ncclComm_t comm, cudaStream_t stream);
NCCL_API ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
				 cudaStream_t stream);
NCCL_API ncclResult_t ncclWaitSignal(int n, ncclWaitSignalDesc_t *signals, ncclComm_t comm,
				     cudaStream_t stream);
NCCL_API ncclResult_t ncclParamBind(ncclParamHandle_t *param, const char *key);
NCCL_API ncclResult_t ncclParamGetI8(ncclParamHandle_t param, int8_t *value);
NCCL_API ncclResult_t ncclParamGetI16(ncclParamHandle_t param, int16_t *value);
NCCL_API ncclResult_t ncclParamGetI32(ncclParamHandle_t param, int32_t *value);
NCCL_API ncclResult_t ncclParamGetI64(ncclParamHandle_t param, int64_t *value);
NCCL_API ncclResult_t ncclParamGetU8(ncclParamHandle_t param, uint8_t *value);
NCCL_API ncclResult_t ncclParamGetU16(ncclParamHandle_t param, uint16_t *value);
NCCL_API ncclResult_t ncclParamGetU32(ncclParamHandle_t param, uint32_t *value);
NCCL_API ncclResult_t ncclParamGetU64(ncclParamHandle_t param, uint64_t *value);
NCCL_API ncclResult_t ncclParamGetStr(ncclParamHandle_t param, const char **value);
NCCL_API ncclResult_t ncclParamGet(ncclParamHandle_t param, void *value, int size, int *length);
NCCL_API ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *length);
NCCL_API ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *count);
NCCL_API void ncclParamDumpAll(void);

/* ---------------------------------------------------- nccl_device.h, for the host -- */

/* Ranks of a communicator: rank 0 of the team is `rank * stride` ranks before this one. */
typedef struct {
	int nRanks, rank, stride;
} ncclTeam_t;

/* Of ncclCommProperties_t.ginType and its kin: the device has no network of its own. */
enum { NCCL_GIN_TYPE_NONE = 0, NCCL_GIN_CONNECTION_NONE = 0 };
#define NCCL_LE_ID_INVALID UINT32_MAX

typedef struct {
	size_t size;
	unsigned magic;
	unsigned version;
	int rank;
	int nRanks;
	int cudaDev;
	int nvmlDev;
	bool deviceApiSupport;
	bool multimemSupport;
	int ginType;
	int nLsaTeams;
	bool hostRmaSupport;
	int railedGinType;
	uint64_t commHash;
	int ginMinStride;
	int ginConnectionType;
	bool ginSupport[64];
	size_t devCommRuntimeVersionSize;
	bool cftSupport;
	bool cftMulticastSupport;
	bool cftCountedSupport;
} ncclCommProperties_t;

#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
	{                                                                                          \
		.size = sizeof(ncclCommProperties_t), .magic = (unsigned)NCCL_API_MAGIC,           \
		.version = NCCL_VERSION_CODE                                                       \
	}

typedef struct ncclDevResourceRequirements {
	struct ncclDevResourceRequirements *next;
	size_t bufferSize, bufferAlign;
	uint32_t *outBufferHandle;
	int ginSignalCount;
	int ginCounterCount;
	uint32_t *outGinSignalStart;
	uint32_t *outGinCounterStart;
} ncclDevResourceRequirements_t;

NCCL_API ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties);
NCCL_API ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void *requirements, void *devcomm);
NCCL_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void *devcomm);
NCCL_API ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset,
						      void **ptr);
NCCL_API ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset,
						   void *multimem, void **ptr);
NCCL_API ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank,
					      void **ptr);
NCCL_API ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer,
					       void **ptr);
NCCL_API ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, uint32_t *id,
						  size_t *at);
NCCL_API ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer,
					     ncclTeam_t team, uint32_t *id, size_t *at);
NCCL_API ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer,
					      uint32_t *id, size_t *at);
NCCL_API ncclTeam_t ncclTeamWorld(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamRail(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamLsa(ncclComm_t comm);
NCCL_API ncclTeam_t ncclTeamCft(ncclComm_t comm, int mode);
NCCL_API ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
NCCL_API int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_API int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_API int ncclLLA2ACalcSlots(int elements, int size);
NCCL_API ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, void *handle,
						 ncclDevResourceRequirements_t *requirement);
NCCL_API ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int barriers, void *handle,
						      ncclDevResourceRequirements_t *requirement);
NCCL_API ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team,
						      int barriers, void *handle,
						      ncclDevResourceRequirements_t *requirement);
NCCL_API ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int size_log2, void *handle,
						     ncclDevResourceRequirements_t *requirement);
NCCL_API ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int blocks, int size_log2,
						       void *handle,
						       ncclDevResourceRequirements_t *requirement);

#endif
