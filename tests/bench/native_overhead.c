/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_overhead.c - the cost of coll_allreduce beyond the backend's own slot, in nanoseconds of the
 * calling thread, with backends that do nothing (tests/plugins/good/coll_null.c).
 *
 *   make bench BENCH=native
 *
 *   native_overhead DIRECTORY                 all cases, as a table; DIRECTORY has the two plugins
 *   native_overhead DIRECTORY CASE [CALLS]    one case, CALLS calls, for callgrind
 *
 * If the loader finds a CUDA driver, the backend is 'nulldevice' and the buffers are device memory.
 *
 * Batches of calls of the library and of the slot itself alternate.  A figure is the median of the
 * differences, and the range that holds nine tenths of them.
 */
#include "../plugins/good/coll_null.h"
#include "bench.h"

#include <coll/backend.h>
#include <coll/coll.h>
#include <dlfcn.h>

/* BUFFERS: more buffers than the library remembers. */
enum { BATCH = 1000, ROUNDS = 401, BUFFERS = 4096, FEW = 64, FLOATS = 256, GROUP = 50 };

static struct {
	coll_comm_t comm;
	void *ep;
	const coll_backend_t *backend;
	float *buffers;
	int device; /* 1: its buffers are on a device */
} bench;

static void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "native_overhead: %s: %d, %s\n", what, code, coll_get_last_error(NULL));
	exit(1);
}

/* ---------------------------------------------------------------------- the cases -- */

static void library(int buffer, void *stream)
{
	float *x = bench.buffers + buffer * FLOATS;

	check(coll_allreduce(x, x, FLOATS, COLL_FLOAT32, COLL_SUM, bench.comm, stream),
	      "coll_allreduce");
}

static void slot(int buffer, void *stream)
{
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_FLOAT32,
			    .op = COLL_SUM,
			    .sendbuf = bench.buffers + buffer * FLOATS,
			    .recvbuf = bench.buffers + buffer * FLOATS,
			    .count = FLOATS,
			    .stream = stream};
	coll_error_t err;

	err.size = sizeof(err);
	check(bench.backend->native->allreduce(bench.ep, &args, &err), "allreduce");
}

static void sync_slot(void)
{
	coll_error_t err;

	err.size = sizeof(err);
	check(bench.backend->native->query(bench.ep, &err), "query");
}

/* Runs one batch of calls, of the library or of the slots themselves. */
typedef void (*batch_fn)(int calls, int direct);

static void same(int calls, int direct)
{
	for (int i = 0; i < calls; i++)
		direct ? slot(0, NULL) : library(0, NULL);
}

static void streamed(int calls, int direct)
{
	for (int i = 0; i < calls; i++)
		direct ? slot(0, &bench) : library(0, &bench);
}

static void rotating(int calls, int direct)
{
	for (int i = 0; i < calls; i++)
		direct ? slot(i % FEW, NULL) : library(i % FEW, NULL);
}

/* The library sees each buffer for the first time, or for the first time in a long while. */
static void fresh(int calls, int direct)
{
	static int last;

	for (int i = 0; i < calls; i++) {
		last = (last + 1) % BUFFERS;
		direct ? slot(last, NULL) : library(last, NULL);
	}
}

static void grouped(int calls, int direct)
{
	const coll_native_t *native = bench.backend->native;
	coll_error_t err;

	err.size = sizeof(err);
	for (int i = 0; i < calls; i += GROUP) {
		check(direct ? native->group_begin(bench.ep, &err) : coll_group_start(), "start");
		for (int k = 0; k < GROUP; k++)
			direct ? slot(k, NULL) : library(k, NULL);
		check(direct ? native->group_end(bench.ep, &err) : coll_group_end(), "end");
	}
}

static void synced(int calls, int direct)
{
	for (int i = 0; i < calls; i++) {
		direct ? slot(0, NULL) : library(0, NULL);
		if (direct)
			sync_slot();
		else
			check(coll_sync(bench.comm), "coll_sync");
	}
}

/* The backend completes no operation before the end of the batch. */
static void deep(int calls, int direct)
{
	struct null_handle *h = bench.ep;

	atomic_store(&h->done, 0);
	rotating(calls, direct);
	atomic_store(&h->done, UINT64_MAX);
	if (direct)
		sync_slot();
	else
		check(coll_sync(bench.comm), "coll_sync");
}

static const struct {
	const char *name;
	batch_fn fn;
} cases[] = {
	{"same", same},     {"stream", streamed}, {"rotating", rotating}, {"fresh", fresh},
	{"group", grouped}, {"sync", synced},     {"deep", deep},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* ---------------------------------------------------------------------- measuring -- */

static double batch_ns(batch_fn fn, int direct)
{
	double begun = bench_now();

	fn(BATCH, direct);
	return (bench_now() - begun) * 1e3 / BATCH;
}

static void measure(const char *name, batch_fn fn)
{
	double more[ROUNDS], bare[ROUNDS];

	for (int i = -20; i < ROUNDS; i++) {
		double d = batch_ns(fn, 1), l = batch_ns(fn, 0);

		if (i < 0)
			continue;
		bare[i] = d;
		more[i] = l - d;
	}
	qsort(more, ROUNDS, sizeof(*more), bench_order);
	qsort(bare, ROUNDS, sizeof(*bare), bench_order);
	printf("%-10s %-9s %8.1f %8.1f (%.1f to %.1f)\n", bench.device ? "nulldevice" : "null",
	       name, bare[ROUNDS / 2], more[ROUNDS / 2], more[ROUNDS / 20],
	       more[ROUNDS - ROUNDS / 20]);
}

/* -------------------------------------------------------------------- the backends -- */

/* The benchmark does not link against the driver, because there may be none. */
static void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = library ? dlsym(library, name) : NULL;

	if (!symbol)
		fprintf(stderr, "native_overhead: %s\n", dlerror());
	return symbol;
}

static float *device_buffers(void)
{
	int (*init)(unsigned) = (int (*)(unsigned))driver("cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))driver("cuDevicePrimaryCtxRetain");
	int (*push)(void *) = (int (*)(void *))driver("cuCtxPushCurrent_v2");
	int (*alloc)(unsigned long long *, size_t) =
		(int (*)(unsigned long long *, size_t))driver("cuMemAlloc_v2");
	unsigned long long ptr;
	void *context;

	if (!init || !retain || !push || !alloc)
		exit(1);
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(push(context), "cuCtxPushCurrent");
	check(alloc(&ptr, BUFFERS * FLOATS * sizeof(float)), "cuMemAlloc");
	return (float *)(uintptr_t)ptr;
}

static void open_backend(const char *directory, int device)
{
	const char *name = device ? "nulldevice" : "null";
	char path[4200];
	void *plugin;

	bench.device = device;
	bench.buffers =
		device ? device_buffers() : bench_buffer(BUFFERS * FLOATS * sizeof(float), 0);
	setenv("COLL_PLUGIN_PATH", directory, 1);
	setenv("COLL_BACKEND", name, 1);
	check(coll_comm_init_all(&bench.comm, 1, NULL, NULL), "coll_comm_init_all");
	check(coll_comm_native_handle(bench.comm, &bench.ep), "coll_comm_native_handle");
	snprintf(path, sizeof(path), "%s/coll_%s.so", directory, name);
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	bench.backend = plugin ? dlsym(plugin, "coll_backend_v1") : NULL;
	check(!bench.backend, path);
}

int main(int argc, char **argv)
{
	int devices = dlopen("libcuda.so.1", RTLD_NOW) != NULL;
	const char *only = argc > 2 ? argv[2] : NULL;

	if (argc < 2) {
		fprintf(stderr, "usage: native_overhead DIRECTORY [CASE [CALLS]]\n");
		return 2;
	}
	open_backend(argv[1], devices);
	if (!only)
		printf("%-10s %-9s %8s %8s\n", "backend", "case", "slot", "more, ns per call");
	for (int i = 0; i < CASES; i++) {
		if (!only)
			measure(cases[i].name, cases[i].fn);
		else if (!strcmp(only, cases[i].name))
			cases[i].fn(argc > 3 ? atoi(argv[3]) : BATCH, 0);
	}
	check(coll_comm_destroy(bench.comm), "coll_comm_destroy");
	return 0;
}
