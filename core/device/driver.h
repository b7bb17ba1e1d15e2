/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - the table of the CUDA driver's functions, opened at run time.
 *
 * libcoll, the nccl plugin, the tool `coll` and the tests on GPUs each compile driver.c and so have a
 * table of their own; nobody needs CUDA's headers.  Names, types and numbers are those of the document
 * "CUDA Driver API" (docs.nvidia.com, cuda-driver-api): CUcontext, CUstream and CUevent are pointers,
 * CUdevice and CUresult are ints.
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
	CUDA_CAPTURE_UNSUPPORTED = 900, /* the first of the errors of captures */
	CUDA_CAPTURE_IMPLICIT = 906,
	CUDA_CAPTURED_EVENT = 907 /* the last of them */
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

/* The functions return a CUresult.  A function that the driver lacks is NULL. */
struct cuda_driver {
	int (*cuInit)(unsigned flags);
	int (*cuDriverGetVersion)(int *version);
	int (*cuGetErrorName)(int result, const char **name);
	int (*cuGetErrorString)(int result, const char **text);
	int (*cuDeviceGetCount)(int *count);
	int (*cuDeviceGet)(int *device, int ordinal);
	int (*cuDeviceGetName)(char *name, int size, int device);
	int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
	int (*cuDevicePrimaryCtxRetain)(void **context, int device);
	int (*cuDevicePrimaryCtxRelease)(int device);
	int (*cuCtxGetCurrent)(void **context);
	int (*cuCtxSetCurrent)(void *context);
	int (*cuCtxGetDevice)(int *device);
	int (*cuCtxPushCurrent)(void *context);
	int (*cuCtxPopCurrent)(void **context);
	int (*cuPointerGetAttributes)(unsigned n, const int *names, void **values, cuda_ptr_t ptr);
	int (*cuMemAlloc)(cuda_ptr_t *ptr, size_t bytes);
	int (*cuMemAllocManaged)(cuda_ptr_t *ptr, size_t bytes, unsigned flags);
	int (*cuMemFree)(cuda_ptr_t ptr);
	int (*cuMemHostAlloc)(void **ptr, size_t bytes, unsigned flags);
	int (*cuMemFreeHost)(void *ptr);
	int (*cuMemcpyAsync)(cuda_ptr_t dst, cuda_ptr_t src, size_t bytes, void *stream);
	int (*cuMemsetD8Async)(cuda_ptr_t dst, unsigned char value, size_t bytes, void *stream);
	int (*cuMemsetD32Async)(cuda_ptr_t dst, unsigned value, size_t count, void *stream);
	int (*cuStreamCreate)(void **stream, unsigned flags);
	int (*cuStreamDestroy)(void *stream);
	int (*cuStreamQuery)(void *stream);
	int (*cuStreamSynchronize)(void *stream);
	int (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
	int (*cuStreamGetCtx)(void *stream, void **context);
	int (*cuStreamIsCapturing)(void *stream, int *status);
	int (*cuStreamWaitValue32)(void *stream, cuda_ptr_t word, unsigned value, unsigned flags);
	int (*cuStreamWriteValue32)(void *stream, cuda_ptr_t word, unsigned value, unsigned flags);
	int (*cuThreadExchangeStreamCaptureMode)(int *mode);
	int (*cuLaunchHostFunc)(void *stream, void (*fn)(void *arg), void *arg);
	int (*cuEventCreate)(void **event, unsigned flags);
	int (*cuEventDestroy)(void *event);
	int (*cuEventRecord)(void *event, void *stream);
	int (*cuEventQuery)(void *event);
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

/* The users of the table; driver.c lists the functions that each of them needs. */
enum { DRIVER_CORE = 1, DRIVER_NCCL = 2, DRIVER_TOOLS = 4, DRIVER_TESTS = 8 };

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
