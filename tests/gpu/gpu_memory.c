/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_memory.c - buffers that begin at any byte, memory of a pool, which no context owns, registered memory, and large
 * buffers in place.
 */
#include "gpu.h"

enum { COUNT = 999, REPEATS = 5 };

/* Every collective on the arenas of *g. */
static void memory_calls(const struct gpu *g, int aligned)
{
	static const int32_t types[] = {COLL_FLOAT32, COLL_FLOAT64, COLL_FLOAT16, COLL_INT32};

	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int variant = 0; variant < 8; variant++) {
			const struct gpu_call call = {.c = {.kind = oracle_kinds[k],
							    .dtype = types[variant % 4],
							    .count = COUNT,
							    .root = variant & 1 ? g->nranks - 1 : 0,
							    .place = variant >> 2,
							    .gaps = variant & 1,
							    .aligned = aligned,
							    .near = 1},
						      .stream = variant & 2 && g->native ? g->stream
											 : NULL};

			gpu_call(g, &call);
		}
}

static void memory_pool(const struct gpu *g)
{
	int (*alloc)(cuda_ptr_t * ptr, size_t bytes, void *stream);
	int (*release)(cuda_ptr_t ptr, void *stream);
	const char *name = "memory of a pool";
	cuda_ptr_t arenas[2] = {0, 0};
	struct gpu pooled = *g;

	if (!gpu_symbol("cuMemAllocAsync", &alloc) || !gpu_symbol("cuMemFreeAsync", &release) ||
	    alloc(&arenas[0], GPU_ARENA, g->stream) || alloc(&arenas[1], GPU_ARENA, g->stream)) {
		gpu_skip(name, "the driver gives none");
		return;
	}
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
	pooled.send = (char *)(uintptr_t)arenas[0];
	pooled.recv = (char *)(uintptr_t)arenas[1];
	memory_calls(&pooled, 1);
	for (int i = 0; i < 2; i++)
		gpu_must(release(arenas[i], g->stream), "cuMemFreeAsync");
	gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
	gpu_report("%s", name);
}

static void memory_registered(const struct gpu *g)
{
	void *send, *recv;

	if (gpu_did(coll_comm_register(g->comm, g->send, GPU_ARENA, &send), "coll_comm_register") &&
	    gpu_did(coll_comm_register(g->comm, g->recv, GPU_ARENA, &recv), "coll_comm_register")) {
		memory_calls(g, 1);
		gpu_did(coll_comm_deregister(g->comm, send), "coll_comm_deregister");
		gpu_did(coll_comm_deregister(g->comm, recv), "coll_comm_deregister");
		gpu_sums(g, g->comm, gpu_total(g), "afterwards");
	}
	gpu_report("registered memory");
}

/*
 * Blocks larger than what engines have room for, in place.  Rank 0 comes late: its peers' blocks then arrive faster than
 * it sends the blocks that they replace.
 */
static void memory_in_place(const struct gpu *g)
{
	size_t bytes = gpu_is_standin ? 1 << 20 : GPU_ARENA;
	size_t count = bytes / sizeof(int32_t) / (size_t)g->nranks;
	const int32_t *got = (const int32_t *)(void *)g->host;

	for (int i = 0; i < REPEATS; i++) {
		for (int r = 0; r < g->nranks; r++)
			gpu_must(cuda_driver.cuMemsetD32Async(
					 (uintptr_t)g->recv + (size_t)r * count * sizeof(*got),
					 (unsigned)(100 * g->rank + r), count, g->stream),
				 "fill");
		gpu_must(cuda_driver.cuStreamSynchronize(g->stream), "cuStreamSynchronize");
		gpu_did(coll_barrier(g->comm), "coll_barrier");
		if (!g->rank)
			gpu_sleep(0.05);
		gpu_did(coll_alltoall(g->recv, g->recv, count, COLL_INT32, g->comm, NULL),
			"coll_alltoall");
		gpu_did(coll_sync(g->comm), "coll_sync");
		gpu_copy(g->host, g->recv, bytes);
		for (size_t k = 0; k < count * (size_t)g->nranks; k++)
			if (got[k] != 100 * (int32_t)(k / count) + g->rank) {
				gpu_fail("word %zu from rank %zu is %d", k % count, k / count,
					 got[k]);
				break;
			}
	}
	gpu_report("a large alltoall in place");
}

void gpu_memory(struct gpu *g)
{
	memory_calls(g, 0);
	gpu_report("buffers that begin at any byte");
	memory_pool(g);
	memory_registered(g);
	memory_in_place(g);
}
