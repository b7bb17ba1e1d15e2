/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_stream.c - events on streams of the program, and flags that streams write and wait for.
 *
 * Names and numbers come from the document "CUDA Driver API" (docs.nvidia.com, cuda-driver-api: stream management,
 * event management, stream memory operations).
 */
#include "device/caller_stream.h"
#include "device/device.h"
#include "device/device_impl.h"
#include "base/error.h"

#include <coll/coll.h>
#include <stdlib.h>

int stream_failed(const char *what, int result)
{
	char words[256];

	device_words(result, words, sizeof(words));
	return error_set(
		COLL_ERR_DEVICE,
		"%s: the CUDA driver cannot order the operation with the stream: %s; is the "
		"stream valid, and did its earlier work succeed?",
		what, words);
}

static int stream_is_captured(const char *what)
{
	return error_set(
		COLL_ERR_INVALID_USAGE,
		"%s: a graph capture of the stream is in progress, and only operations that "
		"NCCL itself does on device memory can be captured: call it before or "
		"after the capture",
		what);
}

static int stream_lacks(const char *what, const char *missing)
{
	return error_set(COLL_ERR_UNSUPPORTED,
			 "%s: the CUDA driver is too old to order the operation with a "
			 "stream (it has no '%s'; CUDA 11.7 has it): pass NULL as stream",
			 what, missing);
}

/* ------------------------------------------------------------------- which stream -- */

/* Handles up to this one name a default stream. */
enum { STREAM_DEFAULTS = 2 };

/* The device of device memory, or -1.  Managed memory belongs to no device alone. */
static int stream_device_of(const void *near)
{
	int device = -1;

	return near && device_kind(near, &device) == COLL_MEM_CUDA ? device : -1;
}

/* The primary context of the home's device, which stays held; *context is NULL after an error. */
static int stream_primary(struct stream_home *home, void **context)
{
	void *none = NULL;
	int result;

	*context = atomic_load(&home->primary);
	if (*context)
		return CUDA_OK;
	result = cuda_driver.cuDevicePrimaryCtxRetain(context, home->device);
	if (result)
		*context = NULL;
	else if (!atomic_compare_exchange_strong(&home->primary, &none, *context))
		cuda_driver.cuDevicePrimaryCtxRelease(home->device); /* another thread was first */
	return result;
}

/* The context of a default stream: the current one, if it is of the device. */
static int stream_default_context(struct stream_home *home, const void *near, void **context)
{
	const int wanted = home->device < 0 ? stream_device_of(near) : home->device;
	int current = -1, result = cuda_driver.cuCtxGetCurrent(context), primary = -1;

	if (!result && *context && wanted >= 0)
		result = cuda_driver.cuCtxGetDevice(&current);
	if (result || (*context && (wanted < 0 || wanted == current)))
		return result;
	if (wanted < 0)
		return CUDA_INVALID_CONTEXT;
	if (home->device >= 0)
		return stream_primary(home, context);
	result = device_context(near, context, &primary);
	if (primary >= 0) /* memory of the device exists, so its context stays */
		cuda_driver.cuDevicePrimaryCtxRelease(primary);
	return result;
}

void stream_home_leave(struct stream_home *home)
{
	if (atomic_exchange(&home->primary, NULL))
		cuda_driver.cuDevicePrimaryCtxRelease(home->device);
}

int caller_stream_find(const char *what, void *handle, struct stream_home *home, const void *near,
		       struct caller_stream *stream)
{
	const char *missing = device_missing();
	int result;

	*stream = (struct caller_stream){.handle = handle};
	if (!cuda_driver.cuCtxGetDevice)
		missing = "cuCtxGetDevice";
	if (!cuda_driver.cuStreamGetCtx)
		missing = "cuStreamGetCtx";
	if (missing)
		return stream_lacks(what, missing);
	result = (uintptr_t)handle > STREAM_DEFAULTS
			 ? cuda_driver.cuStreamGetCtx(handle, &stream->context)
			 : stream_default_context(home, near, &stream->context);
	return result ? stream_failed(what, result) : COLL_SUCCESS;
}

int caller_stream_check_capture(const char *what, const struct caller_stream *stream)
{
	struct device_pushed pushed;
	int result, status = 0;

	if (!cuda_driver.cuStreamIsCapturing)
		return stream_lacks(what, "cuStreamIsCapturing");
	result = device_push(&pushed, stream->context);
	if (result)
		return stream_failed(what, result);
	result = cuda_driver.cuStreamIsCapturing(stream->handle, &status);
	device_pop(&pushed);
	if (status || result == CUDA_CAPTURE_IMPLICIT)
		return stream_is_captured(what);
	return result ? stream_failed(what, result) : COLL_SUCCESS;
}

int caller_stream_check(const char *what, const struct caller_stream *stream)
{
	if (!cuda_driver.cuStreamWriteValue32)
		return stream_lacks(what, "cuStreamWriteValue32_v2");
	if (!cuda_driver.cuStreamWaitValue32)
		return stream_lacks(what, "cuStreamWaitValue32_v2");
	return caller_stream_check_capture(what, stream);
}

int caller_stream_make(int device, void **stream)
{
	struct device_pushed pushed;
	void *context = NULL;
	int result = cuda_driver.cuDevicePrimaryCtxRetain(&context, device);

	*stream = NULL;
	if (result)
		return stream_failed("a stream of the library", result);
	result = device_push(&pushed, context);
	if (!result) {
		result = cuda_driver.cuStreamCreate(stream, CUDA_STREAM_NON_BLOCKING);
		device_pop(&pushed);
	}
	if (!result)
		return COLL_SUCCESS;
	*stream = NULL;
	cuda_driver.cuDevicePrimaryCtxRelease(device);
	return stream_failed("a stream of the library", result);
}

void caller_stream_free(int device, void *stream)
{
	struct device_pushed pushed;
	void *context = NULL;

	if (!cuda_driver.cuStreamGetCtx(stream, &context) && !device_push(&pushed, context)) {
		cuda_driver.cuStreamDestroy(stream);
		device_pop(&pushed);
	}
	cuda_driver.cuDevicePrimaryCtxRelease(device);
}

/* ---------------------------------------------------------------------- events -- */

/* Returns a spare event of the context, or a new event. */
static int stream_event_take(struct stream_event **spare, void *context, struct stream_event **out)
{
	struct stream_event *event;
	int result;

	for (struct stream_event **at = spare; (event = *at); at = &event->next)
		if (event->context == context) {
			*at = event->next;
			event->next = NULL;
			*out = event;
			return CUDA_OK;
		}
	event = calloc(1, sizeof(*event));
	*out = event;
	if (!event)
		return CUDA_NO_MEMORY;
	event->context = context;
	atomic_init(&event->refs, 1);
	result = cuda_driver.cuEventCreate(&event->event, CUDA_EVENT_DISABLE_TIMING);
	if (!result)
		return CUDA_OK;
	free(event);
	*out = NULL;
	return result;
}

int stream_event_record(struct stream_event **spare, const char *what,
			const struct caller_stream *stream, struct stream_event **out)
{
	struct stream_event *event = NULL;
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	*out = NULL;
	if (result)
		return stream_failed(what, result);
	result = stream_event_take(spare, stream->context, &event);
	if (!result)
		result = cuda_driver.cuEventRecord(event->event, stream->handle);
	device_pop(&pushed);
	if (result && event) {
		event->next = *spare;
		*spare = event;
	}
	if (result)
		return stream_failed(what, result);
	*out = event;
	return COLL_SUCCESS;
}

static const struct stream_event *stream_event_itself(const struct stream_event *event)
{
	return event->of ? event->of : event;
}

int stream_event_query(const struct stream_event *any)
{
	const struct stream_event *event = stream_event_itself(any);
	struct device_pushed pushed;
	char words[256];
	int result = device_push(&pushed, event->context);

	if (!result) {
		result = cuda_driver.cuEventQuery(event->event);
		device_pop(&pushed);
	}
	if (!result || driver_not_ready(result))
		return result ? COLL_IN_PROGRESS : COLL_SUCCESS;
	device_words(result, words, sizeof(words));
	return error_set(COLL_ERR_DEVICE, "earlier work of its stream has failed: %s", words);
}

int stream_event_wait(const struct stream_event *event, const char *what,
		      const struct caller_stream *stream)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (!result) {
		result = cuda_driver.cuStreamWaitEvent(stream->handle,
						       stream_event_itself(event)->event, 0);
		device_pop(&pushed);
	}
	return result ? stream_failed(what, result) : COLL_SUCCESS;
}

struct stream_event *stream_event_ref(struct stream_event *event)
{
	struct stream_event *ref = calloc(1, sizeof(*ref));

	if (!ref)
		return NULL;
	ref->of = event->of ? event->of : event;
	atomic_fetch_add(&ref->of->refs, 1);
	return ref;
}

void stream_event_unref(struct stream_event *event)
{
	struct device_pushed pushed;

	if (event && event->of) {
		stream_event_unref(event->of);
		free(event);
		return;
	}
	if (!event || atomic_fetch_sub(&event->refs, 1) > 1)
		return;
	/* The application may have destroyed the context, and the event with it. */
	if (!device_push(&pushed, event->context)) {
		cuda_driver.cuEventDestroy(event->event);
		device_pop(&pushed);
	}
	free(event);
}

void stream_events_free(struct stream_event **list)
{
	struct stream_event *event;

	while ((event = *list)) {
		*list = event->next;
		stream_event_unref(event);
	}
}

/* ---------------------------------------------------------------- flags, copies -- */

/* With unified addresses, which all 64-bit systems have, the device accesses the flag at its host address. */
static int stream_flag(const char *what, const struct caller_stream *stream,
		       int (*fn)(void *stream, cuda_ptr_t flag, unsigned value, unsigned flags),
		       const _Atomic uint32_t *flag, uint32_t value, unsigned flags)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (!result) {
		result = fn(stream->handle, (uintptr_t)flag, value, flags);
		device_pop(&pushed);
	}
	return result ? stream_failed(what, result) : COLL_SUCCESS;
}

int stream_wait(const char *what, const struct caller_stream *stream, const _Atomic uint32_t *flag,
		uint32_t value)
{
	return stream_flag(what, stream, cuda_driver.cuStreamWaitValue32, flag, value,
			   CUDA_WAIT_GEQ);
}

int stream_write(const char *what, const struct caller_stream *stream, _Atomic uint32_t *flag,
		 uint32_t value)
{
	return stream_flag(what, stream, cuda_driver.cuStreamWriteValue32, flag, value,
			   CUDA_WRITE_DEFAULT);
}

int stream_copy(const struct caller_stream *stream, uintptr_t dst, uintptr_t src, size_t n)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (!result) {
		result = cuda_driver.cuMemcpyAsync(dst, src, n, stream->handle);
		device_pop(&pushed);
	}
	return result ? device_copy_failed((void *)dst, (const void *)src, n, result)
		      : COLL_SUCCESS;
}
