/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_stream.c - copies on streams of the CUDA driver, with an event after each.
 *
 * Names and numbers are those of the document "CUDA Driver API" (docs.nvidia.com, cuda-driver-api:
 * stream management, event management).
 */
#include "device/copy_stream.h"
#include "device/device_impl.h"
#include "base/error.h"

#include <coll/coll.h>
#include <stdlib.h>

static void copy_stream_free(struct copy_stream *copy_stream)
{
	struct device_pushed pushed;

	/* The application may have destroyed the context, and with it the stream and the events. */
	if (!device_push(&pushed, copy_stream->context)) {
		for (int i = 0; i < COPY_STREAM_DEPTH; i++)
			if (copy_stream->event[i])
				cuda_driver.cuEventDestroy(copy_stream->event[i]);
		if (copy_stream->stream)
			cuda_driver.cuStreamDestroy(copy_stream->stream);
		device_pop(&pushed);
	}
	if (copy_stream->primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(copy_stream->primary);
	free(copy_stream);
}

static int copy_stream_make(struct copy_stream *copy_stream)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, copy_stream->context);

	if (result)
		return result;
	result = cuda_driver.cuStreamCreate(&copy_stream->stream, CUDA_STREAM_NON_BLOCKING);
	for (int i = 0; !result && i < COPY_STREAM_DEPTH; i++)
		result = cuda_driver.cuEventCreate(&copy_stream->event[i],
						   CUDA_EVENT_DISABLE_TIMING);
	device_pop(&pushed);
	return result;
}

/*
 * Makes the copy stream of a context.  `primary`: the device whose primary context it releases in the
 * end, or -1.
 */
static struct copy_stream *copy_stream_new(int way, void *context, int primary, int *result)
{
	struct copy_stream *copy_stream = calloc(1, sizeof(*copy_stream));

	if (!copy_stream) {
		if (primary >= 0)
			cuda_driver.cuDevicePrimaryCtxRelease(primary);
		return NULL;
	}
	copy_stream->way = way;
	copy_stream->context = context;
	copy_stream->primary = primary;
	*result = copy_stream_make(copy_stream);
	if (!*result)
		return copy_stream;
	copy_stream_free(copy_stream);
	return NULL;
}

static int copy_stream_failed(int result)
{
	char words[256];

	if (!result)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for copies to or from a device");
	device_words(result, words, sizeof(words));
	return error_set(COLL_ERR_DEVICE,
			 "cannot make a stream for copies to or from a device: %s; is the memory "
			 "still allocated, and did earlier work on the device succeed?",
			 words);
}

int copy_stream_find(struct copy_stream **copy_streams, int way, const void *near,
		     struct copy_stream **out)
{
	void *context = NULL;
	int primary, result = device_context(near, &context, &primary);
	struct copy_stream *copy_stream = *copy_streams;

	if (result)
		return copy_stream_failed(result);
	while (copy_stream && (copy_stream->way != way || copy_stream->context != context))
		copy_stream = copy_stream->next;
	if (copy_stream && primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(primary);
	if (!copy_stream) {
		copy_stream = copy_stream_new(way, context, primary, &result);
		if (!copy_stream)
			return copy_stream_failed(result);
		copy_stream->next = *copy_streams;
		*copy_streams = copy_stream;
	}
	*out = copy_stream;
	return COLL_SUCCESS;
}

int copy_stream_start(struct copy_stream *copy_stream, const struct stream_copy *copy)
{
	int at = (copy_stream->first + copy_stream->count) % COPY_STREAM_DEPTH;
	struct device_pushed pushed;
	int result = device_push(&pushed, copy_stream->context);

	if (result)
		return device_copy_failed(copy->dst, copy->src, copy->n, result);
	result = cuda_driver.cuMemcpyAsync((uintptr_t)copy->dst, (uintptr_t)copy->src, copy->n,
					   copy_stream->stream);
	if (!result) {
		result = cuda_driver.cuEventRecord(copy_stream->event[at], copy_stream->stream);
		if (result) /* without an event the copy, which has begun, could not be polled */
			cuda_driver.cuStreamSynchronize(copy_stream->stream);
	}
	device_pop(&pushed);
	if (result)
		return device_copy_failed(copy->dst, copy->src, copy->n, result);
	copy_stream->copy[at] = *copy;
	copy_stream->count++;
	return COLL_SUCCESS;
}

int copy_stream_poll(struct copy_stream *copy_stream, struct stream_copy *copy)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, copy_stream->context);

	if (!result) {
		result = cuda_driver.cuEventQuery(copy_stream->event[copy_stream->first]);
		device_pop(&pushed);
	}
	if (driver_not_ready(result))
		return COLL_IN_PROGRESS;
	*copy = copy_stream->copy[copy_stream->first];
	copy_stream->first = (copy_stream->first + 1) % COPY_STREAM_DEPTH;
	copy_stream->count--;
	return result ? device_copy_failed(copy->dst, copy->src, copy->n, result) : COLL_SUCCESS;
}

void copy_stream_abandon(struct copy_stream **copy_streams, struct copy_stream *copy_stream)
{
	while (*copy_streams != copy_stream)
		copy_streams = &(*copy_streams)->next;
	*copy_streams = copy_stream->next;
}

void copy_streams_free(struct copy_stream **copy_streams)
{
	while (*copy_streams) {
		struct copy_stream *copy_stream = *copy_streams;

		*copy_streams = copy_stream->next;
		copy_stream_free(copy_stream);
	}
}
