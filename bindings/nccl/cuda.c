/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.c - the functions of the CUDA driver that the library needs, opened at run time. */
#include "dropin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

/* Names, types and numbers are those of the document "CUDA Driver API". */
static struct {
	int (*cuInit)(unsigned flags);
	int (*cuGetErrorString)(int result, const char **text);
	int (*cuDeviceGetCount)(int *count);
	int (*cuDevicePrimaryCtxRetain)(void **context, int device);
	int (*cuDevicePrimaryCtxRelease)(int device);
	int (*cuCtxGetCurrent)(void **context);
	int (*cuCtxGetDevice)(int *device);
	int (*cuCtxPushCurrent)(void *context);
	int (*cuCtxPopCurrent)(void **context);
	int (*cuPointerGetAttribute)(void *value, int attribute, unsigned long long ptr);
	int (*cuMemAlloc)(unsigned long long *ptr, size_t bytes);
	int (*cuMemFree)(unsigned long long ptr);
	int (*cuStreamCreate)(void **stream, unsigned flags);
	int (*cuStreamDestroy)(void *stream);
	int (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
	int (*cuEventCreate)(void **event, unsigned flags);
	int (*cuEventDestroy)(void *event);
	int (*cuEventRecord)(void *event, void *stream);
} cuda;

static const struct {
	const char *name;
	size_t at;
} cuda_symbols[] = {
#define CUDA_SYMBOL(FIELD, VERSION)                                                                \
	{                                                                                          \
#FIELD VERSION, offsetof(__typeof__(cuda), FIELD)                                  \
	}
	CUDA_SYMBOL(cuInit, ""),
	CUDA_SYMBOL(cuGetErrorString, ""),
	CUDA_SYMBOL(cuDeviceGetCount, ""),
	CUDA_SYMBOL(cuDevicePrimaryCtxRetain, ""),
	CUDA_SYMBOL(cuDevicePrimaryCtxRelease, "_v2"),
	CUDA_SYMBOL(cuCtxGetCurrent, ""),
	CUDA_SYMBOL(cuCtxGetDevice, ""),
	CUDA_SYMBOL(cuCtxPushCurrent, "_v2"),
	CUDA_SYMBOL(cuCtxPopCurrent, "_v2"),
	CUDA_SYMBOL(cuPointerGetAttribute, ""),
	CUDA_SYMBOL(cuMemAlloc, "_v2"),
	CUDA_SYMBOL(cuMemFree, "_v2"),
	CUDA_SYMBOL(cuStreamCreate, ""),
	CUDA_SYMBOL(cuStreamDestroy, "_v2"),
	CUDA_SYMBOL(cuStreamWaitEvent, ""),
	CUDA_SYMBOL(cuEventCreate, ""),
	CUDA_SYMBOL(cuEventDestroy, "_v2"),
	CUDA_SYMBOL(cuEventRecord, ""),
};

enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_DISABLE_TIMING = 2, CUDA_POINTER_CONTEXT = 1 };

static ncclResult_t cuda_failed(const char *what, int result)
{
	const char *words = NULL;

	if (cuda.cuGetErrorString(result, &words) || !words)
		words = "error";
	return fail(ncclUnhandledCudaError, "%s: CUDA driver: %s (%d)", what, words, result);
}

/* After a failure the next call tries again. */
static ncclResult_t cuda_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol;

	if (!library)
		return fail(ncclUnhandledCudaError, "there is no CUDA driver: %s", dlerror());
	for (size_t i = 0; i < sizeof(cuda_symbols) / sizeof(cuda_symbols[0]); i++) {
		symbol = dlsym(library, cuda_symbols[i].name);
		if (!symbol)
			return fail(ncclUnhandledCudaError, "the CUDA driver has no '%s'",
				    cuda_symbols[i].name);
		memcpy((char *)&cuda + cuda_symbols[i].at, &symbol, sizeof(symbol));
	}
	return ncclSuccess;
}

ncclResult_t cuda_open(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int is_open;
	ncclResult_t code = ncclSuccess;
	int result;

	pthread_mutex_lock(&lock);
	if (!is_open)
		code = cuda_load();
	if (!code && !is_open) {
		result = cuda.cuInit(0);
		if (result)
			code = cuda_failed("cuInit", result);
	}
	is_open = !code;
	pthread_mutex_unlock(&lock);
	return code;
}

/* --------------------------------------------------------------------- contexts -- */

ncclResult_t cuda_device_count(int *count)
{
	ncclResult_t code = cuda_open();
	int result = code ? 0 : cuda.cuDeviceGetCount(count);

	return result ? cuda_failed("cuDeviceGetCount", result) : code;
}

ncclResult_t cuda_current_device(int *device)
{
	ncclResult_t code = cuda_open();
	void *context = NULL;
	int result;

	*device = 0;
	if (code)
		return code;
	result = cuda.cuCtxGetCurrent(&context);
	if (!result && context)
		result = cuda.cuCtxGetDevice(device);
	return result ? cuda_failed("cuCtxGetDevice", result) : ncclSuccess;
}

ncclResult_t cuda_retain(int device, void **context)
{
	int result;
	ncclResult_t code = cuda_open();

	if (code)
		return code;
	result = cuda.cuDevicePrimaryCtxRetain(context, device);
	return result ? cuda_failed("cuDevicePrimaryCtxRetain", result) : ncclSuccess;
}

void cuda_release(int device)
{
	cuda.cuDevicePrimaryCtxRelease(device);
}

ncclResult_t cuda_push(struct cuda_pushed *pushed, void *context)
{
	void *current = NULL;
	int result = cuda.cuCtxGetCurrent(&current);

	pushed->pushed = !result && current != context;
	if (pushed->pushed)
		result = cuda.cuCtxPushCurrent(context);
	if (!result)
		return ncclSuccess;
	pushed->pushed = 0;
	return cuda_failed("cuCtxPushCurrent", result);
}

void cuda_pop(struct cuda_pushed *pushed)
{
	void *context;

	if (pushed->pushed)
		cuda.cuCtxPopCurrent(&context);
	pushed->pushed = 0;
}

/* ----------------------------------------------------------------------- bridge -- */

static int bridge_make(struct cuda_bridge *bridge)
{
	int result = 0;

	if (!bridge->stream)
		result = cuda.cuStreamCreate(&bridge->stream, CUDA_STREAM_NON_BLOCKING);
	if (!result && !bridge->event)
		result = cuda.cuEventCreate(&bridge->event, CUDA_EVENT_DISABLE_TIMING);
	return result;
}

/* Work of `later` begins after the work that `earlier` has now. */
static ncclResult_t bridge_order(struct cuda_bridge *bridge, void *earlier, void *later)
{
	int result = cuda.cuEventRecord(bridge->event, earlier);

	if (!result)
		result = cuda.cuStreamWaitEvent(later, bridge->event, 0);
	return result ? cuda_failed("a default stream", result) : ncclSuccess;
}

ncclResult_t cuda_bridge_enter(struct cuda_bridge *bridge, void *stream)
{
	struct cuda_pushed pushed;
	ncclResult_t code = cuda_push(&pushed, bridge->context);
	int result;

	if (code)
		return code;
	result = bridge_make(bridge);
	code = result ? cuda_failed("a stream beside a default stream", result)
		      : bridge_order(bridge, stream, bridge->stream);
	cuda_pop(&pushed);
	return code;
}

ncclResult_t cuda_bridge_leave(struct cuda_bridge *bridge, void *stream)
{
	struct cuda_pushed pushed;
	ncclResult_t code = cuda_push(&pushed, bridge->context);

	if (!code) {
		code = bridge_order(bridge, bridge->stream, stream);
		cuda_pop(&pushed);
	}
	return code;
}

void cuda_bridge_free(struct cuda_bridge *bridge)
{
	struct cuda_pushed pushed;

	if ((!bridge->stream && !bridge->event) || cuda_push(&pushed, bridge->context))
		return;
	if (bridge->event)
		cuda.cuEventDestroy(bridge->event);
	if (bridge->stream)
		cuda.cuStreamDestroy(bridge->stream);
	bridge->stream = bridge->event = NULL;
	cuda_pop(&pushed);
}

ncclResult_t cuda_record(void *event, void *stream)
{
	int result = cuda.cuEventRecord(event, stream);

	return result ? cuda_failed("launchCompletionEvent", result) : ncclSuccess;
}

/* ----------------------------------------------------------------------- memory -- */

/* Has NVIDIA's NCCL allocate the memory, through a communicator of the device; NULL if there is none, or if that fails. */
static void *memory_of_nccl(int device, size_t size)
{
	struct ncclComm *comm = comm_over_nccl(device);
	void *memory = NULL;

	if (!comm)
		return NULL;
	coll_mem_alloc(comm->coll, size, &memory);
	comm_unref(comm);
	return memory;
}

static ncclResult_t memory_of_cuda(int device, size_t size, void **ptr)
{
	unsigned long long address = 0;
	struct cuda_pushed pushed;
	void *context = NULL;
	ncclResult_t code = cuda_retain(device, &context);
	int result;

	if (code)
		return code;
	code = cuda_push(&pushed, context);
	if (!code) {
		result = cuda.cuMemAlloc(&address, size);
		cuda_pop(&pushed);
		*ptr = (void *)(uintptr_t)address;
		code = result ? cuda_failed("ncclMemAlloc", result) : ncclSuccess;
	}
	/* The memory keeps the context alive, as memory of CUDA's runtime does. */
	if (code)
		cuda_release(device);
	return code;
}

ncclResult_t ncclMemAlloc(void **ptr, size_t size)
{
	ncclResult_t code;
	int device;

	if (!ptr)
		return fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
	*ptr = NULL;
	if (!size)
		return ncclSuccess;
	code = cuda_current_device(&device);
	if (code)
		return code;
	*ptr = memory_of_nccl(device, size);
	return *ptr ? ncclSuccess : memory_of_cuda(device, size, ptr);
}
NCCL_ALSO(ncclMemAlloc);

ncclResult_t ncclMemFree(void *ptr)
{
	struct cuda_pushed pushed;
	void *context = NULL;
	int result, device = 0;
	ncclResult_t code;

	if (!coll_mem_free(ptr))
		return ncclSuccess;
	code = cuda_open();
	if (code)
		return code;
	result = cuda.cuPointerGetAttribute(&context, CUDA_POINTER_CONTEXT, (uintptr_t)ptr);
	if (result)
		return cuda_failed("ncclMemFree", result);
	code = cuda_push(&pushed, context);
	if (code)
		return code;
	result = cuda.cuCtxGetDevice(&device);
	if (!result)
		result = cuda.cuMemFree((uintptr_t)ptr);
	cuda_pop(&pushed);
	if (result)
		return cuda_failed("ncclMemFree", result);
	cuda_release(device);
	return ncclSuccess;
}
NCCL_ALSO(ncclMemFree);
