/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage_bench.c - times an allreduce of device memory that is staged through the host, over the
 * tests' stand-in for the CUDA driver, whose copies are memcpys by other threads, not DMA.
 *
 *   make check TESTS=tests/device/staging_test && cc -O2 -D_GNU_SOURCE -I$SRC/include \
 *       $SRC/tests/bench/stage_bench.c -o stage_bench tests/lib/.libs/libtests.a tools/oracle/.libs/liboracle.a \
 *       -L.libs -lcoll -Ltests/fakes/.libs -lcuda -lpthread -lm
 *   LD_LIBRARY_PATH=.libs:tests/fakes/.libs COLL_PLUGIN_PATH=.libs ./stage_bench MiB times [backend [host]]
 *
 * The program prints median, minimum and maximum of rank 0 of two processes in ms; with a fourth
 * argument for host memory.
 */
#include "../lib/device_harness.h"

struct bench {
	size_t bytes;
	int times, host;
};

static int bench_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void bench_run(struct rank *r)
{
	const struct bench *b = r->user;
	double *ms = calloc((size_t)b->times, sizeof(*ms));
	void *buf[2];

	device_init();
	for (int k = 0; k < 2; k++)
		buf[k] = b->host ? calloc(1, b->bytes) : device_new(0, b->bytes, 0);
	for (int i = -2; ms && i < b->times; i++) {
		double begin;

		rank_did(r, coll_barrier(r->comm), "barrier");
		begin = ranks_now();
		rank_did(r,
			 coll_allreduce(buf[0], buf[1], b->bytes / 4, COLL_FLOAT32, COLL_SUM,
					r->comm, NULL),
			 "allreduce");
		rank_did(r, coll_sync(r->comm), "sync");
		if (i >= 0)
			ms[i] = 1e3 * (ranks_now() - begin);
	}
	qsort(ms, (size_t)b->times, sizeof(*ms), bench_compare);
	if (r->rank == 0)
		printf("%.2f %.2f %.2f\n", ms[b->times / 2], ms[0], ms[b->times - 1]);
	fflush(stdout);
	free(ms);
}

int main(int argc, char **argv)
{
	struct bench b = {.times = argc > 2 ? atoi(argv[2]) : 5, .host = argc > 4};
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	const struct ranks_job job = {argc > 3 ? argv[3] : "tcp", 2, 1, bench_run, &b};

	b.bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	setenv("COLL_LOG", "error", 0);
	setenv("STANDIN_CUDA_DELAY_US", "0", 0);
	ranks_run_processes(&job, shared);
	for (int k = 0; k < 2; k++)
		if (shared->failure[k][0])
			fprintf(stderr, "rank %d: %s\n", k, shared->failure[k]);
	return shared->failure[0][0] || shared->failure[1][0];
}
