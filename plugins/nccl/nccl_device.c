/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_device.c - the endpoint's device: its context, its stream, and memory of its own there. */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------- contexts -- */

int32_t nccl_enter(void *context, int *pushed, coll_error_t *err)
{
	void *current = NULL;
	int result;

	*pushed = 0;
	/* A thread without a context answers with success and NULL. */
	if (!nccl_cuda.cuCtxGetCurrent(&current) && current == context)
		return COLL_SUCCESS;
	result = nccl_cuda.cuCtxPushCurrent(context);
	if (result)
		return nccl_cuda_refused(err, result, "cuCtxPushCurrent");
	*pushed = 1;
	return COLL_SUCCESS;
}

void nccl_leave(int pushed)
{
	void *context;

	if (pushed)
		nccl_cuda.cuCtxPopCurrent(&context);
}

/*
 * Held until the process ends, as the CUDA runtime inside NCCL holds it too: what NCCL frees in
 * threads of its own, after a communicator's end, needs it.
 */
static int32_t nccl_context(int ordinal, void **context, coll_error_t *err)
{
	enum { DEVICES = 64 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void *held[DEVICES];
	int device, result = 0;

	if (ordinal >= DEVICES)
		return nccl_error(err, COLL_ERR_UNSUPPORTED,
				  "device %d: so many devices in one process are not supported",
				  ordinal);
	pthread_mutex_lock(&lock);
	if (!held[ordinal]) {
		result = nccl_cuda.cuDeviceGet(&device, ordinal);
		if (!result)
			result = nccl_cuda.cuDevicePrimaryCtxRetain(&held[ordinal], device);
	}
	*context = held[ordinal];
	pthread_mutex_unlock(&lock);
	return result ? nccl_cuda_refused(err, result, "cuDevicePrimaryCtxRetain") : COLL_SUCCESS;
}

/* The one the application named, else the calling thread's, else the first. */
static int32_t nccl_choose_device(struct nccl *n, coll_error_t *err)
{
	void *current = NULL;
	int count = 0, result = nccl_cuda.cuDeviceGetCount(&count);

	if (result)
		return nccl_cuda_refused(err, result, "cuDeviceGetCount");
	n->device = n->host->device;
	if (n->device >= count)
		return nccl_error(
			err, COLL_ERR_INVALID_ARGUMENT,
			"rank %u is to use CUDA device %d, but there are %d, counted from "
			"0 (CUDA_VISIBLE_DEVICES decides which are seen)",
			n->rank, n->device, count);
	if (n->device >= 0)
		return COLL_SUCCESS;
	n->device = 0;
	if (!nccl_cuda.cuCtxGetCurrent(&current) && current)
		result = nccl_cuda.cuCtxGetDevice(&n->device);
	return result ? nccl_cuda_refused(err, result, "cuCtxGetDevice") : COLL_SUCCESS;
}

int32_t nccl_device_open(struct nccl *n, coll_error_t *err)
{
	int32_t code = nccl_choose_device(n, err);
	int pushed, result;

	if (!code)
		code = nccl_context(n->device, &n->context, err);
	if (!code)
		code = nccl_enter(n->context, &pushed, err);
	if (code)
		return code;
	result = nccl_cuda.cuStreamCreate(&n->stream, CUDA_STREAM_NON_BLOCKING);
	if (result)
		code = nccl_cuda_refused(err, result, "cuStreamCreate");
	if (!result)
		result = nccl_cuda.cuMemAlloc(&n->one, 1);
	if (!result)
		result = nccl_cuda.cuMemsetD8Async(n->one, 0, 1, n->stream);
	if (result && !code)
		code = nccl_cuda_refused(err, result, "cuMemAlloc");
	if (!code && !nccl_device_wait(n, n->host->timeout_ms)) /* so that the stream is idle */
		code = nccl_error(err, COLL_ERR_TIMEOUT, "CUDA device %d does no work", n->device);
	nccl_leave(pushed);
	return code;
}

int nccl_device_wait(const struct nccl *n, int64_t timeout_ms)
{
	int64_t deadline = nccl_now_ms() + timeout_ms;
	int result = nccl_cuda.cuStreamQuery(n->stream);

	for (unsigned i = 0; result == CUDA_NOT_READY && nccl_now_ms() < deadline; i++) {
		nccl_nap(i);
		result = nccl_cuda.cuStreamQuery(n->stream);
	}
	return result != CUDA_NOT_READY;
}

void nccl_device_close(struct nccl *n)
{
	struct nccl_scratch *next;
	/* To free memory waits for all work on the device, which may never end. */
	int idle = !n->stream || nccl_device_wait(n, 0);

	for (struct nccl_scratch *s = n->scratch; s; s = next) {
		next = s->next;
		if (idle)
			nccl_cuda.cuMemFree(s->ptr);
		free(s);
	}
	n->scratch = NULL;
	if (n->one && idle)
		nccl_cuda.cuMemFree(n->one);
	if (n->stream)
		nccl_cuda.cuStreamDestroy(n->stream);
	n->one = 0;
	n->stream = NULL;
}

/* ----------------------------------------------------------------------- scratch -- */

int32_t nccl_scratch(struct nccl *n, size_t bytes, void *stream, cuda_ptr_t *ptr, coll_error_t *err)
{
	struct nccl_scratch *s = n->scratch;
	int result;

	/* What comes later on a stream may use again what is in use before it. */
	while (s && (s->stream != stream || s->bytes < bytes || s->in_group))
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return nccl_error(err, COLL_ERR_NO_MEMORY, "no memory");
		result = nccl_cuda.cuMemAlloc(&s->ptr, bytes);
		if (result) {
			free(s);
			return nccl_cuda_refused(err, result,
						 "cuMemAlloc for an alltoall in place");
		}
		s->bytes = bytes;
		s->stream = stream;
		s->next = n->scratch;
		n->scratch = s;
	}
	s->in_group = nccl_group_open();
	*ptr = s->ptr;
	return COLL_SUCCESS;
}
