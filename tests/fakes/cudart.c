/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cudart.c - a stand-in for CUDA's runtime, over the stand-in for the driver: as many of its functions as host
 * programs of NCCL call, with the names and numbers of the document "CUDA Runtime API".  Such programs are
 * compiled with NVIDIA's headers and linked with this library.
 */
#include "cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 16, PROPERTIES_BYTES = 600 /* less than in any version */ };

/* Names follow NVIDIA's, and no header declares them here. */
STANDIN_API int cudaGetDeviceCount(int *count);
STANDIN_API int cudaSetDevice(int device);
STANDIN_API int cudaGetDevice(int *device);
STANDIN_API int cudaGetDeviceProperties(void *properties, int device);
STANDIN_API int cudaGetDeviceProperties_v2(void *properties, int device);
STANDIN_API int cudaDeviceSynchronize(void);
STANDIN_API const char *cudaGetErrorString(int error);
STANDIN_API const char *cudaGetErrorName(int error);
STANDIN_API int cudaGetLastError(void);
STANDIN_API int cudaMalloc(void **ptr, size_t size);
STANDIN_API int cudaMallocManaged(void **ptr, size_t size, unsigned flags);
STANDIN_API int cudaFree(void *ptr);
STANDIN_API int cudaMemcpy(void *dst, const void *src, size_t size, int kind);
STANDIN_API int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream);
STANDIN_API int cudaMemset(void *ptr, int value, size_t size);
STANDIN_API int cudaStreamCreate(void **stream);
STANDIN_API int cudaStreamCreateWithFlags(void **stream, unsigned flags);
STANDIN_API int cudaStreamDestroy(void *stream);
STANDIN_API int cudaStreamSynchronize(void *stream);

static void *contexts[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The runtime keeps each device's context until the process ends. */
static int context_use(int device)
{
	int result = 0;

	if (device < 0 || device >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!contexts[device])
		result = cuDevicePrimaryCtxRetain(&contexts[device], device);
	pthread_mutex_unlock(&lock);
	return result ? result : cuCtxSetCurrent(contexts[device]);
}

/* A thread that has chosen no device uses the first one. */
static int begin(void)
{
	void *context = NULL;
	int result = cuInit(0);

	if (!result)
		result = cuCtxGetCurrent(&context);
	return result || context ? result : context_use(0);
}

/* ---------------------------------------------------------------------- devices -- */

int cudaGetDeviceCount(int *count)
{
	int result = cuInit(0);

	return result ? result : cuDeviceGetCount(count);
}

int cudaSetDevice(int device)
{
	int result = cuInit(0);

	return result ? result : context_use(device);
}

int cudaGetDevice(int *device)
{
	int result = begin();

	return result ? result : cuCtxGetDevice(device);
}

/* The name, which comes first in every version; the other members it sets to 0. */
int cudaGetDeviceProperties(void *properties, int device)
{
	memset(properties, 0, PROPERTIES_BYTES);
	return cuDeviceGetName(properties, 256, device);
}

int cudaGetDeviceProperties_v2(void *properties, int device)
{
	return cudaGetDeviceProperties(properties, device);
}

int cudaDeviceSynchronize(void)
{
	int result = begin();

	return result ? result : cuCtxSynchronize();
}

/* ----------------------------------------------------------------------- errors -- */

const char *cudaGetErrorString(int error)
{
	const char *text = NULL;

	return cuGetErrorString(error, &text) || !text ? "unknown error" : text;
}

const char *cudaGetErrorName(int error)
{
	const char *name = NULL;

	return cuGetErrorName(error, &name) || !name ? "unknown error" : name;
}

int cudaGetLastError(void)
{
	return 0;
}

/* ----------------------------------------------------------------------- memory -- */

int cudaMalloc(void **ptr, size_t size)
{
	CUdeviceptr address = 0;
	int result = begin();

	if (!result)
		result = cuMemAlloc_v2(&address, size);
	*ptr = (void *)(uintptr_t)address;
	return result;
}

int cudaMallocManaged(void **ptr, size_t size, unsigned flags)
{
	CUdeviceptr address = 0;
	int result = begin();

	if (!result)
		result = cuMemAllocManaged(&address, size, flags);
	*ptr = (void *)(uintptr_t)address;
	return result;
}

int cudaFree(void *ptr)
{
	int result = begin();

	return result || !ptr ? result : cuMemFree_v2((uintptr_t)ptr);
}

int cudaMemcpy(void *dst, const void *src, size_t size, int kind)
{
	int result = begin();

	(void)kind;
	return result ? result : cuMemcpy((uintptr_t)dst, (uintptr_t)src, size);
}

int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream)
{
	int result = begin();

	(void)kind;
	return result ? result : cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, size, stream);
}

int cudaMemset(void *ptr, int value, size_t size)
{
	int result = begin();

	if (!result)
		result = cuMemsetD8Async((uintptr_t)ptr, (unsigned char)value, size, NULL);
	return result ? result : cuStreamSynchronize(NULL);
}

/* ---------------------------------------------------------------------- streams -- */

int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
	int result = begin();

	return result ? result : cuStreamCreate(stream, flags);
}

int cudaStreamCreate(void **stream)
{
	return cudaStreamCreateWithFlags(stream, 0);
}

int cudaStreamDestroy(void *stream)
{
	return cuStreamDestroy_v2(stream);
}

int cudaStreamSynchronize(void *stream)
{
	int result = begin();

	return result ? result : cuStreamSynchronize(stream);
}
