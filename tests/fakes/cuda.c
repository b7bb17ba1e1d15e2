/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.c - a stand-in for the CUDA driver (libcuda.so.1), so that what the library does with device
 * memory is tested where there is no device.  Built for tests only.
 *
 * It behaves as the document "CUDA Driver API" says, and worse where that allows it: device memory
 * cannot be touched from outside (whoever tries crashes), and copies on a stream are done when the
 * stream is waited for, not before.
 *
 *   STANDIN_CUDA_COPY=700@5   copies from the sixth on fail with CUresult 700
 *   STANDIN_CUDA_LOOK=700     cuPointerGetAttributes fails
 *   STANDIN_CUDA_PIN=2        cuMemHostAlloc fails
 */
#include "cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STANDIN_DEVICES = 2, STANDIN_DEEP = 16, STANDIN_LATER = 64 };

/* A piece of memory that the driver knows. */
struct standin_memory {
	struct standin_memory *next;
	char *base;   /* as its owner sees it */
	char *inside; /* the same memory, as only this file sees it */
	size_t bytes;
	unsigned type, managed;
	struct standin_context *context;
};

struct standin_context {
	int device, refs;
};

/* A copy that is still to be done. */
struct standin_copy {
	char *dst;
	const char *src;
	size_t n;
};

static pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
static struct standin_memory *standin_memories;
static struct standin_context standin_primary[STANDIN_DEVICES] = {{0, 0}, {1, 0}};
static pid_t standin_process; /* that has called cuInit */
static unsigned long standin_copied;

static _Thread_local struct standin_context *standin_stack[STANDIN_DEEP];
static _Thread_local int standin_depth;
static _Thread_local struct standin_copy standin_later[STANDIN_LATER];
static _Thread_local int standin_waiting;

/* The number in an environment variable, or 0; *after: what follows an '@'. */
static int standin_fault(const char *name, unsigned long *after)
{
	const char *text = getenv(name), *at = text ? strchr(text, '@') : NULL;

	*after = at ? strtoul(at + 1, NULL, 10) : 0;
	return text ? atoi(text) : 0;
}

/* ------------------------------------------------------------------- process -- */

int cuInit(unsigned flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&standin_lock);
	standin_process = getpid();
	pthread_mutex_unlock(&standin_lock);
	return CUDA_SUCCESS;
}

/* A child of a process that uses CUDA cannot use it. */
static int standin_ready(void)
{
	int ready;

	pthread_mutex_lock(&standin_lock);
	ready = standin_process == getpid();
	pthread_mutex_unlock(&standin_lock);
	return ready;
}

static const struct {
	int result;
	const char *name, *text;
} standin_results[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
	 "an illegal memory access was encountered"},
};

static int standin_words(int result, const char **out, int name)
{
	*out = NULL;
	for (size_t i = 0; i < sizeof(standin_results) / sizeof(standin_results[0]); i++)
		if (standin_results[i].result == result)
			*out = name ? standin_results[i].name : standin_results[i].text;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int cuGetErrorName(int result, const char **name)
{
	return standin_words(result, name, 1);
}

int cuGetErrorString(int result, const char **text)
{
	return standin_words(result, text, 0);
}

int cuDeviceGet(int *device, int ordinal)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ordinal < 0 || ordinal >= STANDIN_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ contexts -- */

int cuCtxGetCurrent(void **context)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	*context = standin_depth ? standin_stack[standin_depth - 1] : NULL;
	return CUDA_SUCCESS;
}

static int standin_is_context(const struct standin_context *context)
{
	int known = 0;

	pthread_mutex_lock(&standin_lock);
	for (int d = 0; d < STANDIN_DEVICES; d++)
		known |= context == &standin_primary[d] && context->refs > 0;
	pthread_mutex_unlock(&standin_lock);
	return known;
}

int cuCtxPushCurrent_v2(void *context)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!standin_is_context(context) || standin_depth == STANDIN_DEEP)
		return CUDA_ERROR_INVALID_CONTEXT;
	standin_stack[standin_depth++] = context;
	return CUDA_SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!standin_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = standin_stack[--standin_depth];
	return CUDA_SUCCESS;
}

static void standin_unmap(struct standin_memory *m)
{
	munmap(m->base, m->bytes);
	if (m->inside != m->base)
		munmap(m->inside, m->bytes);
	free(m);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device < 0 || device >= STANDIN_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&standin_lock);
	standin_primary[device].refs++;
	pthread_mutex_unlock(&standin_lock);
	*context = &standin_primary[device];
	return CUDA_SUCCESS;
}

/* The last one takes all memory of the context with it. */
int cuDevicePrimaryCtxRelease_v2(int device)
{
	int code = CUDA_SUCCESS;

	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device < 0 || device >= STANDIN_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&standin_lock);
	if (standin_primary[device].refs == 0)
		code = CUDA_ERROR_INVALID_CONTEXT;
	else if (--standin_primary[device].refs == 0)
		for (struct standin_memory **at = &standin_memories; *at;) {
			struct standin_memory *m = *at;

			if (m->context != &standin_primary[device]) {
				at = &m->next;
				continue;
			}
			*at = m->next;
			standin_unmap(m);
		}
	pthread_mutex_unlock(&standin_lock);
	return code;
}

/* -------------------------------------------------------------------- memory -- */

/* Maps memory; `hidden`: its owner cannot touch it. */
static int standin_map(struct standin_memory *m, int hidden)
{
	int fd = memfd_create("device memory", MFD_CLOEXEC);
	int bad = fd < 0 || ftruncate(fd, (off_t)m->bytes);

	m->inside =
		bad ? MAP_FAILED : mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	m->base = m->inside;
	if (hidden && m->inside != MAP_FAILED)
		m->base = mmap(NULL, m->bytes, PROT_NONE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return m->base == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static int standin_alloc(void **ptr, size_t bytes, unsigned type, unsigned managed)
{
	void *context = NULL;
	int code = cuCtxGetCurrent(&context);
	struct standin_memory *m;

	if (code || !context)
		return code ? code : CUDA_ERROR_INVALID_CONTEXT;
	m = bytes ? calloc(1, sizeof(*m)) : NULL;
	if (!m)
		return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	m->bytes = bytes;
	m->type = type;
	m->managed = managed;
	m->context = context;
	code = standin_map(m, type == CU_MEMORYTYPE_DEVICE && !managed);
	if (code) {
		free(m);
		return code;
	}
	pthread_mutex_lock(&standin_lock);
	m->next = standin_memories;
	standin_memories = m;
	pthread_mutex_unlock(&standin_lock);
	*ptr = m->base;
	return CUDA_SUCCESS;
}

static int standin_free(const void *ptr, int host)
{
	struct standin_memory **at = &standin_memories, *m;

	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!standin_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&standin_lock);
	while (*at && ((*at)->base != ptr || ((*at)->type == CU_MEMORYTYPE_HOST) != host))
		at = &(*at)->next;
	m = *at;
	if (m) {
		*at = m->next;
		standin_unmap(m);
	}
	pthread_mutex_unlock(&standin_lock);
	return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	void *at = NULL;
	int code = standin_alloc(&at, bytes, CU_MEMORYTYPE_DEVICE, 0);

	*ptr = (uintptr_t)at;
	return code;
}

int cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned flags)
{
	void *at = NULL;
	int code = standin_alloc(&at, bytes, CU_MEMORYTYPE_DEVICE, 1);

	(void)flags;
	*ptr = (uintptr_t)at;
	return code;
}

int cuMemFree_v2(CUdeviceptr ptr)
{
	return standin_free((const void *)(uintptr_t)ptr, 0);
}

int cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
	unsigned long after;
	int fault = standin_fault("STANDIN_CUDA_PIN", &after);

	(void)flags;
	return fault ? fault : standin_alloc(ptr, bytes, CU_MEMORYTYPE_HOST, 0);
}

int cuMemFreeHost(void *ptr)
{
	return standin_free(ptr, 1);
}

/* The lock is held.  NULL: not the driver's. */
static struct standin_memory *standin_find(const void *ptr)
{
	struct standin_memory *m = standin_memories;
	uintptr_t at = (uintptr_t)ptr;

	while (m && (at < (uintptr_t)m->base || at >= (uintptr_t)m->base + m->bytes))
		m = m->next;
	return m;
}

static void standin_attribute(const struct standin_memory *m, int name, void *value)
{
	switch (name) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: *(void **)value = m ? m->context : NULL; break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = m ? m->type : 0; break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = m ? m->managed : 0; break;
	default: *(int *)value = m ? m->context->device : -2; break;
	}
}

int cuPointerGetAttributes(unsigned n, const int *names, void **values, CUdeviceptr ptr)
{
	unsigned long after;
	int fault = standin_fault("STANDIN_CUDA_LOOK", &after);
	const struct standin_memory *m;

	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (fault)
		return fault;
	for (unsigned i = 0; i < n; i++)
		if (names[i] != CU_POINTER_ATTRIBUTE_CONTEXT &&
		    names[i] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
		    names[i] != CU_POINTER_ATTRIBUTE_IS_MANAGED &&
		    names[i] != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&standin_lock);
	m = standin_find((const void *)(uintptr_t)ptr);
	for (unsigned i = 0; i < n; i++)
		standin_attribute(m, names[i], values[i]);
	pthread_mutex_unlock(&standin_lock);
	return CUDA_SUCCESS;
}

/* -------------------------------------------------------------------- copies -- */

/* The lock is held.  Where this file may touch ptr[0..n); NULL: not all of it is there. */
static char *standin_inside(const void *ptr, size_t n)
{
	const struct standin_memory *m = standin_find(ptr);
	size_t at = m ? (size_t)((const char *)ptr - m->base) : 0;

	if (!m)
		return (char *)(uintptr_t)ptr;
	return n <= m->bytes - at ? m->inside + at : NULL;
}

static int standin_do(const struct standin_copy *copy)
{
	unsigned long after;
	int code = standin_fault("STANDIN_CUDA_COPY", &after);
	const char *src;
	char *dst;

	pthread_mutex_lock(&standin_lock);
	dst = standin_inside(copy->dst, copy->n);
	src = standin_inside(copy->src, copy->n);
	if (!code || standin_copied < after)
		code = dst && src ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (!code)
		memmove(dst, src, copy->n);
	standin_copied++;
	pthread_mutex_unlock(&standin_lock);
	return code;
}

int cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, void *stream)
{
	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!standin_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (stream != CU_STREAM_PER_THREAD || standin_waiting == STANDIN_LATER)
		return CUDA_ERROR_INVALID_HANDLE;
	standin_later[standin_waiting++] =
		(struct standin_copy){(char *)(uintptr_t)dst, (const char *)(uintptr_t)src, n};
	return CUDA_SUCCESS;
}

int cuStreamSynchronize(void *stream)
{
	int code = CUDA_SUCCESS, n = standin_waiting;

	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!standin_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (stream != CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	standin_waiting = 0;
	for (int i = 0; i < n; i++) {
		int one = standin_do(&standin_later[i]);

		code = code ? code : one;
	}
	return code;
}

int cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	const struct standin_copy copy = {(char *)(uintptr_t)dst, (const char *)(uintptr_t)src, n};

	if (!standin_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	return standin_depth ? standin_do(&copy) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ----------------------------------------------------------- what tests may ask -- */

unsigned long standin_copies(void)
{
	unsigned long n;

	pthread_mutex_lock(&standin_lock);
	n = standin_copied;
	pthread_mutex_unlock(&standin_lock);
	return n;
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

int standin_held(int device)
{
	int refs;

	pthread_mutex_lock(&standin_lock);
	refs = standin_primary[device].refs;
	pthread_mutex_unlock(&standin_lock);
	return refs;
}
