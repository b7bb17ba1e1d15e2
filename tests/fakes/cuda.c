/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.c - a stand-in for the CUDA driver (libcuda.so.1), so that tests of device memory and
 * streams need no device.  Built for tests only.
 *
 * The stand-in behaves as the document "CUDA Driver API" says, in the worst way that the document
 * allows: a host access to device memory crashes, threads do the work on streams later, freeing
 * memory does not wait for work that uses it, and a broken context stays broken.
 *
 * This file: the process, devices and contexts.
 */
#include "cuda_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STANDIN_DEEP = 16, STANDIN_VERSION = 13000 };

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
unsigned long standin_clock;

/* Read without the lock, because in a child the lock may stay locked for ever. */
static atomic_int standin_process; /* the process that has called cuInit */
static int standin_count;          /* number of devices; constant after cuInit */

static struct standin_context standin_primary[STANDIN_DEVICES];

static _Thread_local struct standin_context *standin_stack[STANDIN_DEEP];
static _Thread_local int standin_depth;

/* The number in an environment variable, or 0; *after: the number that follows an '@'. */
int standin_fault(const char *name, unsigned long *after)
{
	const char *text = getenv(name), *at = text ? strchr(text, '@') : NULL;

	*after = at ? strtoul(at + 1, NULL, 10) : 0;
	return text ? atoi(text) : 0;
}

/* The code with which a call must fail that has `before` calls of its kind before it, or 0. */
int standin_injected(const char *name, unsigned long before)
{
	unsigned long after;
	int code = standin_fault(name, &after);

	return before >= after ? code : CUDA_SUCCESS;
}

/* ------------------------------------------------------------------- process -- */

static int standin_count_devices(void)
{
	const char *text = getenv("STANDIN_CUDA_DEVICES");
	int n = text ? atoi(text) : 2;

	return n < 0 ? 0 : n > STANDIN_DEVICES ? STANDIN_DEVICES : n;
}

int cuInit(unsigned flags)
{
	int fault = standin_injected("STANDIN_CUDA_INIT", 0), code = CUDA_SUCCESS;

	if (flags || fault)
		return flags ? CUDA_ERROR_INVALID_VALUE : fault;
	if (standin_process)
		return standin_process_ok();
	pthread_mutex_lock(&standin_lock);
	if (!standin_process) {
		standin_count = standin_count_devices();
		for (int d = 0; d < STANDIN_DEVICES; d++)
			standin_primary[d].device = d;
		if (standin_count)
			standin_process = getpid();
		else
			code = CUDA_ERROR_NO_DEVICE;
	}
	pthread_mutex_unlock(&standin_lock);
	return code;
}

/* A child of a process that uses CUDA cannot use CUDA, nor can a function that runs on a stream. */
int standin_process_ok(void)
{
	if (standin_injected("STANDIN_CUDA_INIT", 0) == CUDA_ERROR_STUB_LIBRARY)
		return CUDA_ERROR_STUB_LIBRARY;
	if (standin_worker)
		return CUDA_ERROR_NOT_PERMITTED;
	return standin_process == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int cuDriverGetVersion(int *version)
{
	const char *text = getenv("STANDIN_CUDA_VERSION");

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = text ? atoi(text) : STANDIN_VERSION;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------- devices -- */

static int standin_device_ok(int device)
{
	int code = standin_process_ok();

	if (code)
		return code;
	return device >= 0 && device < standin_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int cuDeviceGetCount(int *count)
{
	int code = standin_process_ok();

	if (!code)
		*count = standin_count;
	return code;
}

int cuDeviceGet(int *device, int ordinal)
{
	int code = standin_device_ok(ordinal);

	if (!code)
		*device = ordinal;
	return code;
}

int cuDeviceGetName(char *name, int size, int device)
{
	int code = standin_device_ok(device);

	if (code || !name || size <= 0)
		return code ? code : CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)size, "stand-in %d", device);
	return CUDA_SUCCESS;
}

static const struct {
	int attribute, value;
} standin_attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
	{CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
	{CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
};

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	int code = standin_device_ok(device);

	if (code)
		return code;
	*value = device;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)
		return CUDA_SUCCESS;
	for (size_t i = 0; i < sizeof(standin_attributes) / sizeof(standin_attributes[0]); i++)
		if (standin_attributes[i].attribute == attribute) {
			*value = standin_attributes[i].value;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ------------------------------------------------------------------ contexts -- */

/* After a return of 0 the calling thread has a current context and holds the lock. */
int standin_begin(struct standin_context **context)
{
	int code = standin_process_ok();

	if (code || !standin_depth)
		return code ? code : CUDA_ERROR_INVALID_CONTEXT;
	*context = standin_stack[standin_depth - 1];
	pthread_mutex_lock(&standin_lock);
	return (*context)->refs ? CUDA_SUCCESS : standin_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* The same, and the context is not broken. */
int standin_enter(struct standin_context **context)
{
	int code = standin_begin(context);

	return !code && (*context)->broken ? standin_leave((*context)->broken) : code;
}

int standin_leave(int code)
{
	pthread_mutex_unlock(&standin_lock);
	return code;
}

int cuCtxGetCurrent(void **context)
{
	int code = standin_process_ok();

	if (!code)
		*context = standin_depth ? standin_stack[standin_depth - 1] : NULL;
	return code;
}

static int standin_is_context(const struct standin_context *context)
{
	int known = 0;

	pthread_mutex_lock(&standin_lock);
	for (int d = 0; d < standin_count; d++)
		known |= context == &standin_primary[d] && context->refs > 0;
	pthread_mutex_unlock(&standin_lock);
	return known;
}

int cuCtxPushCurrent_v2(void *context)
{
	int code = standin_process_ok();

	if (code)
		return code;
	if (!standin_is_context(context) || standin_depth == STANDIN_DEEP)
		return CUDA_ERROR_INVALID_CONTEXT;
	standin_stack[standin_depth++] = context;
	return CUDA_SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
	int code = standin_process_ok();

	if (code || !standin_depth)
		return code ? code : CUDA_ERROR_INVALID_CONTEXT;
	standin_depth--;
	if (context)
		*context = standin_stack[standin_depth];
	return CUDA_SUCCESS;
}

int cuCtxSetCurrent(void *context)
{
	int code = standin_process_ok();

	if (code)
		return code;
	if (context && !standin_is_context(context))
		return CUDA_ERROR_INVALID_CONTEXT;
	standin_depth -= standin_depth > 0;
	if (context)
		standin_stack[standin_depth++] = context;
	return CUDA_SUCCESS;
}

int cuCtxGetDevice(int *device)
{
	struct standin_context *context;
	int code = standin_begin(&context);

	if (code)
		return code;
	*device = context->device;
	return standin_leave(CUDA_SUCCESS);
}

int cuCtxSynchronize(void)
{
	struct standin_context *context;
	int code = standin_enter(&context);

	return code ? code : standin_leave(standin_streams_await(context));
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	int code = standin_device_ok(device);

	if (code)
		return code;
	pthread_mutex_lock(&standin_lock);
	standin_primary[device].refs++;
	*context = &standin_primary[device];
	return standin_leave(CUDA_SUCCESS);
}

/* The last release ends the context with all its memory, streams and events. */
int cuDevicePrimaryCtxRelease_v2(int device)
{
	struct standin_context *context;
	int code = standin_device_ok(device);

	if (code)
		return code;
	context = &standin_primary[device];
	pthread_mutex_lock(&standin_lock);
	if (!context->refs)
		return standin_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (--context->refs == 0) {
		standin_events_end(context);
		standin_streams_end(context);
		standin_memory_end(context);
	}
	return standin_leave(CUDA_SUCCESS);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	int code = standin_device_ok(device);

	if (code)
		return code;
	pthread_mutex_lock(&standin_lock);
	*flags = 0;
	*active = standin_primary[device].refs > 0;
	return standin_leave(CUDA_SUCCESS);
}

/* --------------------------------------------------------------- queries by tests -- */

int standin_held(int device)
{
	int refs;

	pthread_mutex_lock(&standin_lock);
	refs = standin_primary[device].refs;
	pthread_mutex_unlock(&standin_lock);
	return refs;
}

int standin_contexts_pushed(void)
{
	return standin_depth;
}

void standin_heal(int device)
{
	pthread_mutex_lock(&standin_lock);
	standin_primary[device].broken = CUDA_SUCCESS;
	pthread_mutex_unlock(&standin_lock);
}
