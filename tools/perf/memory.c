/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - chooses the kind of memory and the device to measure, and allocates the buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "perf/perf.h"

static const char *const memory_names[] = {
	[MEMORY_HOST] = "host", [MEMORY_CUDA] = "cuda", [MEMORY_MANAGED] = "managed"};

const char *perf_memory_name(int kind)
{
	return memory_names[kind];
}

/* Does the backend take host memory?  NULL: the backend that the library would choose. */
static int memory_takes_host(const char *name)
{
	coll_backend_info_t backend = {.size = sizeof(backend)};
	coll_info_t info;
	int takes = 1;

	if (coll_info_create(NULL, &info) != COLL_SUCCESS)
		return 1;
	for (int32_t i = 0; i < coll_info_backend_count(info); i++)
		if (coll_info_backend(info, i, &backend) == COLL_SUCCESS &&
		    (name != NULL ? !strcmp(backend.name, name) : backend.chosen))
			takes = (backend.capabilities & COLL_CAP_HOST_MEMORY) != 0;
	coll_info_destroy(info);
	return takes;
}

int perf_local_rank(void)
{
	int32_t local = -1;

	/* A failure is no error here: coll_comm_init_env names a launcher that it does not understand. */
	coll_get_launch_info(NULL, NULL, &local, NULL);
	return local > 0 ? local : 0;
}

int perf_devices(const struct perf_options *o, int *devices)
{
	*devices = 0;
	if (o->memory == MEMORY_HOST || (o->memory == PERF_MEMORY_ANY && memory_takes_host(NULL)))
		return 0;
	*devices = memory_devices();
	if (*devices > 0 || o->memory == PERF_MEMORY_ANY)
		return 0;
	fprintf(stderr, "coll perf: --memory %s: %s\n", memory_names[o->memory], memory_error());
	return -1;
}

/* ------------------------------------------------------------------- buffers -- */

int perf_buffers_open(struct perf_buffers *b, const struct perf_options *o, coll_comm_t comm,
		      uint64_t bytes, char *text, size_t size)
{
	const char *backend = NULL;
	int32_t device = -1;
	int takes_host;

	coll_comm_device(comm, &device);
	coll_comm_backend(comm, &backend);
	takes_host = memory_takes_host(backend);
	b->kind = (enum memory_kind)o->memory;
	if (o->memory == PERF_MEMORY_ANY)
		b->kind = takes_host ? MEMORY_HOST : MEMORY_CUDA;
	b->device = device < 0 ? 0 : device;
	b->send = memory_new(b->kind, b->device, bytes);
	b->recv = memory_new(b->kind, b->device, bytes);
	b->share = takes_host ? NULL : memory_new(b->kind, b->device, PERF_SHARE_MAX);
	b->staging = b->kind == MEMORY_CUDA ? malloc(bytes) : NULL;
	if (b->send != NULL && b->recv != NULL && (b->share != NULL || takes_host) &&
	    (b->staging != NULL || b->kind != MEMORY_CUDA))
		return 0;
	snprintf(text, size,
		 "no memory (%s) for two buffers of %llu bytes: %s; -e sets the largest",
		 memory_names[b->kind], (unsigned long long)bytes, memory_error());
	return -1;
}

void perf_buffers_close(struct perf_buffers *b)
{
	memory_free(b->kind, b->device, b->send);
	memory_free(b->kind, b->device, b->recv);
	memory_free(b->kind, b->device, b->share);
	free(b->staging);
}

void perf_copy(const struct perf_buffers *b, void *dst, const void *src, size_t n)
{
	if (dst == src)
		return;
	if (b->kind == MEMORY_HOST) {
		memcpy(dst, src, n);
	} else if (memory_copy(b->device, dst, src, n) != 0) {
		fprintf(stderr, "coll perf: %s\n", memory_error());
		exit(1);
	}
}
