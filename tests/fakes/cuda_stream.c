/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_stream.c - the stand-in driver's streams: streams that programs create, the default stream
 * of each context, and the default stream of each thread in each context.
 */
#include "cuda_impl.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum { STANDIN_ROOM = INT_MAX }; /* pieces of work that a stream takes; the real driver: 1,024 */

static struct standin_stream *standin_stream_list;
static unsigned long standin_worked, standin_created;
static unsigned standin_random = 1;

static pthread_once_t standin_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t standin_key; /* runs at the end of threads that have streams */
static _Thread_local struct standin_stream *standin_mine[STANDIN_DEVICES];

/* ---------------------------------------------------------- beginning and ending -- */

static struct standin_stream *standin_stream_new(struct standin_context *context, int blocking)
{
	struct standin_stream *stream = calloc(1, sizeof(*stream));
	pthread_condattr_t attr;

	if (!stream)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&stream->work, &attr);
	pthread_cond_init(&stream->changed, &attr);
	pthread_condattr_destroy(&attr);
	stream->context = context;
	stream->blocking = blocking;
	stream->refs = 1;
	stream->next = standin_stream_list;
	standin_stream_list = stream;
	return stream;
}

void standin_stream_unref(struct standin_stream *stream)
{
	struct standin_stream **at = &standin_stream_list;

	if (--stream->refs)
		return;
	while (*at != stream)
		at = &(*at)->next;
	*at = stream->next;
	pthread_cond_destroy(&stream->work);
	pthread_cond_destroy(&stream->changed);
	free(stream);
}

/* Ends the handle.  The stream's thread ends when all queued work is done. */
static void standin_stream_leave(struct standin_stream *stream)
{
	stream->gone = 1;
	pthread_cond_broadcast(&stream->work);
	standin_stream_unref(stream);
}

/* Ends the stream with its context and drops the work still queued. */
void standin_streams_end(struct standin_context *context)
{
	struct standin_stream *next;

	context->legacy = NULL;
	for (struct standin_stream *s = standin_stream_list; s; s = next) {
		next = s->next;
		if (s->context != context || s->dead)
			continue;
		s->dead = 1;
		/* A thread's own stream stays until the thread ends. */
		if (!s->gone && !s->owned)
			standin_stream_leave(s);
	}
}

/* --------------------------------------------------------------- default streams -- */

static void standin_thread_end(void *mine)
{
	struct standin_stream **streams = mine;

	if (standin_process_ok())
		return;
	pthread_mutex_lock(&standin_lock);
	for (int d = 0; d < STANDIN_DEVICES; d++)
		if (streams[d])
			standin_stream_leave(streams[d]);
	pthread_mutex_unlock(&standin_lock);
}

static void standin_key_make(void)
{
	pthread_key_create(&standin_key, standin_thread_end);
}

static struct standin_stream *standin_per_thread(struct standin_context *context)
{
	struct standin_stream **mine = &standin_mine[context->device];

	if (*mine && (*mine)->dead) {
		standin_stream_leave(*mine);
		*mine = NULL;
	}
	if (*mine)
		return *mine;
	pthread_once(&standin_key_once, standin_key_make);
	pthread_setspecific(standin_key, standin_mine);
	*mine = standin_stream_new(context, 1);
	if (*mine)
		(*mine)->owned = 1;
	return *mine;
}

/* The stream that a handle names, in a context that is not broken. */
int standin_stream_find(void *handle, struct standin_context *context,
			struct standin_stream **stream)
{
	struct standin_stream *s = standin_stream_list;

	if (!handle || handle == CU_STREAM_LEGACY) {
		if (!context->legacy)
			context->legacy = standin_stream_new(context, 1);
		*stream = context->legacy;
		return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (handle == CU_STREAM_PER_THREAD) {
		*stream = standin_per_thread(context);
		return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	while (s && (s != handle || !s->made || s->gone))
		s = s->next;
	*stream = s;
	return s ? s->context->broken : CUDA_ERROR_INVALID_HANDLE;
}

/* ----------------------------------------------------------------- queueing work -- */

static int standin_pending(const struct standin_stream *stream)
{
	return stream->given != stream->done;
}

/* Must work queued on one stream now wait for the other, by the rules of the default stream? */
static int standin_implied(const struct standin_stream *stream, const struct standin_stream *other)
{
	const struct standin_stream *legacy = stream->context->legacy;

	return other != stream && other->context == stream->context && !other->dead &&
	       stream->blocking && other->blocking && standin_pending(other) &&
	       (stream == legacy || other == legacy);
}

static size_t standin_implied_all(const struct standin_stream *stream, struct standin_point *points)
{
	size_t n = 0;

	for (struct standin_stream *s = standin_stream_list; s; s = s->next) {
		if (!standin_implied(stream, s))
			continue;
		if (points) {
			points[n] = (struct standin_point){s, s->given};
			s->refs++;
		}
		n++;
	}
	return n;
}

/* One piece of work in four takes a moment. */
static void standin_inject(struct standin_task *task)
{
	const char *text = getenv("STANDIN_CUDA_DELAY_US");

	task->breaks = standin_injected("STANDIN_CUDA_WORK", standin_worked++);
	standin_random = standin_random * 1103515245 + 12345;
	task->exact = text != NULL;
	task->delay_us = (standin_random >> 16) % 4 ? 0 : (standin_random >> 18) % 200;
	if (text)
		task->delay_us = (unsigned)strtoul(text, NULL, 10);
}

/* A stream has room for so many pieces of work; then the calling thread waits. */
static void standin_await_room(struct standin_stream *stream)
{
	const char *text = getenv("STANDIN_CUDA_ROOM");
	const int room = text ? atoi(text) : STANDIN_ROOM;

	if (stream->capture || stream->pieces < room)
		return;
	stream->refs++;
	stream->waiters++;
	pthread_cond_broadcast(&stream->work);
	while (stream->pieces >= room && !stream->context->broken && !stream->dead)
		pthread_cond_wait(&stream->changed, &standin_lock);
	stream->waiters--;
	standin_stream_unref(stream);
}

/*
 * Queues a copy of a task; the task also waits for a position in a stream, if the caller gives one.
 */
int standin_stream_give(struct standin_stream *stream, const struct standin_task *task,
			const struct standin_point *after)
{
	struct standin_task *given;
	size_t n;
	int code;

	standin_await_room(stream);
	n = standin_implied_all(stream, NULL);
	if (stream->capture) /* captured, not run */
		return standin_capture_add(stream, task);
	given = calloc(1, sizeof(*given) + (n + 1) * sizeof(*after));
	code = given ? standin_worker_start(stream) : CUDA_ERROR_OUT_OF_MEMORY;
	if (code) {
		free(given);
		return code;
	}
	*given = *task;
	given->after = (struct standin_point *)(given + 1);
	given->nafter = standin_implied_all(stream, given->after);
	if (after && after->stream) {
		given->after[given->nafter++] = *after;
		after->stream->refs++;
	}
	if (given->run)
		standin_inject(given);
	given->ticket = stream->given = ++standin_clock;
	*(stream->last ? &stream->last->next : &stream->first) = given;
	stream->last = given;
	stream->pieces++;
	pthread_cond_broadcast(&stream->work);
	return CUDA_SUCCESS;
}

/* --------------------------------------------------------------- waiting for streams -- */

/* Returns the error of the stream up to a ticket, and returns it only once. */
int standin_stream_error(struct standin_stream *stream, unsigned long ticket)
{
	int code = stream->error_at <= ticket ? stream->error : CUDA_SUCCESS;

	if (stream->context->broken)
		return stream->context->broken;
	if (code)
		stream->error = CUDA_SUCCESS;
	return code;
}

int standin_stream_await(struct standin_stream *stream, unsigned long ticket)
{
	int code;

	stream->refs++;
	stream->waiters++;
	pthread_cond_broadcast(&stream->work);
	while (stream->done < ticket && !stream->context->broken)
		pthread_cond_wait(&stream->changed, &standin_lock);
	stream->waiters--;
	code = standin_stream_error(stream, ticket);
	standin_stream_unref(stream);
	return code;
}

void standin_streams_wake(struct standin_context *context)
{
	for (struct standin_stream *s = standin_stream_list; s; s = s->next)
		if (s->context == context)
			pthread_cond_broadcast(&s->changed);
}

/* Does not wait for work that is queued after the call. */
int standin_streams_await(struct standin_context *context)
{
	unsigned long now = standin_clock;
	struct standin_stream *s = standin_stream_list;
	int code = CUDA_SUCCESS;

	while (s) {
		if (s->context != context || s->dead || !s->first || s->first->ticket > now) {
			s = s->next;
			continue;
		}
		int one = standin_stream_await(s, s->first->ticket);

		code = code ? code : one;
		if (context->broken)
			return context->broken;
		s = standin_stream_list;
	}
	return code;
}

void standin_await_freeing(const struct standin_context *context)
{
	const struct timespec pause = {.tv_nsec = 100000};

	while (context->freeing && !context->broken) {
		pthread_mutex_unlock(&standin_lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&standin_lock);
	}
}

int standin_streams_capture(const struct standin_context *context)
{
	int n = 0;

	for (const struct standin_stream *s = standin_stream_list; s; s = s->next)
		n += s->context == context && s->capture;
	return n;
}

static int standin_forbids(const struct standin_stream *stream)
{
	return stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
	       (stream->capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
		pthread_equal(stream->capture_thread, pthread_self()));
}

int standin_streams_invalidate(void)
{
	int code = CUDA_SUCCESS;

	for (struct standin_stream *s = standin_stream_list; s; s = s->next)
		if (s->capture && standin_forbids(s)) {
			s->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return code;
}

/* The time at which the oldest running piece of work began. */
unsigned long standin_stream_oldest(void)
{
	unsigned long oldest = standin_clock + 1;

	for (const struct standin_stream *s = standin_stream_list; s; s = s->next)
		if (s->since && s->since < oldest)
			oldest = s->since;
	return oldest;
}

/* --------------------------------------------------------------------- the calls -- */

int cuStreamCreate(void **stream, unsigned flags)
{
	struct standin_context *context;
	int code = standin_enter(&context);
	struct standin_stream *s;

	if (code)
		return code;
	if (!stream || flags > CU_STREAM_NON_BLOCKING)
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	code = standin_injected("STANDIN_CUDA_STREAM", standin_created++);
	if (code)
		return standin_leave(code);
	s = standin_stream_new(context, !(flags & CU_STREAM_NON_BLOCKING));
	if (!s)
		return standin_leave(CUDA_ERROR_OUT_OF_MEMORY);
	s->made = 1;
	*stream = s;
	return standin_leave(CUDA_SUCCESS);
}

/* Destroys the stream also in a broken context; the result then has the context's code. */
int cuStreamDestroy_v2(void *stream)
{
	struct standin_stream *s = NULL;
	struct standin_context *context;
	int code = standin_begin(&context);

	if (code)
		return code;
	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return standin_leave(CUDA_ERROR_INVALID_HANDLE);
	code = standin_stream_find(stream, context, &s);
	if (s)
		standin_stream_leave(s);
	return standin_leave(code ? code : context->broken);
}

static int standin_stream_enter(void *handle, struct standin_stream **stream)
{
	struct standin_context *context;
	int code = standin_enter(&context);

	if (code)
		return code;
	code = standin_stream_find(handle, context, stream);
	return code ? standin_leave(code) : CUDA_SUCCESS;
}

/* The stream is captured, or a capture of another stream forbids the call. */
static int standin_stream_unsafe(struct standin_stream *stream)
{
	if (!stream->capture)
		return standin_unsafe();
	stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

int cuStreamQuery(void *stream)
{
	struct standin_stream *s;
	int code = standin_stream_enter(stream, &s);

	if (code)
		return code;
	code = standin_stream_unsafe(s);
	if (code)
		return standin_leave(code);
	if (standin_pending(s) || standin_implied_all(s, NULL))
		return standin_leave(CUDA_ERROR_NOT_READY);
	return standin_leave(standin_stream_error(s, s->given));
}

/* An empty piece of work waits for the streams that the default stream implies. */
int cuStreamSynchronize(void *stream)
{
	const struct standin_task nothing = {.run = NULL};
	struct standin_stream *s;
	int code = standin_stream_enter(stream, &s);

	if (code)
		return code;
	code = standin_stream_unsafe(s);
	if (!code && standin_implied_all(s, NULL))
		code = standin_stream_give(s, &nothing, NULL);
	return standin_leave(code ? code : standin_stream_await(s, s->given));
}

/* --------------------------------------------------------------- queries by tests -- */

unsigned long standin_works(void)
{
	unsigned long n;

	pthread_mutex_lock(&standin_lock);
	n = standin_worked;
	pthread_mutex_unlock(&standin_lock);
	return n;
}

int standin_streams(void)
{
	int n = 0;

	pthread_mutex_lock(&standin_lock);
	for (const struct standin_stream *s = standin_stream_list; s; s = s->next)
		n += s->made && !s->gone;
	pthread_mutex_unlock(&standin_lock);
	return n;
}
