/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream_order_test.c - the words for which streams of the program wait have 32 bits, the numbers of operations 64: the
 * first call with a stream, after any number of operations.
 */
#include "fake_backend.h"

#include "../lib/device_harness.h"
#include "exec/stream_order.h"

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
	_Atomic int gate = 0;
	void *stream;

	rig->comm->finished = rig->comm->issued = finished;
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    standin_stream_do(stream, kernel, &gate))
		bail_out("no stream");
	is_int(stream_order_wait(rig->comm, "a call", stream, finished), COLL_SUCCESS,
	       "the first call with a stream after %llu operations", (unsigned long long)finished);
	atomic_store(&gate, 1);
	ok(stream_ends(stream), "does not hold the stream");
	cuStreamDestroy_v2(stream);
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
	context_end(0);
	device_end();
	return done_testing();
}
