/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_device.c - the endpoint's device: its context, its stream, and the endpoint's memory on it. */
#include "nccl.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------- contexts -- */

int nccl_is_captured(void *stream)
{
	int status = 0;

	/* The default stream has no answer while another stream is captured; itself it cannot be. */
	return cuda_driver.cuStreamIsCapturing &&
	       !cuda_driver.cuStreamIsCapturing(stream, &status) && status;
}

int nccl_stream_query(void *stream)
{
	int result = CUDA_NOT_READY;

	if (!nccl_is_captured(stream)) /* or the query would end the capture */
		result = cuda_driver.cuStreamQuery(stream);
	return driver_not_ready(result) ? CUDA_NOT_READY : result;
}

enum { NCCL_DEVICES = 64, NCCL_CACHED = 32 };

/*
 * The parts of a device that the process keeps until it ends.  The context: threads of NCCL's that free
 * memory after a communicator's end need it, and the CUDA runtime inside NCCL keeps it too.  The
 * barrier_scratch of former endpoints: cuMemFree would wait for all work on the device.
 */
static struct nccl_device_cache {
	void *context;
	cuda_ptr_t barrier_scratch[NCCL_CACHED];
	int cached;
} nccl_device_cache[NCCL_DEVICES];
static pthread_mutex_t nccl_device_cache_lock = PTHREAD_MUTEX_INITIALIZER;

static int32_t nccl_context(int ordinal, void **context, coll_error_t *err)
{
	struct nccl_device_cache *cache = &nccl_device_cache[ordinal % NCCL_DEVICES];
	int device, result = 0;

	if (ordinal >= NCCL_DEVICES)
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "CUDA device %d cannot be used: this plugin supports devices "
				  "0 to %d; choose one with CUDA_VISIBLE_DEVICES",
				  ordinal, NCCL_DEVICES - 1);
	pthread_mutex_lock(&nccl_device_cache_lock);
	if (!cache->context) {
		result = cuda_driver.cuDeviceGet(&device, ordinal);
		if (!result)
			result = cuda_driver.cuDevicePrimaryCtxRetain(&cache->context, device);
	}
	*context = cache->context;
	pthread_mutex_unlock(&nccl_device_cache_lock);
	return result ? nccl_cuda_refused(err, result, "cuDevicePrimaryCtxRetain") : COLL_SUCCESS;
}

/* Takes the bytes of a former endpoint, or allocates them. */
static int nccl_barrier_scratch_alloc(struct nccl *n)
{
	struct nccl_device_cache *cache = &nccl_device_cache[n->device];

	pthread_mutex_lock(&nccl_device_cache_lock);
	if (cache->cached)
		n->barrier_scratch = cache->barrier_scratch[--cache->cached];
	pthread_mutex_unlock(&nccl_device_cache_lock);
	return n->barrier_scratch ? CUDA_OK
				  : cuda_driver.cuMemAlloc(&n->barrier_scratch, NCCL_SCRATCH);
}

void nccl_barrier_scratch_close(struct nccl *n)
{
	struct nccl_device_cache *cache = &nccl_device_cache[n->device];
	struct nccl_scratch *s;
	int full;

	if (!n->barrier_scratch)
		return;
	pthread_mutex_lock(&nccl_device_cache_lock);
	full = cache->cached == NCCL_CACHED;
	if (!full)
		cache->barrier_scratch[cache->cached++] = n->barrier_scratch;
	pthread_mutex_unlock(&nccl_device_cache_lock);
	s = full ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return;
	*s = (struct nccl_scratch){.ptr = n->barrier_scratch, .next = n->scratch};
	n->scratch = s;
}

/* Does NCCL reduce float8 on the device?  (NCCL's enqueue.cc: from compute capability 9 on.) */
static int nccl_has_fp8(int ordinal)
{
	int device, major = 0;

	return nccl_lib.version >= NCCL_2_24 && !cuda_driver.cuDeviceGet(&device, ordinal) &&
	       !cuda_driver.cuDeviceGetAttribute(&major, CUDA_COMPUTE_CAPABILITY_MAJOR, device) &&
	       major >= 9;
}

/* The number of this rank among the ranks of its host. */
static uint32_t nccl_local_rank(const coll_host_t *host)
{
	uint32_t before = 0;

	for (uint32_t r = 0; r < host->rank; r++)
		before += (uint32_t)kit_shares(host, r, COLL_SHARES_HOST);
	return before;
}

/*
 * Chooses the device that the application named, else the calling thread's, else one for each rank of the host, since
 * NCCL refuses a device twice.
 */
static int32_t nccl_choose_device(struct nccl *n, coll_error_t *err)
{
	void *current = NULL;
	int count = 0, result = cuda_driver.cuDeviceGetCount(&count);

	if (result)
		return nccl_cuda_refused(err, result, "cuDeviceGetCount");
	n->device = n->host->device;
	if (n->device >= count)
		return error_fill(
			err, COLL_ERR_INVALID_ARGUMENT,
			"rank %u is to use CUDA device %d, but there are %d, counted from "
			"0 (CUDA_VISIBLE_DEVICES decides which are seen)",
			n->rank, n->device, count);
	if (n->device >= 0)
		return COLL_SUCCESS;
	n->device = (int)(nccl_local_rank(n->host) % (uint32_t)count);
	if (!cuda_driver.cuCtxGetCurrent(&current) && current)
		result = cuda_driver.cuCtxGetDevice(&n->device);
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
	n->fp8 = nccl_has_fp8(n->device);
	result = cuda_driver.cuStreamCreate(&n->stream, CUDA_STREAM_NON_BLOCKING);
	if (result)
		code = nccl_cuda_refused(err, result, "cuStreamCreate");
	if (!result)
		result = nccl_barrier_scratch_alloc(n);
	if (!result)
		result =
			cuda_driver.cuMemsetD8Async(n->barrier_scratch, 0, NCCL_SCRATCH, n->stream);
	if (result && !code)
		code = nccl_cuda_refused(err, result, "cuMemAlloc");
	/* open() returns with an idle stream. */
	if (!code)
		result = nccl_device_wait(n, n->host->timeout_ms);
	if (!code && result && result != CUDA_NOT_READY)
		code = nccl_cuda_refused(err, result, "cuMemsetD8Async");
	if (!code && result)
		code = error_fill(
			err, COLL_ERR_TIMEOUT,
			"timed out: CUDA device %d has not completed a memset within %.3g s: "
			"other work may keep it busy",
			n->device, (double)n->host->timeout_ms / 1000);
	nccl_leave(pushed);
	return code;
}

int nccl_device_wait(const struct nccl *n, int64_t timeout_ms)
{
	const int64_t deadline = clock_now_ms() + timeout_ms;
	unsigned round = 0;
	int result;

	do
		result = nccl_stream_query(n->stream);
	while (result == CUDA_NOT_READY && nccl_backoff(&round, deadline));
	return result;
}

void nccl_device_close(struct nccl *n)
{
	if (n->dependency)
		cuda_driver.cuEventDestroy(n->dependency);
	if (n->stream)
		cuda_driver.cuStreamDestroy(n->stream);
}
