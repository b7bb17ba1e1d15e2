/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.c - sums gradients while it still computes others; one source for GPUs and CPUs.
 *
 *   coll run -n 4 overlap            one process per rank
 *   overlap --in-process 4           all ranks are threads of this process
 *   overlap --kib 65536 ...          KiB of each layer's gradient
 *   overlap --host 1 ...             host memory, also where there is a device
 *
 * A step computes its layers one after another.  As soon as a layer's gradient is ready, an event
 * lets the communicator's own stream begin to sum it; another event tells when the program may use
 * the sums.  Where there is a CUDA device the program enqueues all work without waiting, whatever
 * the backend: buffers are device memory, and a chain of copies on a stream of the program's own
 * stands for the computation.  Over a backend that does not take device memory the library copies
 * the buffers through host memory, in pieces.  The program opens the CUDA driver at run time, so
 * building it needs no part of CUDA.  Without a device, or with --host, buffers are host memory, and
 * the calling thread computes while a thread of the library moves data.
 */
#include <coll/coll.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 8, STEPS = 4, WORK = 16, MAX_RANKS = 64 };

typedef unsigned long long device_ptr; /* CUdeviceptr */

/* The functions of libcuda.so.1 that the program uses; all NULL without the library. */
static struct {
	int (*init)(unsigned flags);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*context_retain)(void **context, int device);
	int (*context_set)(void *context);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_synchronize)(void *stream);
	int (*stream_destroy)(void *stream);
	int (*alloc)(device_ptr *ptr, size_t bytes);
	int (*free)(device_ptr ptr);
	int (*fill)(device_ptr dst, unsigned value, size_t words, void *stream);
	int (*copy)(device_ptr dst, device_ptr src, size_t bytes, void *stream);
} cuda;

/* One rank. */
struct trainer {
	coll_comm_t comm;
	/* 1: buffers on a device; 0: buffers in host memory, and the calling thread computes */
	int on_device;
	coll_stream_t stream; /* the stream of the computation */
	int32_t rank, nranks;
	size_t count; /* floats of a layer */
	float *gradient[LAYERS], *weights[LAYERS], *scratch[2], *host;
	coll_event_t ready[LAYERS], added[LAYERS];
};

static size_t kib = 256;
static int devices; /* number of CUDA devices; 0: the program uses host memory */

/* Prints the message of a failed call, for calls of the library the library's message. */
static void check(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "overlap: %s failed: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the number of devices. */
static int open_cuda(void)
{
	const struct {
		const char *name;
		void *slot;
	} functions[] = {
		{"cuInit", &cuda.init},
		{"cuDeviceGetCount", &cuda.device_count},
		{"cuDeviceGet", &cuda.device_get},
		{"cuDevicePrimaryCtxRetain", &cuda.context_retain},
		{"cuCtxSetCurrent", &cuda.context_set},
		{"cuStreamCreate", &cuda.stream_create},
		{"cuStreamSynchronize", &cuda.stream_synchronize},
		{"cuStreamDestroy_v2", &cuda.stream_destroy},
		{"cuMemAlloc_v2", &cuda.alloc},
		{"cuMemFree_v2", &cuda.free},
		{"cuMemsetD32Async", &cuda.fill},
		{"cuMemcpyAsync", &cuda.copy},
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
	int count = 0;

	if (!library)
		return 0;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		symbol = dlsym(library, functions[i].name);
		check(!symbol, functions[i].name);
		memcpy(functions[i].slot, &symbol, sizeof(symbol));
	}
	return cuda.init(0) || cuda.device_count(&count) ? 0 : count;
}

/* ------------------------------------ memory and computation, on the device or the host -- */

static float *new_buffer(const struct trainer *t)
{
	size_t bytes = t->count * sizeof(float);
	device_ptr ptr = 0;

	if (!t->on_device)
		ptr = (device_ptr)(uintptr_t)malloc(bytes);
	check(t->on_device ? cuda.alloc(&ptr, bytes) : !ptr, "taking memory");
	return (float *)(uintptr_t)ptr;
}

static void free_buffer(const struct trainer *t, float *buffer)
{
	if (t->on_device)
		check(cuda.free((uintptr_t)buffer), "giving memory back");
	else
		free(buffer);
}

static void fill(const struct trainer *t, float *dst, float value)
{
	unsigned bits;

	memcpy(&bits, &value, sizeof(bits));
	if (t->on_device)
		check(cuda.fill((uintptr_t)dst, bits, t->count, t->stream), "filling");
	else
		for (size_t i = 0; i < t->count; i++)
			dst[i] = value;
}

static void copy(const struct trainer *t, float *dst, const float *src)
{
	size_t bytes = t->count * sizeof(float);

	if (t->on_device)
		check(cuda.copy((uintptr_t)dst, (uintptr_t)src, bytes, t->stream), "copying");
	else
		memcpy(dst, src, bytes);
}

/* Returns when this rank's computation is complete. */
static void finish(const struct trainer *t)
{
	check(t->on_device && cuda.stream_synchronize(t->stream), "waiting for the stream");
}

/* -------------------------------------------------------------- training -- */

/* Small whole numbers, whose sum is exact in any order. */
static float gradient_value(int step, int layer, int rank)
{
	return (float)(100 * step + 10 * layer + rank + 1);
}

static void compute(const struct trainer *t, int step, int layer)
{
	fill(t, t->scratch[0], gradient_value(step, layer, t->rank));
	for (int i = 0; i < WORK; i++)
		copy(t, t->scratch[(i + 1) % 2], t->scratch[i % 2]);
	copy(t, t->gradient[layer], t->scratch[WORK % 2]);
}

/* Enqueues the sum over all ranks of the layer's gradient, to run once the gradient is computed. */
static void add_up(const struct trainer *t, int layer)
{
	float *g = t->gradient[layer];

	check(coll_event_record_on_stream(t->ready[layer], t->comm, t->stream) ||
		      coll_comm_wait_event(t->comm, t->ready[layer]) ||
		      coll_allreduce(g, g, t->count, COLL_FLOAT32, COLL_SUM, t->comm, NULL) ||
		      coll_event_record(t->added[layer], t->comm),
	      "adding up a gradient");
}

/* Returns the seconds of one step. */
static double train(const struct trainer *t, int step, int overlap)
{
	double begin;

	check(coll_barrier(t->comm), "waiting for all ranks");
	begin = now();
	for (int layer = LAYERS - 1; layer >= 0; layer--) {
		compute(t, step, layer);
		add_up(t, layer);
		check(!overlap && coll_event_synchronize(t->added[layer]), "waiting for the sums");
	}
	for (int layer = 0; layer < LAYERS; layer++) {
		check(coll_stream_wait_event(t->comm, t->stream, t->added[layer]),
		      "having the stream wait for the sums");
		copy(t, t->weights[layer], t->gradient[layer]);
	}
	finish(t);
	return now() - begin;
}

static void verify(struct trainer *t, int step)
{
	const float *w = t->host;

	for (int layer = 0; layer < LAYERS; layer++) {
		float want = 0;

		for (int r = 0; r < t->nranks; r++)
			want += gradient_value(step, layer, r);
		copy(t, t->host, t->weights[layer]);
		finish(t);
		for (size_t i = 0; i < t->count; i++)
			if (w[i] < want || w[i] > want) {
				fprintf(stderr,
					"overlap: rank %d, step %d, layer %d: element %zu is %g, "
					"not %g\n",
					t->rank, step, layer, i, w[i], want);
				exit(1);
			}
	}
}

/* ---------------------------------------------------------------- ranks -- */

static void use_device(struct trainer *t)
{
	void *context;
	int32_t ordinal;
	int device;

	check(coll_comm_device(t->comm, &ordinal), "asking for the device");
	if (ordinal < 0) /* a backend that uses none leaves the choice to the program */
		ordinal = t->rank % devices;
	check(cuda.device_get(&device, ordinal) || cuda.context_retain(&context, device) ||
		      cuda.context_set(context) || cuda.stream_create(&t->stream, 1),
	      "making a stream");
	t->on_device = 1;
}

static void prepare(struct trainer *t)
{
	for (int i = 0; i < LAYERS; i++) {
		t->gradient[i] = new_buffer(t);
		t->weights[i] = new_buffer(t);
		check(coll_event_create(t->comm, &t->ready[i]) ||
			      coll_event_create(t->comm, &t->added[i]),
		      "making events");
	}
	t->scratch[0] = new_buffer(t);
	t->scratch[1] = new_buffer(t);
	t->host = malloc(t->count * sizeof(float));
	check(!t->host, "taking memory");
}

static void clean_up(struct trainer *t)
{
	for (int i = 0; i < LAYERS; i++) {
		free_buffer(t, t->gradient[i]);
		free_buffer(t, t->weights[i]);
		check(coll_event_destroy(t->ready[i]) || coll_event_destroy(t->added[i]),
		      "ending events");
	}
	free_buffer(t, t->scratch[0]);
	free_buffer(t, t->scratch[1]);
	free(t->host);
	check(t->on_device && cuda.stream_destroy(t->stream), "ending the stream");
	check(coll_comm_destroy(t->comm), "destroying the communicator");
}

static void *run_rank(void *arg)
{
	struct trainer t = {.comm = arg, .count = kib * 1024 / sizeof(float)};
	double seconds[2] = {0, 0};
	const char *backend;

	check(coll_comm_user_rank(t.comm, &t.rank) || coll_comm_count(t.comm, &t.nranks) ||
		      coll_comm_backend(t.comm, &backend),
	      "asking the communicator");
	if (devices)
		use_device(&t);
	prepare(&t);
	/* The first step of each kind is a warm-up. */
	for (int step = 0; step < 2 + 2 * STEPS; step++) {
		double time = train(&t, step, step % 2);

		seconds[step % 2] += step < 2 ? 0 : time;
		verify(&t, step);
	}
	check(coll_barrier(t.comm), "waiting for all ranks");
	if (t.rank == 0)
		printf("%d layers of %zu KiB are right, %d ranks, backend %s, %s memory: %.3f ms a "
		       "step, %.3f ms without overlap\n",
		       LAYERS, kib, t.nranks, backend, t.on_device ? "device" : "host",
		       seconds[1] / STEPS * 1e3, seconds[0] / STEPS * 1e3);
	clean_up(&t);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *const options[] = {"progress=thread", "enable_gpu_fallback=yes", NULL};
	const char *local = getenv("COLL_LOCAL_RANK");
	coll_comm_t comms[MAX_RANKS];
	pthread_t threads[MAX_RANKS];
	coll_config_t config;
	size_t in_process = 0, host = 0, nranks;

	for (int i = 1; i < argc; i += 2) {
		int value = i + 1 < argc ? atoi(argv[i + 1]) : 0;
		size_t *option = !strcmp(argv[i], "--kib")          ? &kib
				 : !strcmp(argv[i], "--in-process") ? &in_process
				 : !strcmp(argv[i], "--host")       ? &host
								    : NULL;

		check(value < 1 || !option, "reading [--kib KIB] [--in-process RANKS] [--host 1]");
		*option = (size_t)value;
	}
	devices = host ? 0 : open_cuda();
	nranks = in_process ? in_process : 1;
	check(nranks > MAX_RANKS, "taking more than 64 ranks");
	coll_config_init(&config, sizeof(config));
	config.options = options;
	/* Gives each process of a machine a GPU of its own, as far as there are enough. */
	config.device = devices && local ? atoi(local) % devices : -1;
	if (in_process)
		check(coll_comm_init_all(comms, (int32_t)nranks, NULL, &config),
		      "making communicators");
	else
		check(coll_comm_init_env(comms, &config), "making the communicator");
	for (size_t r = 0; r < nranks; r++)
		check(pthread_create(&threads[r], NULL, run_rank, comms[r]), "starting a thread");
	for (size_t r = 0; r < nranks; r++)
		pthread_join(threads[r], NULL);
	return 0;
}
