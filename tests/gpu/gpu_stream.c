/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_stream.c - the program's work on its own streams, before and behind calls, without a wait of the host; and CUDA
 * graphs.
 */
#include <stdlib.h>
#include "gpu.h"

enum { COUNT = 1024, LAUNCHES = 3, CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1 };

/* ------------------------------------------------------------------- order of streams -- */

static void stream_set(void *ptr, int32_t value, void *stream)
{
	gpu_must(cuda_driver.cuMemsetD32Async((uintptr_t)ptr, (unsigned)value, COUNT, stream),
		 "fill");
}

static struct {
	void *memory;
	size_t bytes;
} busy;

/*
 * Work of some milliseconds, which ends by itself: at the first use of code the driver may wait for all streams.  Each
 * part takes the device much longer than the host.
 */
static void stream_busy(const struct gpu *g, void *stream)
{
	int times = gpu_is_standin ? 40 : 100;

	/* Rank 0 comes late, so that the other ranks' operations wait. */
	for (int i = g->rank ? times / 4 : times; i; i--)
		gpu_must(cuda_driver.cuMemsetD8Async((uintptr_t)busy.memory, 0, busy.bytes, stream),
			 "fill");
}

/* Fills, adds up and copies the sums to another place. */
static void stream_call(const struct gpu *g, coll_comm_t comm, void *stream, int grouped)
{
	int32_t *copy = (int32_t *)(void *)g->send + COUNT, got[COUNT];

	stream_set(g->send, 0, stream);
	stream_set(g->recv, -1, stream);
	stream_set(copy, -2, stream);
	gpu_must(cuda_driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
	/* Rank 0 calls last: then nothing but the order of its stream holds its operation up. */
	if (!g->rank)
		gpu_sleep(0.02);
	stream_busy(g, stream);
	stream_set(g->send, g->rank + 1, stream);
	if (grouped)
		gpu_did(coll_group_start(), "coll_group_start");
	gpu_did(coll_allreduce(g->send, g->recv, COUNT, COLL_INT32, COLL_SUM, comm, stream),
		"coll_allreduce");
	if (grouped)
		gpu_did(coll_group_end(), "coll_group_end");
	gpu_must(
		cuda_driver.cuMemcpyAsync((uintptr_t)copy, (uintptr_t)g->recv, sizeof(got), stream),
		"copy");
	gpu_must(cuda_driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
	gpu_copy(got, copy, sizeof(got));
	for (int i = 0; i < COUNT; i++)
		if (got[i] != gpu_total(g)) {
			gpu_fail("copied sum %d is %d, not %d", i, got[i], gpu_total(g));
			return;
		}
}

/* The first call of a communicator connects the ranks, the second one does not. */
static void stream_order(const struct gpu *g, void *stream, int grouped, const char *name)
{
	coll_comm_t comm;

	if (gpu_did(coll_comm_dup(g->comm, &comm), "coll_comm_dup")) {
		gpu_did(coll_barrier(g->comm), "coll_barrier");
		if (!g->rank)
			gpu_sleep(0.1);
		stream_call(g, comm, stream, grouped);
		stream_call(g, comm, stream, grouped);
		gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
	}
	gpu_report("%s %s keeps its order", grouped ? "a group on" : "a call on", name);
}

/* ------------------------------------------------- a thread that the driver blocks -- */

enum { BLOCK_FREE, BLOCK_COPY, BLOCK_DEFAULT, BLOCK_QUEUE, BLOCKS };

/* What the driver ends only when the call on the stream has ended; meanwhile it blocks other threads of the process. */
static void block_in(const struct gpu *g, int what, void *memory, int32_t *pageable)
{
	switch (what) {
	case BLOCK_FREE: gpu_free(memory); break;
	case BLOCK_COPY:
		gpu_must(cuda_driver.cuMemcpyAsync((uintptr_t)pageable, (uintptr_t)g->recv,
						   COUNT * sizeof(*pageable), g->stream),
			 "a copy to memory that is not pinned");
		break;
	case BLOCK_DEFAULT:
		gpu_must(cuda_driver.cuMemcpyAsync((uintptr_t)pageable, (uintptr_t)memory,
						   COUNT * sizeof(*pageable), NULL),
			 "a copy on the default stream");
		break;
	default:
		for (int i = 0; i < 3000; i++)
			gpu_must(cuda_driver.cuMemsetD32Async((uintptr_t)memory, 0, 16, g->stream),
				 "cuMemsetD32Async");
	}
}

/* The last rank is late: the others' calls wait for it. */
static void stream_blocks(const struct gpu *g, int what, const char *name)
{
	void *memory = gpu_alloc(COUNT * sizeof(int32_t), 0);
	int32_t *pageable = malloc(COUNT * sizeof(int32_t));

	if (!memory || !pageable)
		gpu_fail("no memory");
	gpu_did(coll_barrier(g->comm), "coll_barrier");
	if (g->rank == g->nranks - 1)
		gpu_sleep(0.3);
	if (gpu_sum_begin(g, g->comm, g->stream) && memory && pageable)
		block_in(g, what, memory, pageable);
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
	gpu_must(cuda_driver.cuStreamSynchronize(NULL), "cuStreamSynchronize");
	gpu_sum_end(g, gpu_total(g), name);
	if (what != BLOCK_FREE)
		gpu_free(memory);
	free(pageable);
	gpu_report("%s behind a call that waits for another rank", name);
}

void gpu_streams(struct gpu *g)
{
	static const char *const blocked[] = {"cuMemFree", "a copy to memory that is not pinned",
					      "a copy on the default stream",
					      "more work than the stream takes"};
	busy.bytes = gpu_is_standin ? 8 << 20 : 512 << 20;
	busy.memory = gpu_alloc(busy.bytes, 0);
	if (!busy.memory) {
		gpu_skip("work on streams", "no memory of %zu bytes", busy.bytes);
		return;
	}
	for (int grouped = 0; grouped < 2; grouped++) {
		stream_order(g, g->stream, grouped, "the program's stream");
		stream_order(g, CUDA_PER_THREAD_STREAM, grouped, "the thread's own default stream");
	}
	gpu_free(busy.memory);
	if (g->nranks < 2) {
		gpu_skip("what the driver blocks", "one rank");
		return;
	}
	for (int what = 0; what < BLOCKS; what++)
		stream_blocks(g, what, blocked[what]);
}

/* ------------------------------------------------------------------------------ graphs -- */

/* The driver's functions for graphs. */
static struct {
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **graph);
	int (*instantiate)(void **exec, void *graph, unsigned long long flags);
	int (*launch)(void *exec, void *stream);
	int (*exec_destroy)(void *exec);
	int (*destroy)(void *graph);
} graphs;

static int capture_open(void)
{
	return gpu_symbol("cuStreamBeginCapture_v2", &graphs.begin) &&
	       gpu_symbol("cuStreamEndCapture", &graphs.end) &&
	       gpu_symbol("cuGraphInstantiateWithFlags", &graphs.instantiate) &&
	       gpu_symbol("cuGraphLaunch", &graphs.launch) &&
	       gpu_symbol("cuGraphExecDestroy", &graphs.exec_destroy) &&
	       gpu_symbol("cuGraphDestroy", &graphs.destroy);
}

/* Captures an allreduce and an alltoall in place, for which the library needs memory. */
static void *capture_calls(const struct gpu *g, coll_comm_t comm)
{
	void *graph = NULL, *exec = NULL;

	gpu_must(graphs.begin(g->stream, CAPTURE_THREAD_LOCAL), "cuStreamBeginCapture");
	gpu_did(coll_allreduce(g->send, g->recv, COUNT, COLL_INT32, COLL_SUM, comm, g->stream),
		"coll_allreduce in a capture");
	gpu_did(coll_alltoall(g->recv, g->recv, COUNT / (size_t)g->nranks, COLL_INT32, comm,
			      g->stream),
		"coll_alltoall in a capture");
	if (graphs.end(g->stream, &graph) || !graph) {
		gpu_fail("the library has ended the capture");
		return NULL;
	}
	gpu_must(graphs.instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
	gpu_must(graphs.destroy(graph), "cuGraphDestroy");
	return exec;
}

static void capture_launch(const struct gpu *g, void *exec, int32_t factor)
{
	int32_t got[COUNT];

	stream_set(g->send, factor * (g->rank + 1), g->stream);
	gpu_must(graphs.launch(exec, g->stream), "cuGraphLaunch");
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
	gpu_copy(got, g->recv, sizeof(got));
	for (int i = 0; i < COUNT / g->nranks * g->nranks; i++)
		if (got[i] != factor * gpu_total(g)) {
			gpu_fail("launch %d: sum %d is %d, not %d", factor, i, got[i],
				 factor * gpu_total(g));
			return;
		}
}

static void capture_own(const struct gpu *g, int first)
{
	coll_comm_t comm;
	void *exec;

	if (gpu_did(coll_comm_dup(g->comm, &comm), "coll_comm_dup")) {
		if (!first)
			gpu_sums(g, comm, gpu_total(g), "before the capture");
		exec = capture_calls(g, comm);
		for (int i = 1; exec && i <= LAUNCHES; i++)
			capture_launch(g, exec, i);
		if (exec)
			gpu_must(graphs.exec_destroy(exec), "cuGraphExecDestroy");
		gpu_did(coll_comm_destroy(comm), "coll_comm_destroy");
	}
	gpu_report("captured calls run with each launch of the graph%s",
		   first ? ", the first calls of a communicator" : "");
}

/* While the program captures a stream, in the mode that forbids most calls to the driver, other calls go on. */
static void capture_others(const struct gpu *g)
{
	void *graph = NULL, *stream = gpu_stream();

	gpu_must(graphs.begin(stream, CAPTURE_GLOBAL), "cuStreamBeginCapture");
	gpu_did(coll_allreduce(g->send, g->recv, COUNT, COLL_INT32, COLL_SUM, g->comm, NULL),
		"coll_allreduce");
	gpu_did(coll_sync(g->comm), "coll_sync");
	gpu_did(coll_barrier(g->comm), "coll_barrier");
	if (graphs.end(stream, &graph) || !graph)
		gpu_fail("the library has ended the capture");
	else
		gpu_must(graphs.destroy(graph), "cuGraphDestroy");
	gpu_must(cuda_driver.cuStreamDestroy(stream), "cuStreamDestroy");
	gpu_report("a capture by the program, and other calls meanwhile");
}

void gpu_capture(struct gpu *g)
{
	if (!capture_open()) {
		gpu_skip("graphs", "the driver has none");
		return;
	}
	if (g->native) {
		capture_own(g, 0);
		capture_own(g, 1);
	} else {
		gpu_skip("captured calls", "backend '%s' refuses them", g->backend);
	}
	gpu_sums(g, g->comm, gpu_total(g), "before the capture");
	capture_others(g);
}
