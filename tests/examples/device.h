/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - memory of a CUDA device for an example, by the driver's API (docs.nvidia.com, cuda-driver-api).  The
 * driver is opened at run time, so that the example builds and runs without one.
 */
#ifndef TESTS_EXAMPLES_DEVICE_H
#define TESTS_EXAMPLES_DEVICE_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*init)(unsigned flags);
	int (*count)(int *n);
	int (*retain)(void **context, int device);
	int (*set_current)(void *context);
	int (*alloc)(unsigned long long *ptr, size_t bytes);
	int (*free)(unsigned long long ptr);
	int (*copy)(unsigned long long dst, unsigned long long src, size_t bytes);
} device_driver;

/* Ends the program if a call has failed. */
static void device_check(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "the CUDA driver: %s failed (%d)\n", what, failed);
	exit(1);
}

static void device_find(void *library, const char *name, void *function)
{
	void *symbol = library ? dlsym(library, name) : NULL;

	device_check(!symbol, name);
	memcpy(function, &symbol, sizeof(symbol));
}

/* Before any other thread runs. */
static void device_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	device_find(library, "cuInit", &device_driver.init);
	device_find(library, "cuDeviceGetCount", &device_driver.count);
	device_find(library, "cuDevicePrimaryCtxRetain", &device_driver.retain);
	device_find(library, "cuCtxSetCurrent", &device_driver.set_current);
	device_find(library, "cuMemAlloc_v2", &device_driver.alloc);
	device_find(library, "cuMemFree_v2", &device_driver.free);
	device_find(library, "cuMemcpy", &device_driver.copy);
	device_check(device_driver.init(0), "cuInit");
}

/* The calling thread uses the device of its rank from now on. */
static void device_use(int rank)
{
	void *context = NULL;
	int n = 0;

	device_check(device_driver.count(&n) || n < 1, "cuDeviceGetCount");
	device_check(device_driver.retain(&context, rank % n), "cuDevicePrimaryCtxRetain");
	device_check(device_driver.set_current(context), "cuCtxSetCurrent");
}

static void *device_alloc(size_t bytes)
{
	unsigned long long ptr = 0;

	device_check(device_driver.alloc(&ptr, bytes), "cuMemAlloc");
	return (void *)(uintptr_t)ptr;
}

static void device_free(void *ptr)
{
	device_check(device_driver.free((uintptr_t)ptr), "cuMemFree");
}

/* Between memory of any kinds; waits until the copy is complete. */
static void device_copy(void *dst, const void *src, size_t bytes)
{
	device_check(device_driver.copy((uintptr_t)dst, (uintptr_t)src, bytes), "cuMemcpy");
}

#endif
