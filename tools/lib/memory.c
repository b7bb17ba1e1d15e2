/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory and streams of CUDA devices.
 *
 * Names, types and numbers are those of the document "CUDA Driver API" (docs.nvidia.com,
 * cuda-driver-api).
 */
#include "lib/memory.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_DEVICES = 64 };

/* CU_MEM_ATTACH_GLOBAL and CU_STREAM_NON_BLOCKING. */
enum { MEMORY_ATTACH_GLOBAL = 1, MEMORY_NON_BLOCKING = 1 };

/* CU_STREAM_PER_THREAD: the default stream may return before a copy to a device is done. */
#define MEMORY_OWN_STREAM ((void *)2)

/* CUdeviceptr; CUcontext and CUstream are pointers, CUdevice and CUresult ints. */
typedef unsigned long long memory_ptr;

struct memory_driver {
	int (*init)(unsigned flags);
	int (*error_string)(int result, const char **text);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*primary_retain)(void **context, int device);
	int (*context_current)(void **context);
	int (*context_push)(void *context);
	int (*context_pop)(void **context);
	int (*alloc)(memory_ptr *ptr, size_t bytes);
	int (*alloc_managed)(memory_ptr *ptr, size_t bytes, unsigned flags);
	int (*release)(memory_ptr ptr);
	int (*copy)(memory_ptr dst, memory_ptr src, size_t n, void *stream);
	int (*fill)(memory_ptr dst, unsigned word, size_t count, void *stream);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_wait)(void *stream);
	int (*stream_call)(void *stream, void (*fn)(void *arg), void *arg);
};

static const struct {
	const char *symbol;
	size_t at;
} memory_symbols[] = {
	{"cuInit", offsetof(struct memory_driver, init)},
	{"cuGetErrorString", offsetof(struct memory_driver, error_string)},
	{"cuDeviceGetCount", offsetof(struct memory_driver, device_count)},
	{"cuDeviceGet", offsetof(struct memory_driver, device_get)},
	{"cuDevicePrimaryCtxRetain", offsetof(struct memory_driver, primary_retain)},
	{"cuCtxGetCurrent", offsetof(struct memory_driver, context_current)},
	{"cuCtxPushCurrent_v2", offsetof(struct memory_driver, context_push)},
	{"cuCtxPopCurrent_v2", offsetof(struct memory_driver, context_pop)},
	{"cuMemAlloc_v2", offsetof(struct memory_driver, alloc)},
	{"cuMemAllocManaged", offsetof(struct memory_driver, alloc_managed)},
	{"cuMemFree_v2", offsetof(struct memory_driver, release)},
	{"cuMemcpyAsync", offsetof(struct memory_driver, copy)},
	{"cuMemsetD32Async", offsetof(struct memory_driver, fill)},
	{"cuStreamCreate", offsetof(struct memory_driver, stream_create)},
	{"cuStreamDestroy_v2", offsetof(struct memory_driver, stream_destroy)},
	{"cuStreamSynchronize", offsetof(struct memory_driver, stream_wait)},
	{"cuLaunchHostFunc", offsetof(struct memory_driver, stream_call)},
};

enum { MEMORY_SYMBOLS = sizeof(memory_symbols) / sizeof(memory_symbols[0]) };

/* Of the process; not changed any more once memory_once is over. */
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;
static struct memory_driver memory_driver;
static int memory_count;
static char memory_absent[200];

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void *memory_primary[MEMORY_DEVICES];

static _Thread_local char memory_words[300];

const char *memory_error(void)
{
	return memory_words;
}

static int memory_failed(const char *what, int result)
{
	const char *text = NULL;

	if (memory_driver.error_string(result, &text) || !text)
		text = "unknown to this driver";
	snprintf(memory_words, sizeof(memory_words), "%s: error %d of the CUDA driver: %s", what,
		 result, text);
	return -1;
}

/* ------------------------------------------------------------------- opening -- */

static int memory_find_symbols(void *library)
{
	for (int i = 0; i < MEMORY_SYMBOLS; i++) {
		void *symbol = dlsym(library, memory_symbols[i].symbol);

		if (!symbol) {
			snprintf(memory_absent, sizeof(memory_absent),
				 "the CUDA driver (libcuda.so.1) has no '%s'",
				 memory_symbols[i].symbol);
			return -1;
		}
		memcpy((char *)&memory_driver + memory_symbols[i].at, &symbol, sizeof(symbol));
	}
	return 0;
}

static void memory_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *words;
	int result;

	if (!library) {
		words = dlerror();
		snprintf(memory_absent, sizeof(memory_absent), "no CUDA driver: %s", words);
		return;
	}
	if (memory_find_symbols(library)) {
		dlclose(library);
		return;
	}
	result = memory_driver.init(0);
	if (!result)
		result = memory_driver.device_count(&memory_count);
	if (result) {
		memory_failed("no CUDA device can be used", result);
		memory_count = 0;
		snprintf(memory_absent, sizeof(memory_absent), "%.190s", memory_words);
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
		snprintf(memory_words, sizeof(memory_words), "%s", memory_absent);
	return memory_count;
}

/* ------------------------------------------------------------------ contexts -- */

static int memory_hold(int ordinal, void **context)
{
	int result = 0, device;

	pthread_mutex_lock(&memory_lock);
	if (!memory_primary[ordinal]) {
		result = memory_driver.device_get(&device, ordinal);
		if (!result)
			result = memory_driver.primary_retain(&memory_primary[ordinal], device);
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
		snprintf(memory_words, sizeof(memory_words),
			 "there is no CUDA device %d, only %d of them", device, memory_count);
		return -1;
	}
	result = memory_hold(device, &context);
	if (!result)
		result = memory_driver.context_push(context);
	return result ? memory_failed("a device's context", result) : 0;
}

void memory_leave(void)
{
	void *context;

	memory_driver.context_pop(&context);
}

void *memory_context(void)
{
	void *context = NULL;

	if (memory_devices())
		memory_driver.context_current(&context);
	return context;
}

/* -------------------------------------------------------------------- memory -- */

void *memory_new(enum memory_kind kind, int device, size_t bytes)
{
	memory_ptr ptr = 0;
	int result;

	if (kind == MEMORY_HOST) {
		void *host = malloc(bytes ? bytes : 1);

		if (!host)
			snprintf(memory_words, sizeof(memory_words), "no memory for %zu bytes",
				 bytes);
		return host;
	}
	if (memory_enter(device))
		return NULL;
	if (kind == MEMORY_MANAGED)
		result = memory_driver.alloc_managed(&ptr, bytes ? bytes : 1, MEMORY_ATTACH_GLOBAL);
	else
		result = memory_driver.alloc(&ptr, bytes ? bytes : 1);
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
		memory_driver.release((uintptr_t)ptr);
		memory_leave();
	}
}

int memory_copy(int device, void *dst, const void *src, size_t n)
{
	int code = memory_stream_copy(device, MEMORY_OWN_STREAM, dst, src, n);

	return code ? code : memory_stream_wait(device, MEMORY_OWN_STREAM);
}

/* ------------------------------------------------------------------- streams -- */

void *memory_stream_new(int device)
{
	void *stream = NULL;
	int result;

	if (memory_enter(device))
		return NULL;
	result = memory_driver.stream_create(&stream, MEMORY_NON_BLOCKING);
	memory_leave();
	if (result)
		memory_failed("a stream", result);
	return result ? NULL : stream;
}

void memory_stream_free(int device, void *stream)
{
	if (!stream || memory_enter(device))
		return;
	memory_driver.stream_destroy(stream);
	memory_leave();
}

int memory_stream_fill(int device, void *stream, void *dst, uint32_t word, size_t count)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = memory_driver.fill((uintptr_t)dst, word, count, stream);
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
	result = memory_driver.copy((uintptr_t)dst, (uintptr_t)src, n, stream);
	memory_leave();
	return result ? memory_failed("a copy", result) : 0;
}

int memory_stream_call(int device, void *stream, void (*fn)(void *arg), void *arg)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = memory_driver.stream_call(stream, fn, arg);
	memory_leave();
	return result ? memory_failed("a function on a stream", result) : 0;
}

int memory_stream_wait(int device, void *stream)
{
	int result;

	if (memory_enter(device))
		return -1;
	result = memory_driver.stream_wait(stream);
	memory_leave();
	return result ? memory_failed("waiting for a stream", result) : 0;
}
