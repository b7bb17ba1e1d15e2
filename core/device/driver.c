/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - opens the CUDA driver and looks up the functions that each user needs. */
#include "device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct cuda_driver cuda_driver;

/* A function that a user does not need may be missing. */
static const struct {
	const char *symbol;
	size_t at;
	unsigned users;
} driver_functions[] = {
	{"cuInit", offsetof(struct cuda_driver, cuInit), DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuDriverGetVersion", offsetof(struct cuda_driver, cuDriverGetVersion),
	 DRIVER_NCCL | DRIVER_TESTS},
	{"cuGetErrorName", offsetof(struct cuda_driver, cuGetErrorName),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TESTS},
	{"cuGetErrorString", offsetof(struct cuda_driver, cuGetErrorString),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS},
	{"cuDeviceGetCount", offsetof(struct cuda_driver, cuDeviceGetCount),
	 DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuDeviceGet", offsetof(struct cuda_driver, cuDeviceGet),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuDeviceGetName", offsetof(struct cuda_driver, cuDeviceGetName),
	 DRIVER_NCCL | DRIVER_TESTS},
	{"cuDeviceGetAttribute", offsetof(struct cuda_driver, cuDeviceGetAttribute), DRIVER_NCCL},
	{"cuDevicePrimaryCtxRetain", offsetof(struct cuda_driver, cuDevicePrimaryCtxRetain),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuDevicePrimaryCtxRelease_v2", offsetof(struct cuda_driver, cuDevicePrimaryCtxRelease),
	 DRIVER_CORE},
	{"cuCtxGetCurrent", offsetof(struct cuda_driver, cuCtxGetCurrent),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuCtxSetCurrent", offsetof(struct cuda_driver, cuCtxSetCurrent), DRIVER_TESTS},
	{"cuCtxGetDevice", offsetof(struct cuda_driver, cuCtxGetDevice), DRIVER_NCCL},
	{"cuCtxPushCurrent_v2", offsetof(struct cuda_driver, cuCtxPushCurrent),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS},
	{"cuCtxPopCurrent_v2", offsetof(struct cuda_driver, cuCtxPopCurrent),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS},
	{"cuPointerGetAttributes", offsetof(struct cuda_driver, cuPointerGetAttributes),
	 DRIVER_CORE},
	{"cuMemAlloc_v2", offsetof(struct cuda_driver, cuMemAlloc),
	 DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuMemAllocManaged", offsetof(struct cuda_driver, cuMemAllocManaged),
	 DRIVER_TOOLS | DRIVER_TESTS},
	{"cuMemFree_v2", offsetof(struct cuda_driver, cuMemFree),
	 DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuMemHostAlloc", offsetof(struct cuda_driver, cuMemHostAlloc), DRIVER_CORE},
	{"cuMemFreeHost", offsetof(struct cuda_driver, cuMemFreeHost), DRIVER_CORE},
	{"cuMemcpyAsync", offsetof(struct cuda_driver, cuMemcpyAsync),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuMemsetD8Async", offsetof(struct cuda_driver, cuMemsetD8Async),
	 DRIVER_NCCL | DRIVER_TESTS},
	{"cuMemsetD32Async", offsetof(struct cuda_driver, cuMemsetD32Async),
	 DRIVER_TOOLS | DRIVER_TESTS},
	{"cuStreamCreate", offsetof(struct cuda_driver, cuStreamCreate),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuStreamDestroy_v2", offsetof(struct cuda_driver, cuStreamDestroy),
	 DRIVER_CORE | DRIVER_NCCL | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuStreamQuery", offsetof(struct cuda_driver, cuStreamQuery), DRIVER_NCCL | DRIVER_TESTS},
	{"cuStreamSynchronize", offsetof(struct cuda_driver, cuStreamSynchronize),
	 DRIVER_CORE | DRIVER_TOOLS | DRIVER_TESTS},
	{"cuStreamWaitEvent", offsetof(struct cuda_driver, cuStreamWaitEvent), DRIVER_NCCL},
	{"cuStreamGetCtx", offsetof(struct cuda_driver, cuStreamGetCtx), 0},
	{"cuStreamIsCapturing", offsetof(struct cuda_driver, cuStreamIsCapturing), 0},
	{"cuStreamWaitValue32_v2", offsetof(struct cuda_driver, cuStreamWaitValue32), 0},
	{"cuStreamWriteValue32_v2", offsetof(struct cuda_driver, cuStreamWriteValue32), 0},
	{"cuThreadExchangeStreamCaptureMode",
	 offsetof(struct cuda_driver, cuThreadExchangeStreamCaptureMode), 0},
	{"cuLaunchHostFunc", offsetof(struct cuda_driver, cuLaunchHostFunc),
	 DRIVER_TOOLS | DRIVER_TESTS},
	{"cuEventCreate", offsetof(struct cuda_driver, cuEventCreate), DRIVER_CORE | DRIVER_NCCL},
	{"cuEventDestroy_v2", offsetof(struct cuda_driver, cuEventDestroy),
	 DRIVER_CORE | DRIVER_NCCL},
	{"cuEventRecord", offsetof(struct cuda_driver, cuEventRecord), DRIVER_CORE | DRIVER_NCCL},
	{"cuEventQuery", offsetof(struct cuda_driver, cuEventQuery), DRIVER_CORE | DRIVER_NCCL},
};

enum { DRIVER_FUNCTIONS = sizeof(driver_functions) / sizeof(driver_functions[0]) };

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static void *driver_library; /* NULL: not open yet; the next caller tries again */

/* The lock is held. */
static void driver_load(void)
{
	driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	for (int i = 0; driver_library && i < DRIVER_FUNCTIONS; i++) {
		void *symbol = dlsym(driver_library, driver_functions[i].symbol);

		memcpy((char *)&cuda_driver + driver_functions[i].at, &symbol, sizeof(symbol));
	}
}

/* The name of the first function that the user needs and the driver lacks, or NULL. */
static const char *driver_lacks(unsigned user)
{
	for (int i = 0; i < DRIVER_FUNCTIONS; i++) {
		void *symbol;

		memcpy(&symbol, (char *)&cuda_driver + driver_functions[i].at, sizeof(symbol));
		if (!symbol && driver_functions[i].users & user)
			return driver_functions[i].symbol;
	}
	return NULL;
}

enum driver_result driver_open(unsigned user, const char **why)
{
	static _Thread_local char words[256];
	enum driver_result result = DRIVER_FOUND;

	pthread_mutex_lock(&driver_lock);
	if (!driver_library)
		driver_load();
	if (!driver_library) {
		const char *sentence = dlerror();

		snprintf(words, sizeof(words), "%s", sentence ? sentence : "no reason given");
		*why = words;
		result = DRIVER_ABSENT;
	} else {
		*why = driver_lacks(user);
		result = *why ? DRIVER_INCOMPLETE : DRIVER_FOUND;
	}
	pthread_mutex_unlock(&driver_lock);
	return result;
}
