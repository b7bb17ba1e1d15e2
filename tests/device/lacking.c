/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lacking.c - a program for driver.t: two ranks sum device memory.  In a driver from which driver.t has taken a function,
 * it finds that function by its place in the whole driver, so that only libcoll lacks it.
 *
 *   lacking BACKEND DRIVER   DRIVER: the file of the whole driver
 *
 * The exit status is 0 if the sum is right, and 1 after an error, which the program prints.
 */
#include <coll/coll.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1000 };

static struct {
	int (*init)(unsigned flags);
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*alloc)(unsigned long long *ptr, size_t bytes);
	int (*fill)(unsigned long long ptr, unsigned value, size_t count, void *stream);
	int (*copy)(unsigned long long dst, unsigned long long src, size_t n);
	int (*synchronize)(void);
} cuda;

static struct {
	void *lacking, *whole;
} driver;

/* Both drivers have the same code, and this function. */
static const char anchor[] = "standin_works";

static int find(const char *name, void *function)
{
	const char *there = dlsym(driver.whole, name), *base = dlsym(driver.whole, anchor);
	char *here = dlsym(driver.lacking, anchor);

	if (!there || !base || !here)
		return 0;
	here += there - base;
	memcpy(function, &here, sizeof(here));
	return 1;
}

static int open_driver(const char *whole)
{
	driver.lacking = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	driver.whole = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
	return driver.lacking && driver.whole && find("cuInit", &cuda.init) &&
	       find("cuDevicePrimaryCtxRetain", &cuda.retain) &&
	       find("cuCtxSetCurrent", &cuda.set) && find("cuMemAlloc_v2", &cuda.alloc) &&
	       find("cuMemsetD32Async", &cuda.fill) && find("cuMemcpy", &cuda.copy) &&
	       find("cuCtxSynchronize", &cuda.synchronize);
}

static int failed(int code, const char *what)
{
	if (code)
		printf("%s: %d, %s\n", what, code, coll_get_last_error(NULL));
	return code;
}

/* Memory of a device, with a value in each element. */
static int make(int device, unsigned value, int32_t **buf)
{
	unsigned long long ptr = 0;
	void *context = NULL;
	int code = cuda.retain(&context, device);

	code = code ? code : cuda.set(context);
	code = code ? code : cuda.alloc(&ptr, COUNT * sizeof(**buf));
	code = code ? code : cuda.fill(ptr, value, COUNT, NULL);
	*buf = (int32_t *)(uintptr_t)ptr;
	return code ? code : cuda.synchronize();
}

static int sum(coll_comm_t *comms, int32_t *const *bufs)
{
	int code = failed(coll_group_start(), "coll_group_start");

	for (int r = 0; r < 2 && !code; r++)
		code = failed(coll_allreduce(bufs[r], bufs[r], COUNT, COLL_INT32, COLL_SUM,
					     comms[r], NULL),
			      "coll_allreduce");
	code |= failed(coll_group_end(), "coll_group_end");
	for (int r = 0; r < 2 && !code; r++)
		code = failed(coll_sync(comms[r]), "coll_sync");
	return code;
}

int main(int argc, char **argv)
{
	coll_comm_t comms[2] = {NULL, NULL};
	int32_t *bufs[2], got[COUNT] = {0};
	coll_config_t config;
	int code = 0;

	if (argc < 3 || !open_driver(argv[2]) || cuda.init(0))
		return 2;
	coll_config_init(&config, sizeof(config));
	config.backend = argv[1];
	for (int r = 0; r < 2; r++)
		if (make(r, (unsigned)r + 1, &bufs[r]))
			return 2;
	if (failed(coll_comm_init_all(comms, 2, NULL, &config), "coll_comm_init_all"))
		return 1;
	code = sum(comms, bufs);
	for (int r = 0; r < 2 && !code; r++) {
		if (cuda.copy((uintptr_t)got, (uintptr_t)bufs[r], sizeof(got)))
			return 2;
		if (got[0] != 3 || got[COUNT - 1] != 3)
			return 3;
	}
	for (int r = 0; r < 2; r++)
		failed(coll_comm_destroy(comms[r]), "coll_comm_destroy");
	return code != 0;
}
