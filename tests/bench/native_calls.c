/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_calls.c - makes allreduces of two ranks in one thread over nccl and the tests' stand-ins, each with other buffers
 * than the last, for native_calls.t, which counts their instructions.
 *
 *   native_calls CALLS
 */
#include <coll/coll.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 2, BUFFERS = 64, FLOATS = 256, SYNC_EACH = 100 };

static coll_comm_t comms[RANKS];
static float *buffers[RANKS];
static void *contexts[RANKS];
static int (*set_current)(void *);

static void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "native_calls: %s: %d, %s\n", what, code, coll_get_last_error(NULL));
	exit(1);
}

/* The program does not link against the driver, as programs of users may not. */
static void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol = library ? dlsym(library, name) : NULL;

	check(!symbol, name);
	return symbol;
}

static void open_devices(void)
{
	int (*init)(unsigned) = (int (*)(unsigned))driver("cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))driver("cuDevicePrimaryCtxRetain");
	int (*alloc)(unsigned long long *, size_t) =
		(int (*)(unsigned long long *, size_t))driver("cuMemAlloc_v2");
	unsigned long long ptr;

	set_current = (int (*)(void *))driver("cuCtxSetCurrent");
	check(init(0), "cuInit");
	for (int r = 0; r < RANKS; r++) {
		check(retain(&contexts[r], r), "cuDevicePrimaryCtxRetain");
		check(set_current(contexts[r]), "cuCtxSetCurrent");
		check(alloc(&ptr, BUFFERS * FLOATS * sizeof(float)), "cuMemAlloc");
		buffers[r] = (float *)(uintptr_t)ptr;
	}
}

static void call(int r, int i)
{
	float *x = buffers[r] + i % BUFFERS * FLOATS;

	check(set_current(contexts[r]), "cuCtxSetCurrent");
	check(coll_allreduce(x, x, 2, COLL_FLOAT32, COLL_SUM, comms[r], NULL), "coll_allreduce");
}

int main(int argc, char **argv)
{
	const int calls = argc > 1 ? atoi(argv[1]) : 1;

	open_devices();
	check(coll_comm_init_all(comms, RANKS, NULL, NULL), "coll_comm_init_all");
	for (int i = 0; i < calls; i++) {
		for (int r = 0; r < RANKS; r++)
			call(r, i);
		for (int r = 0; r < RANKS && i % SYNC_EACH == 0; r++)
			check(coll_sync(comms[r]), "coll_sync");
	}
	for (int r = 0; r < RANKS; r++) {
		check(coll_sync(comms[r]), "coll_sync");
		check(coll_comm_destroy(comms[r]), "coll_comm_destroy");
	}
	return 0;
}
