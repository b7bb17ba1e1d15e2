/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - the table of the CUDA driver's functions, opened at run time.
 *
 * libcoll, the nccl plugin, the tool `coll` and the tests on GPUs each compile driver.c and so have a table of their
 * own; nobody needs CUDA's headers.  Names, types and numbers come from the document "CUDA Driver API"
 * (docs.nvidia.com, cuda-driver-api): CUcontext, CUstream and CUevent are pointers, CUdevice and CUresult are ints.
 */
#ifndef CORE_DEVICE_DRIVER_H
#define CORE_DEVICE_DRIVER_H

#include <stddef.h>

typedef unsigned long long cuda_ptr_t; /* CUdeviceptr */

/* Values of CUresult. */
enum {
	CUDA_OK = 0,
	CUDA_NO_MEMORY = 2,
	CUDA_NOT_INITIALIZED = 3,
	CUDA_DEINITIALIZED = 4,
	CUDA_STUB_LIBRARY = 34,
	CUDA_NO_DEVICE = 100,
	CUDA_INVALID_CONTEXT = 201,
	CUDA_NOT_READY = 600,
	CUDA_NOT_SUPPORTED = 801,
	CUDA_CAPTURE_UNSUPPORTED = 900, /* the first error of captures */
	CUDA_CAPTURE_IMPLICIT = 906,
	CUDA_CAPTURED_EVENT = 907 /* the last error of captures */
};

/* Flags of streams, events, managed and pinned memory. */
enum {
	CUDA_STREAM_NON_BLOCKING =
		1, /* it neither waits for work on the default stream nor holds it up */
	CUDA_EVENT_DISABLE_TIMING = 2,
	CUDA_ATTACH_GLOBAL = 1,
	CUDA_PIN_PORTABLE = 1,  /* every context may use the memory */
	CUDA_PIN_MAPPED = 2,    /* a device may read the memory */
	CUDA_WAIT_GEQ = 0,      /* until (int32_t)(word - value) >= 0 */
	CUDA_WRITE_DEFAULT = 0, /* earlier writes of the stream are visible before the word */
	CUDA_CAPTURE_RELAXED = 2
};

/*
 * CU_STREAM_PER_THREAD: another stream in each thread.  Copies go over it, since the default stream may
 * return before a copy to or within a device is done.
 */
#define CUDA_PER_THREAD_STREAM ((void *)2)

/* The users of the functions. */
enum { DRIVER_CORE = 1, DRIVER_NCCL = 2, DRIVER_TOOLS = 4, DRIVER_TESTS = 8 };

/*
 * The functions, which return a CUresult: ROW(symbol, member of struct cuda_driver, arguments, users that need it).  A
 * function that a user does not need may be missing.
 */
#define DRIVER_TABLE(ROW)                                                                          \
	ROW(cuInit, cuInit, (unsigned flags), DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)           \
	ROW(cuDriverGetVersion, cuDriverGetVersion, (int *version), DRIVER_NCCL | DRIVER_TESTS)    \
	ROW(cuGetErrorName, cuGetErrorName, (int result, const char **name),                       \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TESTS)                                              \
	ROW(cuGetErrorString, cuGetErrorString, (int result, const char **text),                   \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS)                                              \
	ROW(cuDeviceGetCount, cuDeviceGetCount, (int *count),                                      \
	    DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                                             \
	ROW(cuDeviceGet, cuDeviceGet, (int *device, int ordinal),                                  \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuDeviceGetName, cuDeviceGetName, (char *name, int size, int device),                  \
	    DRIVER_NCCL | DRIVER_TESTS)                                                            \
	ROW(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, int device),   \
	    DRIVER_NCCL)                                                                           \
	ROW(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **context, int device),      \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, (int device), DRIVER_CORE)    \
	ROW(cuCtxGetCurrent, cuCtxGetCurrent, (void **context),                                    \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuCtxSetCurrent, cuCtxSetCurrent, (void *context), DRIVER_TESTS)                       \
	ROW(cuCtxGetDevice, cuCtxGetDevice, (int *device), DRIVER_NCCL)                            \
	ROW(cuCtxPushCurrent_v2, cuCtxPushCurrent, (void *context),                                \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS)                                              \
	ROW(cuCtxPopCurrent_v2, cuCtxPopCurrent, (void **context),                                 \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS)                                              \
	ROW(cuPointerGetAttributes, cuPointerGetAttributes,                                        \
	    (unsigned n, const int *names, void **values, cuda_ptr_t ptr), DRIVER_CORE)            \
	ROW(cuMemAlloc_v2, cuMemAlloc, (cuda_ptr_t * ptr, size_t bytes),                           \
	    DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                                             \
	ROW(cuMemAllocManaged, cuMemAllocManaged,                                                  \
	    (cuda_ptr_t * ptr, size_t bytes, unsigned flags), DRIVER_TOOLS | DRIVER_TESTS)         \
	ROW(cuMemFree_v2, cuMemFree, (cuda_ptr_t ptr), DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)  \
	ROW(cuMemHostAlloc, cuMemHostAlloc, (void **ptr, size_t bytes, unsigned flags),            \
	    DRIVER_CORE)                                                                           \
	ROW(cuMemFreeHost, cuMemFreeHost, (void *ptr), DRIVER_CORE)                                \
	ROW(cuMemcpyAsync, cuMemcpyAsync,                                                          \
	    (cuda_ptr_t dst, cuda_ptr_t src, size_t bytes, void *stream),                          \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuMemsetD8Async, cuMemsetD8Async,                                                      \
	    (cuda_ptr_t dst, unsigned char value, size_t bytes, void *stream),                     \
	    DRIVER_NCCL | DRIVER_TESTS)                                                            \
	ROW(cuMemsetD32Async, cuMemsetD32Async,                                                    \
	    (cuda_ptr_t dst, unsigned value, size_t count, void *stream),                          \
	    DRIVER_TOOLS | DRIVER_TESTS)                                                           \
	ROW(cuStreamCreate, cuStreamCreate, (void **stream, unsigned flags),                       \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuStreamDestroy_v2, cuStreamDestroy, (void *stream),                                   \
	    DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS)                               \
	ROW(cuStreamQuery, cuStreamQuery, (void *stream), DRIVER_NCCL | DRIVER_TESTS)              \
	ROW(cuStreamSynchronize, cuStreamSynchronize, (void *stream),                              \
	    DRIVER_CORE | DRIVER_TOOLS | DRIVER_TESTS)                                             \
	ROW(cuStreamWaitEvent, cuStreamWaitEvent, (void *stream, void *event, unsigned flags),     \
	    DRIVER_NCCL)                                                                           \
	ROW(cuStreamGetCtx, cuStreamGetCtx, (void *stream, void **context), 0)                     \
	ROW(cuStreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status), 0)              \
	ROW(cuStreamWaitValue32_v2, cuStreamWaitValue32,                                           \
	    (void *stream, cuda_ptr_t word, unsigned value, unsigned flags), 0)                    \
	ROW(cuStreamWriteValue32_v2, cuStreamWriteValue32,                                         \
	    (void *stream, cuda_ptr_t word, unsigned value, unsigned flags), 0)                    \
	ROW(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int *mode), 0)  \
	ROW(cuLaunchHostFunc, cuLaunchHostFunc, (void *stream, void (*fn)(void *arg), void *arg),  \
	    DRIVER_TOOLS | DRIVER_TESTS)                                                           \
	ROW(cuEventCreate, cuEventCreate, (void **event, unsigned flags),                          \
	    DRIVER_CORE | DRIVER_NCCL)                                                             \
	ROW(cuEventDestroy_v2, cuEventDestroy, (void *event), DRIVER_CORE | DRIVER_NCCL)           \
	ROW(cuEventRecord, cuEventRecord, (void *event, void *stream), DRIVER_CORE | DRIVER_NCCL)  \
	ROW(cuEventQuery, cuEventQuery, (void *event), DRIVER_CORE | DRIVER_NCCL)

/* A function that the driver lacks is NULL. */
struct cuda_driver {
#define DRIVER_MEMBER(symbol, member, arguments, ...) int(*member) arguments;
	DRIVER_TABLE(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/*
 * Does a query's result mean that the work is not done?  While a stream is captured, a query may not be allowed, and
 * captured work never ends: then nothing is known.
 */
static inline int driver_not_ready(int result)
{
	return result == CUDA_NOT_READY ||
	       (result >= CUDA_CAPTURE_UNSUPPORTED && result <= CUDA_CAPTURED_EVENT);
}

/* Constant once driver_open has found the functions that the caller needs. */
extern struct cuda_driver cuda_driver;

enum driver_result {
	DRIVER_FOUND,
	DRIVER_ABSENT, /* *why: the loader's message */
	DRIVER_INCOMPLETE /* *why: the name of the first function that `user` needs and the driver lacks */
};

/*
 * Opens libcuda.so.1 at the first call, and looks for the functions.  *why stays valid until the calling
 * thread calls the function again.  Any thread may call it.
 */
enum driver_result driver_open(unsigned user, const char **why);

#endif
