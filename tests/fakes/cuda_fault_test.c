/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_fault_test.c - the stand-in for the CUDA driver fails when the test tells it to, and in the
 * way that the document describes: errors after which work continues, and errors that break a
 * context.
 */
#include "cuda_harness.h"

static struct gate gate;
static int noted;

static void note(void *arg)
{
	(void)arg;
	noted++;
}

static void calls_driver(void *arg)
{
	CUdeviceptr ptr;

	*(int *)arg = cuMemAlloc_v2(&ptr, 8);
}

static void test_function_limits(void)
{
	int found = 0;

	cuLaunchHostFunc(CU_STREAM_PER_THREAD, calls_driver, &found);
	cuStreamSynchronize(CU_STREAM_PER_THREAD);
	is_int(found, CUDA_ERROR_NOT_PERMITTED, "functions may not call the driver");
}

static void test_passing(void)
{
	void *stream = stream_new(0), *event = event_new(), *none = NULL;
	CUdeviceptr ptr = memory_new(1), other = memory_new(2);
	char text[64];

	snprintf(text, sizeof(text), "700@%lu", standin_copies() + 1);
	setenv("STANDIN_CUDA_COPY", text, 1);
	is_int(cuMemcpyAsync(ptr, other, 1, stream), CUDA_SUCCESS, "a copy that is done");
	is_int(cuMemcpyAsync(ptr, other, BYTES, stream), CUDA_SUCCESS, "a copy that is not");
	cuEventRecord(event, stream);
	unsetenv("STANDIN_CUDA_COPY");
	is_int(cuEventSynchronize(event), 700, "who waits is told");
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "once");
	is_int(memory_peek(ptr), 1, "it was not done");
	setenv("STANDIN_CUDA_STREAM", "2", 1);
	setenv("STANDIN_CUDA_EVENT", "2@100", 1);
	setenv("STANDIN_CUDA_PIN", "2", 1);
	is_int(cuStreamCreate(&none, 0), CUDA_ERROR_OUT_OF_MEMORY, "no stream");
	is_int(cuEventCreate(&none, 0), CUDA_SUCCESS, "an event, for now");
	cuEventDestroy_v2(none);
	is_int(cuMemHostAlloc(&none, 8, 0), CUDA_ERROR_OUT_OF_MEMORY, "no pinned memory");
	setenv("STANDIN_CUDA_EVENT", "2", 1);
	is_int(cuEventCreate(&none, 0), CUDA_ERROR_OUT_OF_MEMORY, "no event");
	unsetenv("STANDIN_CUDA_STREAM");
	unsetenv("STANDIN_CUDA_EVENT");
	unsetenv("STANDIN_CUDA_PIN");
	cuStreamDestroy_v2(stream);
	cuEventDestroy_v2(event);
	cuMemFree_v2(ptr);
	cuMemFree_v2(other);
}

/* A function queued before its context broke is called, but cannot access memory. */
struct look {
	sem_t over;
	CUdeviceptr ptr;
	int found;
};

static int looks(void *arg)
{
	struct look *look = arg;

	look->found = standin_touch((void *)(uintptr_t)look->ptr, 1) != NULL;
	sem_post(&look->over);
	return CUDA_SUCCESS;
}

static void test_broken(void)
{
	void *stream = stream_new(0), *other = stream_new(CU_STREAM_NON_BLOCKING),
	     *event = event_new(), *none;
	CUdeviceptr ptr = memory_new(1);
	struct look look = {.ptr = ptr, .found = -1};
	struct gate aside;

	sem_init(&look.over, 0, 0);
	gate_close(&gate, stream);
	gate_close(&aside, other);
	cuEventRecord(event, other);
	setenv("STANDIN_CUDA_WORK", "700", 1);
	cuMemsetD8Async(ptr, 2, BYTES, stream);
	unsetenv("STANDIN_CUDA_WORK");
	cuLaunchHostFunc(stream, note, NULL);
	standin_stream_do(stream, looks, &look);
	noted = 0;
	gate_open(&gate);
	is_int(cuEventSynchronize(event), 700, "also who waits for another stream is told");
	is_int(cuStreamSynchronize(stream), 700, "the stream");
	is_int(cuStreamQuery(other), 700, "others");
	is_int(cuEventQuery(event), 700, "events");
	is_int(cuCtxSynchronize(), 700, "all");
	is_int(cuMemAlloc_v2(&ptr, 8), 700, "memory");
	is_int(cuStreamCreate(&none, 0), 700, "new streams");
	is_int(cuStreamWaitEvent(stream, event, 0), 700, "waits");
	is_int(standin_stream_do(stream, looks, &look), 700, "kernels");
	context_push(1);
	is_int(cuCtxSynchronize(), CUDA_SUCCESS, "not another context");
	is_int(cuStreamSynchronize(stream), 700, "but this one's stream there too");
	is_int(cuStreamWaitEvent(NULL, event, 0), 700, "and its events");
	context_pop(1);
	is_int(cuEventDestroy_v2(event), 700, "what is destroyed");
	is_int(cuStreamDestroy_v2(other), 700, "says so");
	is_int(standin_events() * 10 + standin_streams(), 1, "but is destroyed");
	gate_open(&aside);
	is_int(gate_wait(&look.over), 0, "kernels that were given before are called");
	is_int(look.found, 0, "and find nothing");
	standin_heal(0);
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "healed");
	is_int(cuStreamDestroy_v2(stream), CUDA_SUCCESS, "and destroyed");
	is_int(noted, 0, "functions were not called");
}

/* Keeps using memory that another thread frees meanwhile. */
static int writes(void *arg)
{
	CUdeviceptr *ptr = arg;
	char *place = standin_touch((void *)(uintptr_t)*ptr, BYTES);

	if (!place || gate_kernel(&gate))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	memset(place, 9, BYTES);
	return CUDA_SUCCESS;
}

static void test_freed(void)
{
	CUdeviceptr ptr = memory_new(1);

	gate = gate_new();
	standin_stream_do(CU_STREAM_PER_THREAD, writes, &ptr);
	is_int(gate_wait(&gate.reached), 0, "a kernel uses memory");
	is_int(cuMemFree_v2(ptr), CUDA_SUCCESS, "which is freed");
	ok(!standin_touch((void *)(uintptr_t)ptr, 1), "and gone");
	gate_open(&gate);
	is_int(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS, "harmless for the process");
}

static int fails(void *arg)
{
	(void)arg;
	return CUDA_ERROR_LAUNCH_FAILED;
}

static void test_broken_by(void)
{
	void *stream = stream_new(0);
	CUdeviceptr ptr = memory_new(1), other = memory_new(1);

	standin_stream_do(stream, fails, NULL);
	is_int(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED, "a kernel's failure");
	standin_heal(0);
	gate_close(&gate, stream);
	cuMemcpyAsync(ptr, other, BYTES, stream);
	is_int(cuMemFree_v2(other), CUDA_SUCCESS, "memory freed before it was copied");
	gate_open(&gate);
	is_int(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS, "is not there");
	is_int(memory_is(ptr), -2, "for good");
	standin_heal(0);
	is_int(memory_is(ptr), 1, "no copy was made");
	cuMemFree_v2(ptr);
	cuStreamDestroy_v2(stream);
}

int main(void)
{
	if (cuInit(0))
		bail_out("no stand-in");
	context_push(0);
	test_function_limits();
	test_passing();
	test_broken();
	test_freed();
	test_broken_by();
	context_pop(0);
	return done_testing();
}
