/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_memory.c - the stand-in driver's memory, and its answers about pointers. */
#include "cuda_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct standin_memory *standin_memories;
static struct standin_memory *standin_graves; /* freed memory that running work may still use */
static unsigned long standin_ids;
static _Atomic unsigned long standin_allocated; /* by cuMemAlloc */

/* --------------------------------------------------------- beginning and ending -- */

/* Maps memory; `hidden`: the program cannot access it. */
static int standin_map(struct standin_memory *m, int hidden)
{
	int fd = memfd_create("device memory", MFD_CLOEXEC);
	int bad = fd < 0 || ftruncate(fd, (off_t)m->bytes);

	m->inside =
		bad ? MAP_FAILED : mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	m->base = m->inside;
	if (hidden && m->inside != MAP_FAILED)
		m->base = mmap(NULL, m->bytes, PROT_NONE, MAP_SHARED, fd, 0);
	if (m->base == MAP_FAILED && m->inside != MAP_FAILED)
		munmap(m->inside, m->bytes);
	if (fd >= 0)
		close(fd);
	return m->base == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static int standin_alloc(void **ptr, size_t bytes, unsigned type, unsigned managed)
{
	struct standin_context *context;
	int code = standin_enter(&context);
	struct standin_memory *m;

	if (code)
		return code;
	standin_await_freeing(context);
	code = standin_unsafe();
	if (code)
		return standin_leave(code);
	m = bytes && ptr ? calloc(1, sizeof(*m)) : NULL;
	if (!m)
		return standin_leave(bytes && ptr ? CUDA_ERROR_OUT_OF_MEMORY
						  : CUDA_ERROR_INVALID_VALUE);
	*m = (struct standin_memory){.bytes = bytes,
				     .type = type,
				     .managed = managed,
				     .pooled = type == CU_MEMORYTYPE_DEVICE && !managed &&
					       getenv("STANDIN_CUDA_POOL"),
				     .context = context,
				     .id = ++standin_ids,
				     .next = standin_memories};
	code = standin_map(m, type == CU_MEMORYTYPE_DEVICE && !managed);
	if (code) {
		free(m);
		return standin_leave(code);
	}
	standin_memories = m;
	*ptr = m->base;
	return standin_leave(CUDA_SUCCESS);
}

/* Work that was running when the memory was freed may still use it. */
void standin_memory_reap(void)
{
	unsigned long oldest = standin_graves ? standin_stream_oldest() : 0;

	for (struct standin_memory **at = &standin_graves; *at;) {
		struct standin_memory *m = *at;

		if (m->buried > oldest) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		munmap(m->base, m->bytes);
		if (m->inside != m->base)
			munmap(m->inside, m->bytes);
		free(m);
	}
}

static void standin_bury(struct standin_memory **at)
{
	struct standin_memory *m = *at;

	*at = m->next;
	m->buried = ++standin_clock;
	m->next = standin_graves;
	standin_graves = m;
}

void standin_memory_end(struct standin_context *context)
{
	for (struct standin_memory **at = &standin_memories; *at;)
		if ((*at)->context == context)
			standin_bury(at);
		else
			at = &(*at)->next;
	standin_memory_reap();
}

/* Frees also in a broken context; the result then has the context's code. */
static int standin_free(const void *ptr, int host)
{
	struct standin_memory **at = &standin_memories;
	struct standin_context *context;
	int code = standin_begin(&context);

	if (code)
		return code;
	code = standin_unsafe();
	if (code)
		return standin_leave(code);
	if (getenv("STANDIN_CUDA_FREE")) {
		context->freeing += !strcmp(getenv("STANDIN_CUDA_FREE"), "locked");
		standin_streams_await(context);
		context->freeing -= context->freeing > 0;
	}
	while (*at && ((*at)->base != ptr || ((*at)->type == CU_MEMORYTYPE_HOST) != host))
		at = &(*at)->next;
	if (!*at)
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	standin_bury(at);
	standin_memory_reap();
	return standin_leave(context->broken);
}

int cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	void *at = NULL;
	int code = standin_alloc(&at, bytes, CU_MEMORYTYPE_DEVICE, 0);

	*ptr = (uintptr_t)at;
	if (!code)
		standin_allocated++;
	return code;
}

int cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned flags)
{
	void *at = NULL;
	int code = CUDA_ERROR_INVALID_VALUE;

	if (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST)
		code = standin_alloc(&at, bytes, CU_MEMORYTYPE_DEVICE, 1);
	*ptr = (uintptr_t)at;
	return code;
}

int cuMemFree_v2(CUdeviceptr ptr)
{
	return standin_free((const void *)(uintptr_t)ptr, 0);
}

/*
 * Memory of the device's pool: not in the order of the stream, but no context owns it.  No function here calls an
 * exported one: driver.t takes each of them out.
 */
int cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, void *stream)
{
	void *at = NULL;
	int code = standin_alloc(&at, bytes, CU_MEMORYTYPE_DEVICE, 0);

	(void)stream;
	*ptr = (uintptr_t)at;
	if (!code) {
		pthread_mutex_lock(&standin_lock);
		standin_memory_find((void *)(uintptr_t)*ptr)->pooled = 1;
		pthread_mutex_unlock(&standin_lock);
	}
	return code;
}

int cuMemFreeAsync(CUdeviceptr ptr, void *stream)
{
	(void)stream;
	return standin_free((const void *)(uintptr_t)ptr, 0);
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
	const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			       CU_MEMHOSTALLOC_WRITECOMBINED;
	int fault = standin_injected("STANDIN_CUDA_PIN", 0);

	if (flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	return fault ? fault : standin_alloc(ptr, bytes, CU_MEMORYTYPE_HOST, 0);
}

int cuMemFreeHost(void *ptr)
{
	return standin_free(ptr, 1);
}

/* ------------------------------------------------------------------- pointers -- */

/* Returns NULL if the driver does not know the memory. */
struct standin_memory *standin_memory_find(const void *ptr)
{
	struct standin_memory *m = standin_memories;
	uintptr_t at = (uintptr_t)ptr;

	while (m && (at < (uintptr_t)m->base || at >= (uintptr_t)m->base + m->bytes))
		m = m->next;
	return m;
}

unsigned long standin_memory_id(const void *ptr)
{
	const struct standin_memory *m = standin_memory_find(ptr);

	return m ? m->id : 0;
}

/*
 * The address at which the stand-in may access ptr[0..n), which begins in m; NULL if not all bytes
 * exist.
 */
char *standin_memory_inside(const struct standin_memory *m, const void *ptr, size_t n)
{
	size_t at = (size_t)((const char *)ptr - m->base);

	return n <= m->bytes - at ? m->inside + at : NULL;
}

/* Work whose context is lost finds no memory. */
void *standin_touch(const void *ptr, size_t n)
{
	const struct standin_memory *m;
	void *place = NULL;

	pthread_mutex_lock(&standin_lock);
	m = standin_memory_find(ptr);
	if (m && !(standin_worker && (standin_worker->dead || standin_worker->context->broken)))
		place = standin_memory_inside(m, ptr, n);
	pthread_mutex_unlock(&standin_lock);
	return place;
}

static int standin_attribute(const struct standin_memory *m, int name, void *value, const void *ptr)
{
	switch (name) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(void **)value = m && !m->pooled ? m->context : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = m ? m->type : 0; break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)value = m ? (uintptr_t)ptr : 0;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(const void **)value = m && m->inside == m->base ? ptr : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)value = m ? m->id : 0; break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = m ? m->managed : 0; break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = m ? m->context->device : -2;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(void **)value = m ? m->base : NULL; break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value = m ? m->bytes : 0; break;
	case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)value = m != NULL; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Needs no current context, but returns the code of a broken current context. */
static int standin_look(void)
{
	int fault = standin_injected("STANDIN_CUDA_LOOK", 0), code = standin_process_ok();
	struct standin_context *context;

	if (code || fault)
		return code ? code : fault;
	if (!standin_contexts_pushed())
		pthread_mutex_lock(&standin_lock);
	else
		code = standin_enter(&context);
	return code;
}

int cuPointerGetAttribute(void *value, int name, CUdeviceptr ptr)
{
	const void *at = (const void *)(uintptr_t)ptr;
	const struct standin_memory *m;
	int code = standin_look();

	if (code)
		return code;
	m = standin_memory_find(at);
	if (!m || !value || (name == CU_POINTER_ATTRIBUTE_CONTEXT && m->pooled) ||
	    (name == CU_POINTER_ATTRIBUTE_HOST_POINTER && m->inside != m->base))
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	return standin_leave(standin_attribute(m, name, value, at));
}

/* A pointer that the driver does not know is no error. */
int cuPointerGetAttributes(unsigned n, const int *names, void **values, CUdeviceptr ptr)
{
	const void *at = (const void *)(uintptr_t)ptr;
	const struct standin_memory *m;
	int code = standin_look();

	if (code)
		return code;
	m = standin_memory_find(at);
	for (unsigned i = 0; i < n && !code; i++)
		code = standin_attribute(m, names[i], values[i], at);
	return standin_leave(code);
}

/* --------------------------------------------------------------- queries by tests -- */

unsigned long standin_allocations(void)
{
	return standin_allocated;
}

int standin_pinned(void)
{
	int n = 0;

	pthread_mutex_lock(&standin_lock);
	for (const struct standin_memory *m = standin_memories; m; m = m->next)
		n += m->type == CU_MEMORYTYPE_HOST;
	pthread_mutex_unlock(&standin_lock);
	return n;
}
