/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h - the part of the CUDA driver's interface that the stand-in has: names and numbers are those
 * of the document "CUDA Driver API".
 */
#ifndef TESTS_FAKES_CUDA_H
#define TESTS_FAKES_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long CUdeviceptr;

/* CUresult */
enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700
};

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

/* CUpointer_attribute */
enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9
};

#define CU_STREAM_PER_THREAD ((void *)2)
#define STANDIN_API          __attribute__((visibility("default")))

STANDIN_API int cuInit(unsigned flags);
STANDIN_API int cuGetErrorName(int result, const char **name);
STANDIN_API int cuGetErrorString(int result, const char **text);
STANDIN_API int cuDeviceGet(int *device, int ordinal);
STANDIN_API int cuCtxGetCurrent(void **context);
STANDIN_API int cuCtxPushCurrent_v2(void *context);
STANDIN_API int cuCtxPopCurrent_v2(void **context);
STANDIN_API int cuDevicePrimaryCtxRetain(void **context, int device);
STANDIN_API int cuDevicePrimaryCtxRelease_v2(int device);
STANDIN_API int cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
STANDIN_API int cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned flags);
STANDIN_API int cuMemFree_v2(CUdeviceptr ptr);
STANDIN_API int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags);
STANDIN_API int cuMemFreeHost(void *ptr);
STANDIN_API int cuPointerGetAttributes(unsigned n, const int *names, void **values,
				       CUdeviceptr ptr);
STANDIN_API int cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, void *stream);
STANDIN_API int cuStreamSynchronize(void *stream);
STANDIN_API int cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n);

/* What tests may ask: copies ever made, live pieces of pinned memory, holders of a context. */
STANDIN_API unsigned long standin_copies(void);
STANDIN_API int standin_pinned(void);
STANDIN_API int standin_held(int device);

#endif
