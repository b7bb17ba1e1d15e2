/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_driver.c - the CUDA driver, opened at run time; memory, streams and gates. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "gpu_driver.h"

struct gpu_driver gpu_driver;

/* Returns the name of the first function that is missing, or NULL. */
static const char *driver_load(void *library)
{
	struct gpu_driver *d = &gpu_driver;
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{"cuInit", &d->init},
		{"cuDriverGetVersion", &d->version},
		{"cuDeviceGetCount", &d->device_count},
		{"cuDeviceGet", &d->device_get},
		{"cuDeviceGetName", &d->device_name},
		{"cuDevicePrimaryCtxRetain", &d->context_retain},
		{"cuCtxGetCurrent", &d->context_get},
		{"cuCtxSetCurrent", &d->context_set},
		{"cuMemAlloc_v2", &d->alloc},
		{"cuMemAllocManaged", &d->alloc_managed},
		{"cuMemFree_v2", &d->free},
		{"cuMemcpyAsync", &d->copy},
		{"cuMemsetD8Async", &d->fill},
		{"cuMemsetD32Async", &d->fill_words},
		{"cuStreamCreate", &d->stream_create},
		{"cuStreamDestroy_v2", &d->stream_destroy},
		{"cuStreamQuery", &d->stream_query},
		{"cuStreamSynchronize", &d->stream_synchronize},
		{"cuLaunchHostFunc", &d->launch_host},
		{"cuGetErrorName", &d->error_name},
	};
	void *symbol;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		symbol = dlsym(library, functions[i].name);
		if (!symbol)
			return functions[i].name;
		memcpy(functions[i].slot, &symbol, sizeof(symbol));
	}
	return NULL;
}

static const char *driver_error(int code)
{
	const char *name = NULL;

	return gpu_driver.error_name(code, &name) || !name ? "an unknown error" : name;
}

int gpu_driver_open(char *why, size_t size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *missing;
	int code, count = 0;

	if (!library) {
		snprintf(why, size, "%s", dlerror());
		return 0;
	}
	missing = driver_load(library);
	if (missing) {
		snprintf(why, size, "libcuda.so.1 has no %s", missing);
		return 0;
	}
	code = gpu_driver.init(0);
	if (!code)
		code = gpu_driver.device_count(&count);
	if (code || !count)
		snprintf(why, size, "libcuda.so.1: %s", code ? driver_error(code) : "no device");
	gpu_driver.standin = dlsym(library, "standin_stream_do") != NULL;
	return code ? 0 : count;
}

void gpu_must(int code, const char *what)
{
	if (!code)
		return;
	printf("not ok|%s: %s (%d)\n", what, driver_error(code), code);
	exit(1);
}

void gpu_use(int ordinal)
{
	void *context;
	int device;

	gpu_must(gpu_driver.device_get(&device, ordinal), "cuDeviceGet");
	gpu_must(gpu_driver.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
	gpu_must(gpu_driver.context_set(context), "cuCtxSetCurrent");
}

/* ------------------------------------------------------------- memory, streams -- */

void *gpu_alloc(size_t bytes, int managed)
{
	enum { ATTACH_GLOBAL = 1 };
	unsigned long long ptr = 0;
	int code = managed ? gpu_driver.alloc_managed(&ptr, bytes, ATTACH_GLOBAL)
			   : gpu_driver.alloc(&ptr, bytes);

	return code ? NULL : (void *)(uintptr_t)ptr;
}

void gpu_free(void *ptr)
{
	if (ptr)
		gpu_must(gpu_driver.free((uintptr_t)ptr), "cuMemFree");
}

void *gpu_stream(void)
{
	void *stream;

	gpu_must(gpu_driver.stream_create(&stream, GPU_STREAM_NON_BLOCKING), "cuStreamCreate");
	return stream;
}

/* A stream for copies in the context that is current. */
static void *copy_stream(void)
{
	static _Thread_local void *stream, *context;
	void *current = NULL;

	gpu_must(gpu_driver.context_get(&current), "cuCtxGetCurrent");
	if (stream && context != current) {
		gpu_must(gpu_driver.stream_destroy(stream), "cuStreamDestroy");
		stream = NULL;
	}
	if (!stream)
		stream = gpu_stream();
	context = current;
	return stream;
}

/*
 * By a stream, since the plain call may come back before pageable memory has arrived, and another
 * stream would not wait for the rest.
 */
void gpu_copy(void *dst, const void *src, size_t n)
{
	void *stream = copy_stream();

	if (n)
		gpu_must(gpu_driver.copy((uintptr_t)dst, (uintptr_t)src, n, stream),
			 "cuMemcpyAsync");
	gpu_must(gpu_driver.stream_synchronize(stream), "cuStreamSynchronize");
}

/* ------------------------------------------------------------------ gates, time -- */

static void gate_wait(void *arg)
{
	struct gpu_gate *gate = arg;
	double deadline = gpu_now() + 20;

	while (!gate->open && gpu_now() < deadline)
		gpu_sleep(0.0002);
	gate->passed = 1;
}

void gpu_gate_close(struct gpu_gate *gate, void *stream)
{
	gate->open = 0;
	gate->passed = 0;
	gpu_must(gpu_driver.launch_host(stream, gate_wait, gate), "cuLaunchHostFunc");
}

/* Returns when the stream has passed it, so that the gate may be used again. */
void gpu_gate_open(struct gpu_gate *gate)
{
	double deadline = gpu_now() + 30;

	gate->open = 1;
	while (!gate->passed && gpu_now() < deadline)
		gpu_sleep(0.0002);
}

double gpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void gpu_sleep(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&t, NULL);
}
