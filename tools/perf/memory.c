/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - chooses the kind of memory and the device to measure, and allocates the buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "perf/perf.h"

static const char *const memory_names[] = {[MEMORY_HOST] = "host",
					   [MEMORY_CUDA] = "cuda",
					   [MEMORY_MANAGED] = "managed",
					   [PERF_MEMORY_LIBRARY] = "library"};

/* Does the user leave it to the backend where the memory lies? */
static int memory_is_any(const struct perf_options *o)
{
	return o->memory == PERF_MEMORY_ANY || o->memory == PERF_MEMORY_LIBRARY;
}

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
	if (o->memory == MEMORY_HOST || (memory_is_any(o) && memory_takes_host(NULL)))
		return 0;
	*devices = memory_devices();
	if (*devices > 0 || memory_is_any(o))
		return 0;
	fprintf(stderr, "coll perf: --memory %s: %s\n", memory_names[o->memory], memory_error());
	return -1;
}

/* ------------------------------------------------------------------- buffers -- */

/* Allocates one of the two buffers; an error is the thread's last one of the library, or memory_error(). */
static char *buffer_new(const struct perf_buffers *b, coll_comm_t comm, uint64_t bytes)
{
	void *memory = NULL;

	if (b->memory != PERF_MEMORY_LIBRARY)
		return memory_new(b->kind, b->device, bytes);
	coll_mem_alloc(comm, bytes > 0 ? bytes : 1, &memory);
	return memory;
}

static void buffer_free(const struct perf_buffers *b, char *buffer)
{
	if (b->memory != PERF_MEMORY_LIBRARY)
		memory_free(b->kind, b->device, buffer);
	else
		coll_mem_free(buffer);
}

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
	if (memory_is_any(o))
		b->kind = takes_host ? MEMORY_HOST : MEMORY_CUDA;
	b->memory = o->memory == PERF_MEMORY_LIBRARY ? PERF_MEMORY_LIBRARY : (int)b->kind;
	b->device = device < 0 ? 0 : device;
	b->send = buffer_new(b, comm, bytes);
	b->recv = b->send != NULL ? buffer_new(b, comm, bytes) : NULL;
	b->share = takes_host ? NULL : memory_new(b->kind, b->device, PERF_SHARE_MAX);
	b->staging = b->kind == MEMORY_CUDA ? malloc(bytes) : NULL;
	if (b->send != NULL && b->recv != NULL && (b->share != NULL || takes_host) &&
	    (b->staging != NULL || b->kind != MEMORY_CUDA))
		return 0;
	snprintf(text, size,
		 "no memory (%s) for two buffers of %llu bytes: %s; -e sets the largest",
		 memory_names[b->memory], (unsigned long long)bytes,
		 b->memory == PERF_MEMORY_LIBRARY ? coll_get_last_error(NULL) : memory_error());
	return -1;
}

void perf_buffers_close(struct perf_buffers *b)
{
	buffer_free(b, b->send);
	buffer_free(b, b->recv);
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
