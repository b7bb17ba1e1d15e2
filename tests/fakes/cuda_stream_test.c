/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_stream_test.c - the streams and events of the stand-in for the CUDA driver keep the promises
 * of the document.
 */
#include "cuda_harness.h"

static struct gate gate;

/* ---------------------------------------------------------------------- streams -- */

static int order[4], order_n;

static void note(void *which)
{
	order[order_n++] = (int)(intptr_t)which;
}

static void test_order(void)
{
	void *stream = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr ptr = memory_new(1), from = memory_new(7);
	unsigned char here[BYTES];

	is_int(cuStreamQuery(stream), CUDA_SUCCESS, "nothing to do");
	gate_close(&gate, stream);
	cuLaunchHostFunc(stream, note, (void *)1);
	is_int(cuMemcpyAsync(ptr, from, BYTES, stream), CUDA_SUCCESS, "a copy");
	cuLaunchHostFunc(stream, note, (void *)2);
	is_int(cuMemsetD32Async(from, 0x09090909, BYTES / 4, stream), CUDA_SUCCESS, "a set");
	is_int(cuMemcpyDtoHAsync_v2(here, ptr, BYTES, stream), CUDA_SUCCESS, "another copy");
	settle();
	is_int(cuStreamQuery(stream), CUDA_ERROR_NOT_READY, "not done yet");
	is_int(memory_peek(ptr), 1, "none of it");
	gate_open(&gate);
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "done");
	is_int(cuStreamQuery(stream), CUDA_SUCCESS, "all");
	is_int(memory_peek(ptr), 7, "the copy");
	is_int(memory_peek(from), 9, "the set");
	is_int(here[0] + here[BYTES - 1], 14, "the copy back");
	ok(order_n == 2 && order[0] == 1 && order[1] == 2, "and functions, in order");
	is_int(cuMemcpyHtoDAsync_v2((uintptr_t)here, here, 1, stream), CUDA_ERROR_INVALID_VALUE,
	       "the host is no device");
	is_int(cuMemcpyDtoHAsync_v2((void *)(uintptr_t)ptr, ptr, 1, stream),
	       CUDA_ERROR_INVALID_VALUE, "nor the device a host");
	is_int(cuMemsetD32Async(ptr + 2, 0, 1, stream), CUDA_ERROR_INVALID_VALUE, "not aligned");
	is_int(cuMemsetD8Async(ptr + 1, 0, BYTES, stream), CUDA_ERROR_INVALID_VALUE, "too long");
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "which broke nothing");
	cuStreamDestroy_v2(stream);
	cuMemFree_v2(ptr);
	cuMemFree_v2(from);
}

static int later(void *arg)
{
	struct gate *gates = arg;

	gate_open(&gates[0]);
	return gate_wait(&gates[1].opened) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static int earlier(void *arg)
{
	struct gate *gates = arg;

	gate_open(&gates[1]);
	return gate_wait(&gates[0].opened) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

/* Each of two streams waits for the other's work. */
static void test_parallel(void)
{
	struct gate gates[2] = {gate_new(), gate_new()};
	void *a = stream_new(0), *b = stream_new(0);

	standin_stream_do(a, later, gates);
	standin_stream_do(b, earlier, gates);
	is_int(cuCtxSynchronize(), CUDA_SUCCESS, "two streams at once");
	cuStreamDestroy_v2(a);
	cuStreamDestroy_v2(b);
}

/* A program that does not wait must see incomplete data sooner or later. */
static void test_late(void)
{
	void *stream = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr ptr = memory_new(1);
	struct timespec begin, end;
	int late = 0;

	for (int i = 0; i < 100000 && !late; i++) {
		cuMemsetD8Async(ptr, (unsigned char)i, BYTES, stream);
		late = memory_peek(ptr) != i % 256;
		cuStreamSynchronize(stream);
		if (memory_peek(ptr) != i % 256)
			bail_out("it was waited for and not done");
	}
	ok(late, "what nobody waits for is not done");
	setenv("STANDIN_CUDA_DELAY_US", "60000", 1);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	cuMemsetD8Async(ptr, 0, BYTES, stream);
	cuStreamSynchronize(stream);
	clock_gettime(CLOCK_MONOTONIC, &end);
	unsetenv("STANDIN_CUDA_DELAY_US");
	ok((end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 >= 59,
	   "work takes as long as told");
	cuStreamDestroy_v2(stream);
	cuMemFree_v2(ptr);
}

static void test_default(void)
{
	void *stream = stream_new(0), *apart = stream_new(CU_STREAM_NON_BLOCKING);
	CUdeviceptr ptr = memory_new(1);

	gate_close(&gate, apart);
	is_int(memory_is(ptr), 1, "the default stream does not wait for one that is apart");
	is_int(cuStreamSynchronize(NULL), CUDA_SUCCESS, "nor who waits for it");
	gate_open(&gate);
	cuStreamSynchronize(apart);
	gate_close(&gate, stream);
	is_int(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY, "others have work");
	cuMemsetD8Async(ptr, 2, BYTES, NULL);
	settle();
	is_int(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY, "it waits for others");
	is_int(memory_peek(ptr), 1, "really");
	cuMemsetD8Async(ptr, 4, BYTES, CU_STREAM_PER_THREAD);
	settle();
	is_int(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY, "others wait for it");
	is_int(cuStreamQuery(apart), CUDA_SUCCESS, "not the one that is apart");
	gate_open(&gate);
	is_int(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS, "all done");
	is_int(memory_peek(ptr), 4, "in order");
	gate_close(&gate, CU_STREAM_LEGACY);
	cuMemsetD8Async(ptr, 5, BYTES, stream);
	settle();
	is_int(cuStreamQuery(stream), CUDA_ERROR_NOT_READY, "a stream waits for the default one");
	is_int(memory_peek(ptr), 4, "really");
	gate_open(&gate);
	setenv("STANDIN_CUDA_DELAY_US", "100000", 1);
	cuMemsetD8Async(ptr, 6, BYTES, stream);
	unsetenv("STANDIN_CUDA_DELAY_US");
	is_int(cuStreamSynchronize(NULL), CUDA_SUCCESS, "who waits for the default stream");
	is_int(memory_peek(ptr), 6, "waits for what is in others");
	cuStreamDestroy_v2(stream);
	cuStreamDestroy_v2(apart);
	cuMemFree_v2(ptr);
}

/* A thread's own stream differs from other threads' streams, and outlives the thread. */
static void *one_thread(void *ptr)
{
	context_push(0);
	if (cuStreamQuery(CU_STREAM_PER_THREAD) ||
	    cuMemsetD8Async((uintptr_t)ptr, 8, BYTES, CU_STREAM_PER_THREAD))
		bail_out("the thread's own stream");
	context_pop(0);
	return NULL;
}

static void test_per_thread(void)
{
	CUdeviceptr ptr = memory_new(1);
	pthread_t thread;

	gate_close(&gate, CU_STREAM_PER_THREAD);
	if (pthread_create(&thread, NULL, one_thread, (void *)(uintptr_t)ptr))
		bail_out("no thread");
	pthread_join(thread, NULL);
	gate_open(&gate);
	is_int(cuCtxSynchronize(), CUDA_SUCCESS, "all streams of the context");
	is_int(memory_peek(ptr), 8, "also that of a thread that is gone");
	cuMemFree_v2(ptr);
}

static void test_destroy(void)
{
	void *stream = stream_new(0);
	CUdeviceptr ptr = memory_new(1);

	is_int(standin_streams(), 1, "one stream");
	gate_close(&gate, stream);
	cuMemsetD8Async(ptr, 3, BYTES, stream);
	is_int(cuStreamDestroy_v2(stream), CUDA_SUCCESS, "destroyed at once");
	is_int(standin_streams(), 0, "none left");
	is_int(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE, "unknown");
	is_int(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE, "destroyed once");
	is_int(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE, "not the default stream");
	gate_open(&gate);
	cuCtxSynchronize();
	is_int(memory_peek(ptr), 3, "what it was given is done");
	cuMemFree_v2(ptr);
}

/* ----------------------------------------------------------------------- events -- */

static void test_events(void)
{
	void *stream = stream_new(0), *other = stream_new(0), *event = event_new();
	CUdeviceptr ptr = memory_new(1);

	is_int(cuEventQuery(event), CUDA_SUCCESS, "an event that was not recorded");
	is_int(cuEventSynchronize(event), CUDA_SUCCESS, "is over");
	gate_close(&gate, stream);
	is_int(cuEventRecord(event, stream), CUDA_SUCCESS, "recorded");
	is_int(cuEventQuery(event), CUDA_ERROR_NOT_READY, "not over");
	is_int(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS, "another stream waits for it");
	cuMemsetD8Async(ptr, 2, BYTES, other);
	settle();
	is_int(cuStreamQuery(other), CUDA_ERROR_NOT_READY, "not done");
	is_int(cuEventRecord(event, CU_STREAM_PER_THREAD), CUDA_SUCCESS, "recorded elsewhere");
	is_int(cuEventSynchronize(event), CUDA_SUCCESS, "where all is done");
	is_int(cuStreamQuery(other), CUDA_ERROR_NOT_READY, "who waited still waits");
	is_int(memory_peek(ptr), 1, "really");
	is_int(cuEventDestroy_v2(event), CUDA_SUCCESS, "also when it is gone");
	is_int(cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE, "once");
	is_int(standin_events(), 0, "none left");
	settle();
	is_int(cuStreamQuery(other), CUDA_ERROR_NOT_READY, "still");
	gate_open(&gate);
	is_int(cuStreamSynchronize(other), CUDA_SUCCESS, "until the first stream went on");
	is_int(memory_peek(ptr), 2, "done");
	event = event_new();
	cuEventRecord(event, stream);
	is_int(cuEventSynchronize(event), CUDA_SUCCESS, "over");
	gate_close(&gate, stream);
	cuEventRecord(event, stream);
	is_int(cuEventQuery(event), CUDA_ERROR_NOT_READY, "and not any more");
	is_int(cuEventDestroy_v2(event), CUDA_SUCCESS, "destroyed while not over");
	gate_open(&gate);
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "harmless");
	is_int(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE, "timing");
	is_int(cuEventCreate(&event, 8), CUDA_ERROR_INVALID_VALUE, "flags");
	cuStreamDestroy_v2(stream);
	cuStreamDestroy_v2(other);
	cuMemFree_v2(ptr);
}

/* Objects that may belong to another context than the current one, and objects that may not. */
static void test_across(void)
{
	void *stream = stream_new(0), *event = event_new(), *there, *there_event;
	CUdeviceptr ptr = memory_new(1);

	context_push(1);
	there = stream_new(CU_STREAM_NON_BLOCKING);
	there_event = event_new();
	gate_close(&gate, there);
	is_int(cuEventRecord(event, there), CUDA_ERROR_INVALID_HANDLE, "an event of another");
	is_int(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE, "on the default stream");
	is_int(cuEventRecord(there_event, there), CUDA_SUCCESS, "its own");
	is_int(cuStreamWaitEvent(stream, there_event, 0), CUDA_SUCCESS, "waits across");
	is_int(cuLaunchHostFunc(stream, note, NULL), CUDA_ERROR_INVALID_HANDLE, "no functions");
	is_int(cuMemsetD8Async(ptr, 2, BYTES, stream), CUDA_SUCCESS, "memory of another");
	settle();
	is_int(cuStreamQuery(stream), CUDA_ERROR_NOT_READY, "a query");
	is_int(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS, "back");
	is_int(cuEventQuery(there_event), CUDA_ERROR_NOT_READY, "a query of an event");
	gate_open(&gate);
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "waited for");
	is_int(cuEventSynchronize(there_event), CUDA_SUCCESS, "an event");
	is_int(memory_peek(ptr), 2, "done");
	is_int(cuStreamDestroy_v2(there), CUDA_SUCCESS, "destroyed from afar");
	is_int(cuEventDestroy_v2(there_event), CUDA_SUCCESS, "events too");
	cuDevicePrimaryCtxRelease_v2(1);
	cuStreamDestroy_v2(stream);
	cuEventDestroy_v2(event);
	cuMemFree_v2(ptr);
}

/* A stream waits for a word of pinned memory, and for no other memory of the host. */
static void test_words(void)
{
	void *stream = stream_new(CU_STREAM_NON_BLOCKING), *own = NULL, *context = NULL;
	_Atomic uint32_t *word = NULL;
	CUdeviceptr managed = 0;
	uint32_t local = 9;

	is_int(cuStreamGetCtx(stream, &own), CUDA_SUCCESS, "the context of a stream");
	cuCtxGetCurrent(&context);
	ok(own == context, "is the current one");
	if (cuMemHostAlloc((void **)&word, 64, 0) || cuMemAllocManaged(&managed, 64, 1))
		bail_out("no memory");
	*word = UINT32_MAX - 1;
	is_int(cuStreamWaitValue32_v2(stream, (uintptr_t)&local, 1, 0), CUDA_ERROR_INVALID_VALUE,
	       "memory that the driver does not know");
	is_int(cuStreamWaitValue32_v2(stream, managed, 1, 0), CUDA_ERROR_INVALID_VALUE, "managed");
	is_int(cuStreamWaitValue32_v2(stream, (uintptr_t)word + 2, 1, 0), CUDA_ERROR_INVALID_VALUE,
	       "no multiple of 4");
	is_int(cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, 0), CUDA_SUCCESS, "pinned");
	settle();
	is_int(cuStreamQuery(stream), CUDA_ERROR_NOT_READY, "held");
	*word = 1;
	is_int(cuStreamSynchronize(stream), CUDA_SUCCESS, "released; the comparison is cyclic");
	setenv("STANDIN_CUDA_WAIT", "801", 1);
	is_int(cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, 0), CUDA_ERROR_NOT_SUPPORTED,
	       "not supported");
	unsetenv("STANDIN_CUDA_WAIT");
	cuMemFreeHost((void *)word);
	cuMemFree_v2(managed);
	cuStreamDestroy_v2(stream);
}

/* Captured work runs when its graph is launched; unsafe calls end a global capture unless the thread is relaxed. */
static void test_captures(void)
{
	void *stream = stream_new(CU_STREAM_NON_BLOCKING), *event = event_new(), *graph, *exec;
	int status = 7, mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr ptr = memory_new(1);

	is_int(cuStreamIsCapturing(stream, &status) | status, 0, "no capture");
	is_int(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "default");
	is_int(cuStreamBeginCapture_v2(stream, 0), CUDA_SUCCESS, "a capture");
	is_int(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS, "is seen");
	is_int(status, CU_STREAM_CAPTURE_STATUS_ACTIVE, "as active");
	is_int(cuMemsetD8Async(ptr, 5, BYTES, stream), CUDA_SUCCESS, "captured work");
	cuThreadExchangeStreamCaptureMode(&mode);
	is_int(cuEventQuery(event), CUDA_SUCCESS, "a query by a relaxed thread");
	cuThreadExchangeStreamCaptureMode(&mode);
	is_int(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS, "the capture ends well");
	is_int(memory_peek(ptr), 1, "the work has not run");
	is_int(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS, "instantiated");
	is_int(cuGraphDestroy(graph) | cuGraphLaunch(exec, stream) | cuStreamSynchronize(stream),
	       CUDA_SUCCESS, "and launched");
	is_int(memory_peek(ptr), 5, "it has run");
	is_int(cuGraphExecDestroy(exec), CUDA_SUCCESS, "the graph ends");
	cuStreamBeginCapture_v2(stream, 0);
	is_int(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "any other query");
	is_int(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	       "ends it");
	cuEventDestroy_v2(event);
	cuStreamDestroy_v2(stream);
	cuMemFree_v2(ptr);
}

int main(void)
{
	if (cuInit(0))
		bail_out("no stand-in");
	context_push(0);
	test_order();
	test_parallel();
	test_late();
	test_default();
	test_per_thread();
	test_destroy();
	test_events();
	test_across();
	test_words();
	test_captures();
	context_pop(0);
	return done_testing();
}
