/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_driver.c - the CUDA driver, opened at run time; memory, streams and gates. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "gpu_driver.h"

int gpu_is_standin;

static const char *driver_error(int code)
{
	const char *name = NULL;

	return cuda_driver.cuGetErrorName(code, &name) || !name ? "an unknown error" : name;
}

int gpu_driver_open(char *why, size_t size)
{
	const char *reason;
	void *library;
	int code, count = 0;

	switch (driver_open(DRIVER_TESTS, &reason)) {
	case DRIVER_ABSENT: snprintf(why, size, "%s", reason); return 0;
	case DRIVER_INCOMPLETE: snprintf(why, size, "libcuda.so.1 has no %s", reason); return 0;
	default: break;
	}
	code = cuda_driver.cuInit(0);
	if (!code)
		code = cuda_driver.cuDeviceGetCount(&count);
	if (code || !count)
		snprintf(why, size, "libcuda.so.1: %s", code ? driver_error(code) : "no device");
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* the driver is already open */
	gpu_is_standin = library && dlsym(library, "standin_stream_do");
	return code ? 0 : count;
}

int gpu_symbol(const char *name, void *function)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, name) : NULL;

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
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

	gpu_must(cuda_driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
	gpu_must(cuda_driver.cuDevicePrimaryCtxRetain(&context, device),
		 "cuDevicePrimaryCtxRetain");
	gpu_must(cuda_driver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/* ------------------------------------------------------------- memory, streams -- */

void *gpu_alloc(size_t bytes, int managed)
{
	enum { ATTACH_GLOBAL = 1 };
	unsigned long long ptr = 0;
	int code = managed ? cuda_driver.cuMemAllocManaged(&ptr, bytes, ATTACH_GLOBAL)
			   : cuda_driver.cuMemAlloc(&ptr, bytes);

	return code ? NULL : (void *)(uintptr_t)ptr;
}

void gpu_free(void *ptr)
{
	if (ptr)
		gpu_must(cuda_driver.cuMemFree((uintptr_t)ptr), "cuMemFree");
}

void *gpu_stream(void)
{
	void *stream;

	gpu_must(cuda_driver.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
	return stream;
}

/* Makes a stream for copies in the current context. */
static void *copy_stream(void)
{
	static _Thread_local void *stream, *context;
	void *current = NULL;

	gpu_must(cuda_driver.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
	if (stream && context != current) {
		gpu_must(cuda_driver.cuStreamDestroy(stream), "cuStreamDestroy");
		stream = NULL;
	}
	if (!stream)
		stream = gpu_stream();
	context = current;
	return stream;
}

/*
 * Copies on a stream, since the plain call may return before pageable memory has arrived, and
 * another stream would not wait for the rest.
 */
void gpu_copy(void *dst, const void *src, size_t n)
{
	void *stream = copy_stream();

	if (n)
		gpu_must(cuda_driver.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, n, stream),
			 "cuMemcpyAsync");
	gpu_must(cuda_driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
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
	gpu_must(cuda_driver.cuLaunchHostFunc(stream, gate_wait, gate), "cuLaunchHostFunc");
}

/* Returns when the stream has passed the gate, so that the gate may be reused. */
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
