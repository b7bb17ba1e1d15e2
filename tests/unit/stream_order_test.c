/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_order_test.c - a communicator's first call with a stream, which makes the words for which streams wait: after any
 * number of operations (the words have 32 bits, the numbers 64), and by two threads at once.
 */
#include "fake_backend.h"

#include "../lib/device_harness.h"
#include "compose/stream_order.h"

enum { PATIENCE_MS = 2000 };

static int kernel(void *gate)
{
	for (int i = 0; !atomic_load((_Atomic int *)gate) && i < PATIENCE_MS; i++)
		ranks_sleep(0.001);
	return 0;
}

static int stream_ends(void *stream)
{
	int code = CUDA_ERROR_NOT_READY;

	for (int i = 0; code == CUDA_ERROR_NOT_READY && i < PATIENCE_MS; i++) {
		ranks_sleep(0.001);
		code = cuStreamQuery(stream);
	}
	return !code;
}

/* The stream is busy when the first call with it comes, which waits for an operation that is complete. */
static void test_first_call(uint64_t finished)
{
	struct rig *rig = rig_new(fake_transport);
	struct caller_stream own = {0};
	_Atomic int gate = 0;
	void *stream;

	rig->lane->finished = rig->lane->issued = finished;
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    standin_stream_do(stream, kernel, &gate))
		bail_out("no stream");
	is_int(stream_order_find(rig->lane, "a call", stream, NULL, &own) ||
		       stream_order_wait(rig->lane, "a call", &own, finished),
	       COLL_SUCCESS, "the first call with a stream after %llu operations",
	       (unsigned long long)finished);
	atomic_store(&gate, 1);
	ok(stream_ends(stream), "does not hold the stream");
	cuStreamDestroy_v2(stream);
	rig_free(rig);
}

/* A thread's first call with a stream. */
struct caller {
	struct rig *rig;
	struct caller_stream stream;
	int code;
};

static void *call_first(void *arg)
{
	struct caller *c = arg;

	context_enter(c->rig->context);
	c->code = stream_order_find(c->rig->lane, "a call", c->stream.handle, NULL, &c->stream) ||
		  stream_order_wait(c->rig->lane, "a call", &c->stream, 1);
	context_leave(c->rig->context);
	return NULL;
}

static void *free_memory(void *arg)
{
	device_free(0, arg);
	return NULL;
}

/* A stream for each thread, and one that is busy, so that memory can neither be freed nor pinned. */
static void two_callers_make(struct caller *callers, struct rig *rig, void **busy,
			     _Atomic int *gate)
{
	for (int i = 0; i < 2; i++) {
		callers[i].rig = rig;
		if (cuStreamCreate(&callers[i].stream.handle, CU_STREAM_NON_BLOCKING))
			bail_out("no stream");
	}
	if (cuStreamCreate(busy, CU_STREAM_NON_BLOCKING) || standin_stream_do(*busy, kernel, gate))
		bail_out("no stream");
}

/* Both threads pin memory for the words, and one of them does not need it.  To free it would wait for both streams. */
static void test_two_first_calls(void)
{
	struct rig *rig = rig_new(fake_transport);
	struct caller callers[2] = {{0}};
	_Atomic int gate = 0;
	void *busy, *memory = device_new(0, 1, 0);
	pthread_t thread[3];

	rig->lane->issued = 1;
	two_callers_make(callers, rig, &busy, &gate);
	context_leave(rig->context);
	setenv("STANDIN_CUDA_FREE", "locked", 1);
	pthread_create(&thread[2], NULL, free_memory, memory);
	ranks_sleep(0.02);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, call_first, &callers[i]);
	ranks_sleep(0.02);
	atomic_store(&gate, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	unsetenv("STANDIN_CUDA_FREE");
	context_enter(rig->context);
	rig->lane->finished = 1;
	stream_order_release(rig->lane, 1);
	for (int i = 0; i < 2; i++) {
		ok(!callers[i].code && stream_ends(callers[i].stream.handle),
		   "two threads make the first call at once: %d", i);
		cuStreamDestroy_v2(callers[i].stream.handle);
	}
	cuStreamDestroy_v2(busy);
	rig_free(rig);
}

int main(void)
{
	static const uint64_t finished[] = {
		0, 1, INT32_MAX, INT64_C(1) << 31, UINT32_MAX, INT64_C(1) << 32, INT64_C(1) << 40};

	device_begin();
	device_init();
	setenv("COLL_LOG", "error", 1);
	context_begin(0);
	for (size_t i = 0; i < sizeof(finished) / sizeof(finished[0]); i++)
		test_first_call(finished[i]);
	test_two_first_calls();
	context_end(0);
	device_end();
	return done_testing();
}
