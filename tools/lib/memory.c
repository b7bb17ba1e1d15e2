/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory and streams of CUDA devices. */
#include "lib/memory.h"
#include "device/driver.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_DEVICES = 64 };

/* Shared by all threads; constant once memory_once has run. */
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;
static int memory_count;
static char memory_absent[200];

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void *memory_primary[MEMORY_DEVICES];

static _Thread_local char memory_error_text[300];

const char *memory_error(void)
{
	return memory_error_text;
}

static int memory_failed(const char *what, int result)
{
	const char *text = NULL;

	if (cuda_driver.cuGetErrorString(result, &text) || !text)
		text = "unknown to this driver";
	snprintf(memory_error_text, sizeof(memory_error_text),
		 "%s: error %d of the CUDA driver: %s", what, result, text);
	return -1;
}

/* ------------------------------------------------------------------- opening -- */

static void memory_load(void)
{
	const char *why;
	int result;

	switch (driver_open(DRIVER_TOOLS, &why)) {
	case DRIVER_ABSENT:
		snprintf(memory_absent, sizeof(memory_absent), "no CUDA driver: %s", why);
		return;
	case DRIVER_INCOMPLETE:
		snprintf(memory_absent, sizeof(memory_absent),
			 "the CUDA driver (libcuda.so.1) has no '%s'", why);
		return;
	default: break;
	}
	result = cuda_driver.cuInit(0);
	if (!result)
		result = cuda_driver.cuDeviceGetCount(&memory_count);
	if (result) {
		memory_failed("no CUDA device can be used", result);
		memory_count = 0;
		snprintf(memory_absent, sizeof(memory_absent), "%.190s", memory_error_text);
	} else if (memory_count == 0) {
		snprintf(memory_absent, sizeof(memory_absent), "there is no CUDA device");
	}
	if (memory_count > MEMORY_DEVICES)
		memory_count = MEMORY_DEVICES;
}

int memory_devices(void)
{
	pthread_once(&memory_once, memory_load);
	if (!memory_count)
		snprintf(memory_error_text, sizeof(memory_error_text), "%s", memory_absent);
	return memory_count;
}

/* ------------------------------------------------------------------ contexts -- */

static int memory_hold(int ordinal, void **context)
{
	int result = 0, device;

	pthread_mutex_lock(&memory_lock);
	if (!memory_primary[ordinal]) {
		result = cuda_driver.cuDeviceGet(&device, ordinal);
		if (!result)
			result = cuda_driver.cuDevicePrimaryCtxRetain(&memory_primary[ordinal],
								      device);
	}
	*context = memory_primary[ordinal];
	pthread_mutex_unlock(&memory_lock);
	return result;
}

int memory_enter(int device)
{
	void *context;
	int result;

	if (!memory_devices())
		return -1;
	if (device < 0 || device >= memory_count) {
		snprintf(memory_error_text, sizeof(memory_error_text),
			 "there is no CUDA device %d, only %d of them", device, memory_count);
		return -1;
	}
	result = memory_hold(device, &context);
	if (!result)
		result = cuda_driver.cuCtxPushCurrent(context);
	return result ? memory_failed("a device's context", result) : 0;
}

void memory_leave(void)
{
	void *context;

	cuda_driver.cuCtxPopCurrent(&context);
}

void *memory_context(void)
{
	void *context = NULL;

	if (memory_devices())
		cuda_driver.cuCtxGetCurrent(&context);
	return context;
}

/* -------------------------------------------------------------------- memory -- */

void *memory_new(enum memory_kind kind, int device, size_t bytes)
{
	cuda_ptr_t ptr = 0;
	int result;

	if (kind == MEMORY_HOST) {
		void *host = malloc(bytes ? bytes : 1);

		if (!host)
			snprintf(memory_error_text, sizeof(memory_error_text),
				 "no memory for %zu bytes", bytes);
		return host;
	}
	if (memory_enter(device))
		return NULL;
	if (kind == MEMORY_MANAGED)
		result = cuda_driver.cuMemAllocManaged(&ptr, bytes ? bytes : 1, CUDA_ATTACH_GLOBAL);
	else
		result = cuda_driver.cuMemAlloc(&ptr, bytes ? bytes : 1);
	memory_leave();
	if (result)
		memory_failed("memory of a device", result);
	return result ? NULL : (void *)(uintptr_t)ptr;
}

void memory_free(enum memory_kind kind, int device, void *ptr)
{
	if (kind == MEMORY_HOST) {
		free(ptr);
	} else if (ptr && !memory_enter(device)) {
		cuda_driver.cuMemFree((uintptr_t)ptr);
		memory_leave();
	}
}

int memory_copy(int device, void *dst, const void *src, size_t n)
{
	int code = memory_stream_copy(device, CUDA_PER_THREAD_STREAM, dst, src, n);

	return code ? code : memory_stream_wait(device, CUDA_PER_THREAD_STREAM);
}

/* ------------------------------------------------------------------- streams -- */

void *memory_stream_new(int device)
{
	void *stream = NULL;
	int result;

	if (memory_enter(device))
		return NULL;
	result = cuda_driver.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING);
	memory_leave();
	if (result)
		memory_failed("a stream", result);
	return result ? NULL : stream;
}

void memory_stream_free(int device, void *stream)
{
	if (!stream || memory_enter(device))
		return;
	cuda_driver.cuStreamDestroy(stream);
	memory_leave();
}

int memory_stream_fill(int device, void *stream, void *dst, uint32_t word, size_t count)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = cuda_driver.cuMemsetD32Async((uintptr_t)dst, word, count, stream);
	memory_leave();
	return result ? memory_failed("filling memory", result) : 0;
}

int memory_stream_copy(int device, void *stream, void *dst, const void *src, size_t n)
{
	int result;

	if (!n)
		return 0;
	if (memory_enter(device))
		return -1;
	result = cuda_driver.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, n, stream);
	memory_leave();
	return result ? memory_failed("a copy", result) : 0;
}

int memory_stream_call(int device, void *stream, void (*fn)(void *arg), void *arg)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = cuda_driver.cuLaunchHostFunc(stream, fn, arg);
	memory_leave();
	return result ? memory_failed("a function on a stream", result) : 0;
}

int memory_stream_wait(int device, void *stream)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = cuda_driver.cuStreamSynchronize(stream);
	memory_leave();
	return result ? memory_failed("waiting for a stream", result) : 0;
}
