/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_event.c - the stand-in driver's events, and functions that streams run.  An event is a
 * position in a stream, so a wait for the position is not affected by a later recording or
 * destruction of the event.
 */
#include "cuda_impl.h"

#include <stdlib.h>

struct standin_event {
	struct standin_event *next;
	struct standin_context *context;
	struct standin_point at; /* NULL: not recorded yet */
	int captured;            /* recorded last in a capture */
};

static struct standin_event *standin_event_list;
static unsigned long standin_created;

/* -------------------------------------------------------- beginning and ending -- */

int cuEventCreate(void **event, unsigned flags)
{
	const unsigned known =
		CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct standin_context *context;
	struct standin_event *e;
	int code = standin_enter(&context);

	if (code)
		return code;
	if (!event || (flags & ~known) ||
	    ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	standin_await_freeing(context);
	code = standin_injected("STANDIN_CUDA_EVENT", standin_created++);
	e = code ? NULL : calloc(1, sizeof(*e));
	if (!e)
		return standin_leave(code ? code : CUDA_ERROR_OUT_OF_MEMORY);
	e->context = context;
	e->next = standin_event_list;
	standin_event_list = e;
	*event = e;
	return standin_leave(CUDA_SUCCESS);
}

static void standin_event_free(struct standin_event **at)
{
	struct standin_event *e = *at;

	*at = e->next;
	if (e->at.stream)
		standin_stream_unref(e->at.stream);
	free(e);
}

void standin_events_end(struct standin_context *context)
{
	for (struct standin_event **at = &standin_event_list; *at;)
		if ((*at)->context == context)
			standin_event_free(at);
		else
			at = &(*at)->next;
}

static struct standin_event **standin_event_find(const void *handle)
{
	struct standin_event **at = &standin_event_list;

	while (*at && *at != handle)
		at = &(*at)->next;
	return at;
}

/* Destroys the event also in a broken context; the result then has the context's code. */
int cuEventDestroy_v2(void *event)
{
	struct standin_context *context;
	int code = standin_begin(&context), broken;
	struct standin_event **at;

	if (code)
		return code;
	at = standin_event_find(event);
	if (!*at)
		return standin_leave(CUDA_ERROR_INVALID_HANDLE);
	broken = (*at)->context->broken;
	standin_event_free(at);
	return standin_leave(broken ? broken : context->broken);
}

/* ------------------------------------------------------------ recording, waiting -- */

int cuEventRecord(void *event, void *stream)
{
	const struct standin_task nothing = {.run = NULL};
	struct standin_context *context;
	struct standin_stream *s;
	struct standin_event *e;
	int code = standin_enter(&context);

	if (code)
		return code;
	e = *standin_event_find(event);
	code = e ? standin_stream_find(stream, context, &s) : CUDA_ERROR_INVALID_HANDLE;
	if (!code && s->context != e->context)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (!code)
		code = standin_stream_give(s, &nothing, NULL);
	if (code)
		return standin_leave(code);
	s->refs++;
	if (e->at.stream)
		standin_stream_unref(e->at.stream);
	e->at = (struct standin_point){s, s->given};
	e->captured = s->capture != 0;
	return standin_leave(CUDA_SUCCESS);
}

/* This function needs no current context. */
int cuEventQuery(void *event)
{
	const struct standin_event *e;
	int code = standin_process_ok();

	if (code)
		return code;
	pthread_mutex_lock(&standin_lock);
	e = *standin_event_find(event);
	if (!e)
		return standin_leave(CUDA_ERROR_INVALID_HANDLE);
	code = e->context->broken;
	if (!code)
		code = standin_unsafe();
	if (!code && e->captured)
		code = CUDA_ERROR_CAPTURED_EVENT;
	if (!code && e->at.stream)
		code = e->at.stream->done < e->at.ticket
			       ? CUDA_ERROR_NOT_READY
			       : standin_stream_error(e->at.stream, e->at.ticket);
	return standin_leave(code);
}

int cuEventSynchronize(void *event)
{
	struct standin_context *context;
	const struct standin_event *e;
	int code = standin_enter(&context);

	if (code)
		return code;
	e = *standin_event_find(event);
	if (!e)
		return standin_leave(CUDA_ERROR_INVALID_HANDLE);
	code = e->context->broken;
	if (!code && e->at.stream)
		code = standin_stream_await(e->at.stream, e->at.ticket);
	return standin_leave(code);
}

/* Stream and event may belong to other contexts than the current one. */
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	const struct standin_task nothing = {.run = NULL};
	struct standin_context *context;
	const struct standin_event *e;
	struct standin_stream *s;
	int code = standin_enter(&context);

	if (code)
		return code;
	if (flags)
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	e = *standin_event_find(event);
	if (!e)
		return standin_leave(CUDA_ERROR_INVALID_HANDLE);
	code = e->context->broken;
	if (!code)
		code = standin_stream_find(stream, context, &s);
	if (!code)
		code = standin_stream_give(s, &nothing, &e->at);
	return standin_leave(code);
}

/* --------------------------------------------------------------------- functions -- */

/* As for kernels, the stream's context must be the current one. */
static int standin_launch(void *stream, const struct standin_task *task, int captured)
{
	struct standin_context *context;
	struct standin_stream *s;
	int code = standin_enter(&context);

	if (code)
		return code;
	code = standin_stream_find(stream, context, &s);
	if (!code && s->context != context)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (!code && captured >= 0 && captured != !!s->capture)
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!code)
		code = standin_stream_give(s, task, NULL);
	return standin_leave(code);
}

static int standin_run_host(const struct standin_task *task)
{
	task->host(task->arg);
	return CUDA_SUCCESS;
}

static int standin_run_kernel(const struct standin_task *task)
{
	return task->kernel(task->arg);
}

int cuLaunchHostFunc(void *stream, void (*fn)(void *arg), void *arg)
{
	const struct standin_task task = {.run = standin_run_host, .host = fn, .arg = arg};

	return fn ? standin_launch(stream, &task, -1) : CUDA_ERROR_INVALID_VALUE;
}

int standin_stream_do(void *stream, int (*fn)(void *arg), void *arg)
{
	const struct standin_task task = {
		.run = standin_run_kernel, .kernel = fn, .arg = arg, .always = 1};

	return standin_launch(stream, &task, 0);
}

int standin_stream_record(void *stream, int (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
	const struct standin_task task = {
		.run = standin_run_kernel, .kernel = fn, .drop = drop, .arg = arg};

	return standin_launch(stream, &task, 1);
}

/* --------------------------------------------------------------- queries by tests -- */

int standin_events(void)
{
	int n = 0;

	pthread_mutex_lock(&standin_lock);
	for (const struct standin_event *e = standin_event_list; e; e = e->next)
		n++;
	pthread_mutex_unlock(&standin_lock);
	return n;
}
