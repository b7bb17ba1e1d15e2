/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies.c - copies on streams of the CUDA driver, with an event after each.
 *
 * Names and numbers come from the document "CUDA Driver API" (docs.nvidia.com, cuda-driver-api: stream management,
 * event management).
 */
#include "device/copies.h"
#include "device/device_impl.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <coll/coll.h>
#include <stdlib.h>

enum {
	COPY_DEPTH =
		16, /* copies that run on a stream: enough to keep a device busy, and few to wait for */
	COPIES_WAIT_US = 1000000, /* an abort must be over within about a second */
	COPIES_POLL_US = 20
};

struct copy_stream {
	struct copy_stream *next;
	int way;
	void *context;
	int primary; /* the device whose primary context is held, or -1 */
	void *stream;
	struct copy_queue *queue, *last_queue; /* that have copies, in turn */
	struct copy *first, *last;             /* the copies that run, the oldest first */
	void *event[COPY_DEPTH];               /* a ring */
	int oldest, running; /* the event of the oldest copy, and how many copies run */
};

/* --------------------------------------------------------------------- the streams -- */

static void copy_stream_free(struct copy_stream *stream)
{
	struct device_pushed pushed;

	/* The application may have destroyed the context, and with it the stream and the events. */
	if (!device_push(&pushed, stream->context)) {
		for (int i = 0; i < COPY_DEPTH; i++)
			if (stream->event[i])
				cuda_driver.cuEventDestroy(stream->event[i]);
		if (stream->stream)
			cuda_driver.cuStreamDestroy(stream->stream);
		device_pop(&pushed);
	}
	if (stream->primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(stream->primary);
	free(stream);
}

static int copy_stream_make(struct copy_stream *stream)
{
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (result)
		return result;
	result = cuda_driver.cuStreamCreate(&stream->stream, CUDA_STREAM_NON_BLOCKING);
	for (int i = 0; !result && i < COPY_DEPTH; i++)
		result = cuda_driver.cuEventCreate(&stream->event[i], CUDA_EVENT_DISABLE_TIMING);
	device_pop(&pushed);
	return result;
}

/*
 * Makes the copy stream of a context.  `primary`: the device whose primary context it releases in the
 * end, or -1.
 */
static struct copy_stream *copy_stream_new(int way, void *context, int primary, int *result)
{
	struct copy_stream *stream = calloc(1, sizeof(*stream));

	if (!stream) {
		if (primary >= 0)
			cuda_driver.cuDevicePrimaryCtxRelease(primary);
		return NULL;
	}
	stream->way = way;
	stream->context = context;
	stream->primary = primary;
	*result = copy_stream_make(stream);
	if (!*result)
		return stream;
	copy_stream_free(stream);
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

int copies_find(struct copies *copies, int way, const void *near, struct copy_stream **out)
{
	void *context = NULL;
	int primary, result = device_context(near, &context, &primary);
	struct copy_stream *stream = copies->streams;

	if (result)
		return copy_stream_failed(result);
	while (stream && (stream->way != way || stream->context != context))
		stream = stream->next;
	if (stream && primary >= 0)
		cuda_driver.cuDevicePrimaryCtxRelease(primary);
	if (!stream) {
		stream = copy_stream_new(way, context, primary, &result);
		if (!stream)
			return copy_stream_failed(result);
		stream->next = copies->streams;
		copies->streams = stream;
	}
	*out = stream;
	return COLL_SUCCESS;
}

void copies_free(struct copies *copies)
{
	struct copy_stream *stream;

	while ((stream = copies->streams)) {
		copies->streams = stream->next;
		copy_stream_free(stream);
	}
}

/* ---------------------------------------------------------------------- the queues -- */

static void queue_enlist(struct copy_queue *queue)
{
	struct copy_stream *stream = queue->stream;

	queue->next = NULL;
	*(stream->queue ? &stream->last_queue->next : &stream->queue) = queue;
	stream->last_queue = queue;
}

/* Takes the queue, which has copies, out of its stream's list; they do not start any more. */
static void queue_drop(struct copies *copies, struct copy_queue *queue)
{
	struct copy_stream *stream = queue->stream;
	struct copy_queue **at = &stream->queue, *before = NULL;

	for (; *at != queue; at = &before->next)
		before = *at;
	*at = queue->next;
	if (stream->last_queue == queue)
		stream->last_queue = before;
	for (; queue->first; queue->first = queue->first->next)
		copies->pending--;
}

void copies_add(struct copies *copies, struct copy_queue *queue, struct copy *copy)
{
	copy->next = NULL;
	if (!queue->first)
		queue_enlist(queue);
	*(queue->first ? &queue->last->next : &queue->first) = copy;
	queue->last = copy;
	copies->pending++;
}

/* The oldest copy of the queue whose turn it is. */
static struct copy *copy_take(struct copy_stream *stream)
{
	struct copy_queue *queue = stream->queue;
	struct copy *copy = queue->first;

	queue->first = copy->next;
	stream->queue = queue->next;
	if (queue->first)
		queue_enlist(queue);
	copy->next = NULL;
	return copy;
}

static int copy_start(struct copy_stream *stream, const struct copy *copy)
{
	const int at = (stream->oldest + stream->running) % COPY_DEPTH;
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (result)
		return result;
	result = cuda_driver.cuMemcpyAsync((uintptr_t)copy->dst, (uintptr_t)copy->src, copy->n,
					   stream->stream);
	if (!result) {
		result = cuda_driver.cuEventRecord(stream->event[at], stream->stream);
		if (result) /* without an event the copy, which has begun, could not be polled */
			cuda_driver.cuStreamSynchronize(stream->stream);
	}
	device_pop(&pushed);
	return result;
}

static void copy_end(struct copies *copies, struct copy *copy, int result)
{
	copies->pending--;
	copy->ended(copy, result ? device_copy_failed(copy->dst, copy->src, copy->n, result)
				 : COLL_SUCCESS);
}

static void copy_start_next(struct copies *copies, struct copy_stream *stream)
{
	struct copy *copy = copy_take(stream);
	const int result = copy_start(stream, copy);

	if (result) {
		copy_end(copies, copy, result);
		return;
	}
	*(stream->first ? &stream->last->next : &stream->first) = copy;
	stream->last = copy;
	stream->running++;
}

/* Ends the oldest copy if it is complete.  Returns 1 if it is. */
static int copy_end_oldest(struct copies *copies, struct copy_stream *stream)
{
	struct copy *copy = stream->first;
	struct device_pushed pushed;
	int result = device_push(&pushed, stream->context);

	if (!result) {
		result = cuda_driver.cuEventQuery(stream->event[stream->oldest]);
		device_pop(&pushed);
	}
	if (driver_not_ready(result))
		return 0;
	stream->oldest = (stream->oldest + 1) % COPY_DEPTH;
	stream->running--;
	stream->first = copy->next;
	copy_end(copies, copy, result);
	return 1;
}

/* Ends copies that are complete.  Returns 1 if there were any. */
static int copies_reap(struct copies *copies)
{
	int moved = 0;

	for (struct copy_stream *s = copies->streams; s && copies->pending; s = s->next)
		while (s->running && copy_end_oldest(copies, s))
			moved = 1;
	return moved;
}

int copies_progress(struct copies *copies)
{
	int moved = copies_reap(copies);

	for (struct copy_stream *s = copies->streams; s; s = s->next)
		while (s->queue && s->running < COPY_DEPTH) {
			copy_start_next(copies, s);
			moved = 1;
		}
	return moved;
}

/* ---------------------------------------------------------------------- cancelling -- */

static void copy_ignore(struct copy *copy, int code)
{
	(void)copy;
	(void)code;
}

/* Nobody hears of the end of the owner's copies that run.  Returns a stream with such a copy, or NULL. */
static struct copy_stream *copies_ignore(const struct copies *copies, const void *owner)
{
	struct copy_stream *busy = NULL;

	for (struct copy_stream *s = copies->streams; s && copies->pending; s = s->next)
		for (struct copy *copy = s->first; copy; copy = copy->next)
			if (copy->owner == owner) {
				copy->ended = copy_ignore;
				busy = s;
			}
	return busy;
}

static void copy_lose(struct copies *copies, struct copy *copy)
{
	copies->pending--;
	error_set(COLL_ERR_DEVICE, "a device does not end its copies");
	copy->ended(copy, COPY_LOST);
}

/*
 * The device does not end the copies of a stream, which leaves the list and is never freed: its memory may still be
 * touched, so every owner of a copy there hears of the loss.
 */
static void copies_lose(struct copies *copies, struct copy_stream *stream, int rank)
{
	struct copy_stream **at = &copies->streams;
	struct copy *copy;

	log_error("rank %d: a device has not ended its copies within %d s of the failure of their "
		  "communicator; it may still read and write buffers of calls that were under way",
		  rank, COPIES_WAIT_US / 1000000);
	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	while ((copy = stream->first)) {
		stream->first = copy->next;
		copy_lose(copies, copy);
	}
	while (stream->queue)
		copy_lose(copies, copy_take(stream));
}

int copies_cancel(struct copies *copies, struct copy_queue *queues, const void *owner, int rank)
{
	const int64_t deadline = copies->pending ? clock_now_us() + COPIES_WAIT_US : 0;
	struct copy_stream *stream;
	int lost = 0;

	for (int way = 0; way < COPY_WAYS; way++)
		if (queues[way].first)
			queue_drop(copies, &queues[way]);
	while ((stream = copies_ignore(copies, owner))) {
		if (copies_reap(copies)) /* starts none: others may be cancelled next */
			continue;
		if (clock_now_us() < deadline) {
			clock_nap(COPIES_POLL_US);
			continue;
		}
		copies_lose(copies, stream, rank);
		lost = COPY_LOST;
	}
	return lost;
}
