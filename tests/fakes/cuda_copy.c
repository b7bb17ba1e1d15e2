/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_copy.c - copies and sets memory in the stand-in driver.  Every copy that the document allows
 * to be asynchronous is asynchronous, also a copy of memory that is not pinned.
 */
#include "cuda_impl.h"

#include <string.h>

/* The kinds of memory that each end of a copy may have. */
enum { ON_HOST = 1, ON_DEVICE = 2, ON_EITHER = 3 };

static unsigned long standin_copied;

/* ------------------------------------------------------------- by a stream's thread -- */

/*
 * Returns the address at which the stream's thread can access ptr[0..n), if the memory is still the
 * one of the call.  Memory that the driver does not know belongs to the program.
 */
static char *standin_reach(const void *ptr, unsigned long id, size_t n)
{
	const struct standin_memory *m = standin_memory_find(ptr);

	if ((m ? m->id : 0) != id)
		return NULL;
	return m ? standin_memory_inside(m, ptr, n) : (char *)(uintptr_t)ptr;
}

static int standin_run_copy(const struct standin_task *task)
{
	char *dst, *src;

	pthread_mutex_lock(&standin_lock);
	dst = standin_reach(task->dst, task->dst_id, task->n);
	src = standin_reach(task->src, task->src_id, task->n);
	pthread_mutex_unlock(&standin_lock);
	if (task->n && (!dst || !src))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (task->n)
		memmove(dst, src, task->n);
	return CUDA_SUCCESS;
}

static int standin_run_set(const struct standin_task *task)
{
	char *dst;

	pthread_mutex_lock(&standin_lock);
	dst = standin_reach(task->dst, task->dst_id, task->n);
	pthread_mutex_unlock(&standin_lock);
	if (!dst)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (task->width == 1)
		memset(dst, (int)task->value, task->n);
	else
		for (size_t i = 0; i < task->n; i += sizeof(task->value))
			memcpy(dst + i, &task->value, sizeof(task->value));
	return CUDA_SUCCESS;
}

/* -------------------------------------------------------------------- the calls -- */

/*
 * The kind of memory at one end of a copy: ON_EITHER for managed memory, 0 if not all bytes exist.
 */
static int standin_end_of(const void *ptr, size_t n)
{
	const struct standin_memory *m = standin_memory_find(ptr);

	if (!m)
		return ptr || !n ? ON_HOST : 0;
	if (!standin_memory_inside(m, ptr, n))
		return 0;
	return m->managed ? ON_EITHER : m->type == CU_MEMORYTYPE_HOST ? ON_HOST : ON_DEVICE;
}

/*
 * Makes a copy whose ends must be of the kinds `dst_wanted` and `src_wanted`; *ends: both kinds,
 * ored.
 */
static int standin_copy(const struct standin_task *task, int dst_wanted, int src_wanted,
			struct standin_stream *stream, int *ends)
{
	int dst = standin_end_of(task->dst, task->n), src = standin_end_of(task->src, task->n);
	struct standin_task copy = *task;

	*ends = dst | src;
	if (!(dst & dst_wanted) || !(src & src_wanted))
		return CUDA_ERROR_INVALID_VALUE;
	copy.run = standin_run_copy;
	copy.dst_id = standin_memory_id(copy.dst);
	copy.src_id = standin_memory_id(copy.src);
	copy.fails = standin_injected("STANDIN_CUDA_COPY", standin_copied++);
	return standin_stream_give(stream, &copy, NULL);
}

/* A copy from host to host is complete when the call returns. */
static int standin_copy_async(const struct standin_task *task, int dst, int src, void *handle)
{
	struct standin_context *context;
	struct standin_stream *stream;
	int code = standin_enter(&context), ends;

	if (code)
		return code;
	standin_await_freeing(context);
	code = standin_stream_find(handle, context, &stream);
	if (!code)
		code = standin_copy(task, dst, src, stream, &ends);
	if (!code && ends == ON_HOST)
		code = standin_stream_await(stream, stream->given);
	return standin_leave(code);
}

int cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, void *stream)
{
	const struct standin_task task = {
		.dst = (char *)(uintptr_t)dst, .src = (const char *)(uintptr_t)src, .n = n};

	return standin_copy_async(&task, ON_EITHER, ON_EITHER, stream);
}

int cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, void *stream)
{
	const struct standin_task task = {.dst = (char *)(uintptr_t)dst, .src = src, .n = n};

	return standin_copy_async(&task, ON_DEVICE, ON_HOST, stream);
}

int cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, void *stream)
{
	const struct standin_task task = {.dst = dst, .src = (const char *)(uintptr_t)src, .n = n};

	return standin_copy_async(&task, ON_HOST, ON_DEVICE, stream);
}

/* Copies on the default stream.  A copy within devices may be incomplete when the call returns. */
int cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	const struct standin_task task = {
		.dst = (char *)(uintptr_t)dst, .src = (const char *)(uintptr_t)src, .n = n};
	struct standin_context *context;
	struct standin_stream *stream;
	int code = standin_enter(&context), ends;

	if (code)
		return code;
	code = standin_stream_find(CU_STREAM_LEGACY, context, &stream);
	if (!code)
		code = standin_copy(&task, ON_EITHER, ON_EITHER, stream, &ends);
	if (!code && ends != ON_DEVICE)
		code = standin_stream_await(stream, stream->given);
	return standin_leave(code);
}

/* n: number of values of `width` bytes to set. */
static int standin_set(CUdeviceptr dst, unsigned value, unsigned width, size_t n, void *handle)
{
	struct standin_task task = {.run = standin_run_set, .dst = (char *)(uintptr_t)dst};
	struct standin_context *context;
	const struct standin_memory *m;
	struct standin_stream *stream;
	int code = standin_enter(&context);

	if (code)
		return code;
	task.n = n * width;
	task.value = value;
	task.width = width;
	m = standin_memory_find(task.dst);
	if (dst % width || n > SIZE_MAX / width || !m ||
	    !standin_memory_inside(m, task.dst, task.n))
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	task.dst_id = m->id;
	code = standin_stream_find(handle, context, &stream);
	if (!code)
		code = standin_stream_give(stream, &task, NULL);
	return standin_leave(code);
}

int cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, void *stream)
{
	return standin_set(dst, value, 1, n, stream);
}

int cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, void *stream)
{
	return standin_set(dst, value, 4, n, stream);
}

/* --------------------------------------------------------------- queries by tests -- */

unsigned long standin_copies(void)
{
	unsigned long n;

	pthread_mutex_lock(&standin_lock);
	n = standin_copied;
	pthread_mutex_unlock(&standin_lock);
	return n;
}
