/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_test.c - the process, devices, contexts and memory of the stand-in for the CUDA driver keep
 * the promises of the document.
 */
#include "cuda_harness.h"

#include <dirent.h>

/* ---------------------------------------------------------------------- process -- */

static int how_init(void *arg)
{
	const char *const *env = arg;
	int count = -1, code;

	setenv(env[0], env[1], 1);
	code = cuInit(0);
	if (code)
		return code;
	return cuDeviceGetCount(&count) ? 255 : count;
}

/* The process exits with a thread at work, queued work, and live memory, streams and events. */
static int leaves_all(void *arg)
{
	static struct gate gate;
	CUdeviceptr ptr;
	void *stream, *event;

	(void)arg;
	if (cuInit(0))
		return 1;
	context_push(0);
	ptr = memory_new(1);
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cuEventCreate(&event, 0))
		return 2;
	gate_close(&gate, stream);
	if (cuMemsetD8Async(ptr, 2, BYTES, stream) || cuEventRecord(event, stream))
		return 3;
	exit(0);
}

static void test_init(void)
{
	const char *no_device[] = {"STANDIN_CUDA_INIT", "100"};
	const char *failed[] = {"STANDIN_CUDA_INIT", "3"};
	const char *none[] = {"STANDIN_CUDA_DEVICES", "0"};
	const char *four[] = {"STANDIN_CUDA_DEVICES", "4"};
	int version = 0, count = 0;
	void *context = NULL;

	is_int(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED, "nothing before cuInit");
	is_int(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED, "no context");
	is_int(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED, "no stream");
	is_int(cuDriverGetVersion(&version), CUDA_SUCCESS, "but the version");
	is_int(version, 13000, "13.0");
	setenv("STANDIN_CUDA_VERSION", "11040", 1);
	cuDriverGetVersion(&version);
	unsetenv("STANDIN_CUDA_VERSION");
	is_int(version, 11040, "or as told");
	is_int(child(how_init, no_device), CUDA_ERROR_NO_DEVICE, "cuInit fails as told");
	is_int(child(how_init, failed), CUDA_ERROR_NOT_INITIALIZED, "in any way");
	is_int(child(how_init, none), CUDA_ERROR_NO_DEVICE, "no devices are an error");
	is_int(child(how_init, four), 4, "four are four");
	is_int(child(leaves_all, NULL), 0, "exit while streams work");
	is_int(cuInit(1), CUDA_ERROR_INVALID_VALUE, "there are no flags");
	is_int(cuInit(0), CUDA_SUCCESS, "cuInit");
	is_int(cuInit(0), CUDA_SUCCESS, "and again");
}

static int is_ready(void *arg)
{
	void *context;

	(void)arg;
	return cuInit(0) != CUDA_ERROR_NOT_INITIALIZED ||
	       cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED ||
	       cuStreamSynchronize(CU_STREAM_PER_THREAD) != CUDA_ERROR_NOT_INITIALIZED;
}

static void test_words(void)
{
	const char *text = NULL;

	is_int(cuGetErrorName(CUDA_ERROR_NOT_READY, &text), CUDA_SUCCESS, "an error's name");
	is_str(text, "CUDA_ERROR_NOT_READY", "is right");
	is_int(cuGetErrorString(CUDA_ERROR_NO_DEVICE, &text), CUDA_SUCCESS, "its words");
	is_str(text, "no CUDA-capable device is detected", "are too");
	is_int(cuGetErrorName(12345, &text), CUDA_ERROR_INVALID_VALUE, "an unknown one");
	ok(!text, "has no name");
}

/* --------------------------------------------------------------- devices, contexts -- */

static void test_devices(void)
{
	int value = -1, device = -1;
	char name[9];

	cuDeviceGetCount(&value);
	is_int(value, 2, "two devices");
	is_int(cuDeviceGet(&device, 1), CUDA_SUCCESS, "the second");
	is_int(device, 1, "is 1");
	is_int(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE, "there is no third");
	is_int(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE, "nor one before");
	is_int(cuDeviceGetName(name, sizeof(name), 1), CUDA_SUCCESS, "its name");
	is_str(name, "stand-in", "is cut to fit");
	is_int(cuDeviceGetAttribute(&value, 41, 0), CUDA_SUCCESS, "unified addressing");
	is_int(value, 1, "is there");
	is_int(cuDeviceGetAttribute(&value, 75, 1), CUDA_SUCCESS, "compute capability");
	is_int(value, 9, "is 9");
	is_int(cuDeviceGetAttribute(&value, 9999, 0), CUDA_ERROR_INVALID_VALUE, "no attribute");
	is_int(cuDeviceGetAttribute(&value, 41, 2), CUDA_ERROR_INVALID_DEVICE, "no device");
}

static void test_contexts(void)
{
	void *first, *second, *found = &first;
	CUdeviceptr ptr = 0;
	int device = -1, active = -1;
	unsigned flags = 7;

	is_int(cuCtxGetCurrent(&found), CUDA_SUCCESS, "the current context");
	ok(!found, "is none");
	is_int(cuCtxPopCurrent_v2(&found), CUDA_ERROR_INVALID_CONTEXT, "nothing to pop");
	is_int(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT, "nothing to wait for");
	is_int(cuMemAlloc_v2(&ptr, 1), CUDA_ERROR_INVALID_CONTEXT, "no memory");
	first = context_push(0);
	second = context_push(1);
	is_int(standin_contexts_pushed(), 2, "two on the stack");
	is_int(cuCtxGetDevice(&device), CUDA_SUCCESS, "the current device");
	is_int(device, 1, "is 1");
	is_int(cuCtxSetCurrent(first), CUDA_SUCCESS, "another one, ");
	is_int(standin_contexts_pushed(), 2, "in place of it");
	cuCtxPopCurrent_v2(&found);
	ok(found == first, "popped");
	is_int(cuCtxSetCurrent(NULL), CUDA_SUCCESS, "none pops");
	is_int(standin_contexts_pushed(), 0, "the last");
	is_int(cuCtxSetCurrent(second), CUDA_SUCCESS, "on an empty stack");
	is_int(standin_contexts_pushed(), 1, "it is pushed");
	is_int(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS, "state");
	is_int(active, 1, "active");
	is_int(standin_held(1), 1, "held once");
	is_int(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS, "released");
	is_int(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT, "and no more");
	cuDevicePrimaryCtxGetState(1, &flags, &active);
	is_int(active, 0, "not active");
	is_int(cuMemAlloc_v2(&ptr, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED, "what is current is gone");
	is_int(cuCtxPushCurrent_v2(second), CUDA_ERROR_INVALID_CONTEXT, "and cannot be pushed");
	is_int(cuCtxPushCurrent_v2(&ptr), CUDA_ERROR_INVALID_CONTEXT, "nor anything else");
	cuCtxPopCurrent_v2(NULL);
	cuDevicePrimaryCtxRelease_v2(0);
}

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static void test_threads(void)
{
	int before = threads(), during;
	void *stream, *event;
	CUdeviceptr ptr;

	context_push(0);
	if (cuMemAlloc_v2(&ptr, BYTES) || cuStreamCreate(&stream, 0) || cuEventCreate(&event, 0) ||
	    cuStreamSynchronize(stream) || cuCtxSynchronize() || cuStreamQuery(NULL))
		bail_out("nothing works");
	is_int(threads(), before, "no threads before a stream has work");
	cuMemsetD8Async(ptr, 1, BYTES, stream);
	during = threads();
	ok(during > before, "and then some");
	context_pop(0);
}

/* ----------------------------------------------------------------------- memory -- */

static int touches(void *arg)
{
	char found = *(volatile char *)arg;

	(void)found;
	return 0;
}

static void test_memory(void)
{
	CUdeviceptr device = memory_new(5), managed = 0;
	void *pinned = NULL;
	char here[8] = "";

	ok(child(touches, (void *)(uintptr_t)device) != 0, "who touches device memory crashes");
	is_int(memory_is(device), 5, "but its content is there");
	is_int(cuMemAllocManaged(&managed, BYTES, 0), CUDA_ERROR_INVALID_VALUE, "attached to none");
	is_int(cuMemAllocManaged(&managed, BYTES, 1), CUDA_SUCCESS, "managed memory");
	memset((void *)(uintptr_t)managed, 6, BYTES);
	is_int(cuMemcpy(device, managed, BYTES), CUDA_SUCCESS, "is the program's");
	is_int(memory_is(device), 6, "and the device's");
	is_int(cuMemHostAlloc(&pinned, BYTES, 8), CUDA_ERROR_INVALID_VALUE, "an unknown flag");
	is_int(cuMemHostAlloc(&pinned, BYTES, 1), CUDA_SUCCESS, "pinned memory");
	is_int(standin_pinned(), 1, "is counted");
	is_int(cuMemcpy(device, (uintptr_t)here, BYTES + 1), CUDA_ERROR_INVALID_VALUE, "too long");
	is_int(cuMemcpy(device + 9, (uintptr_t)here, 8), CUDA_SUCCESS, "inside");
	ok(standin_touch((void *)(uintptr_t)(device + 10), BYTES - 10) != NULL, "touched");
	ok(!standin_touch((void *)(uintptr_t)(device + 10), BYTES - 9), "not all is there");
	ok(standin_touch(pinned, 1) == pinned, "pinned memory is where it is");
	ok(!standin_touch(here, 1), "other memory is not the device's");
	is_int(cuMemFree_v2((uintptr_t)pinned), CUDA_ERROR_INVALID_VALUE, "not cuMemFree's");
	is_int(cuMemFreeHost(pinned), CUDA_SUCCESS, "freed");
	is_int(standin_pinned(), 0, "counted");
	is_int(cuMemFree_v2(device + 1), CUDA_ERROR_INVALID_VALUE, "not its beginning");
	is_int(cuMemFree_v2(device), CUDA_SUCCESS, "freed");
	is_int(cuMemFree_v2(device), CUDA_ERROR_INVALID_VALUE, "once");
	is_int(cuMemFree_v2(managed), CUDA_SUCCESS, "and managed memory");
}

static void test_pointers(void)
{
	const int names[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
			     CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned type = 9, managed = 9;
	CUdeviceptr ptr = memory_new(0);
	void *context = NULL, *current;
	int ordinal = 9;
	size_t size = 0;
	void *values[] = {&context, &type, &managed, &ordinal};

	cuCtxGetCurrent(&current);
	is_int(cuPointerGetAttributes(4, names, values, ptr + 7), CUDA_SUCCESS, "attributes");
	ok(context == current && type == CU_MEMORYTYPE_DEVICE && !managed && ordinal == 0, "fit");
	is_int(cuPointerGetAttributes(4, names, values, (uintptr_t)&ptr), CUDA_SUCCESS, "unknown");
	ok(!context && !type && !managed && ordinal == -2, "says nothing");
	is_int(cuPointerGetAttribute(&type, 2, (uintptr_t)&ptr), CUDA_ERROR_INVALID_VALUE,
	       "alone, it is an error");
	is_int(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr + 7), CUDA_SUCCESS,
	       "the size of it all");
	is_int((int64_t)size, BYTES, "is right");
	is_int(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_HOST_POINTER, ptr),
	       CUDA_ERROR_INVALID_VALUE, "the host cannot reach it");
	setenv("STANDIN_CUDA_LOOK", "700", 1);
	is_int(cuPointerGetAttribute(&type, 2, ptr), 700, "it fails as told");
	unsetenv("STANDIN_CUDA_LOOK");
	cuMemFree_v2(ptr);
}

/* A context ends with all its objects, also while work is under way. */
static void test_reset(void)
{
	struct gate gate;
	CUdeviceptr ptr;
	void *stream, *event;

	context_push(1);
	ptr = memory_new(3);
	if (cuStreamCreate(&stream, 0) || cuEventCreate(&event, 0))
		bail_out("no stream");
	gate_close(&gate, stream);
	cuMemsetD8Async(ptr, 4, BYTES, stream);
	cuEventRecord(event, stream);
	is_int(standin_streams() + standin_events(), 2, "a stream and an event");
	context_pop(1);
	is_int(standin_streams() + standin_events(), 0, "end with their context");
	ok(!standin_touch((void *)(uintptr_t)ptr, 1), "and its memory");
	context_push(1);
	is_int(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE, "the stream is unknown");
	is_int(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE, "and the event");
	gate_open(&gate);
	is_int(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS, "the new one works");
	ptr = memory_new(5);
	is_int(memory_is(ptr), 5, "with memory of its own");
	context_pop(1);
}

int main(void)
{
	test_init();
	test_words();
	test_devices();
	test_contexts();
	test_threads();
	is_int(child(is_ready, NULL), 0, "a child of this process cannot use it");
	context_push(0);
	test_memory();
	test_pointers();
	test_reset();
	context_pop(0);
	return done_testing();
}
