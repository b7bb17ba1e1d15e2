/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_order.c - the stand-in driver's streams that wait for a word of memory, and captures of
 * streams.
 */
#include "cuda_impl.h"

#include <stdlib.h>
#include <time.h>

enum { STANDIN_WAIT_US = 20 };

static _Thread_local int standin_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

int cuStreamGetCtx(void *stream, void **context)
{
	struct standin_context *current = NULL;
	struct standin_stream *s;
	int code = standin_process_ok();

	if (code || !context)
		return code ? code : CUDA_ERROR_INVALID_VALUE;
	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
		code = standin_begin(&current);
		*context = current;
		return code ? code : standin_leave(CUDA_SUCCESS);
	}
	pthread_mutex_lock(&standin_lock);
	code = standin_stream_find(stream, NULL, &s);
	if (s)
		*context = s->context;
	return standin_leave(code);
}

/* ------------------------------------------------------------- waits for a word -- */

static int standin_word_is_late(const struct standin_task *task, uint32_t word)
{
	switch (task->width) {
	case CU_STREAM_WAIT_VALUE_GEQ: return (int32_t)(word - task->value) < 0;
	case CU_STREAM_WAIT_VALUE_EQ: return word != task->value;
	case CU_STREAM_WAIT_VALUE_AND: return !(word & task->value);
	default: return (word | task->value) == UINT32_MAX;
	}
}

/* Memory that was freed while a stream waits for it is an illegal address. */
static int standin_run_wait(const struct standin_task *task)
{
	const struct timespec pause = {.tv_nsec = STANDIN_WAIT_US * 1000};
	const struct standin_memory *m;
	int lost, late = 1;

	while (late) {
		pthread_mutex_lock(&standin_lock);
		lost = standin_worker->dead || standin_worker->context->broken;
		m = standin_memory_find(task->dst);
		if (!lost && m && m->id == task->dst_id)
			late = standin_word_is_late(
				task, __atomic_load_n((uint32_t *)(void *)standin_memory_inside(
							      m, task->dst, sizeof(uint32_t)),
						      __ATOMIC_ACQUIRE));
		pthread_mutex_unlock(&standin_lock);
		if (lost)
			return CUDA_SUCCESS;
		if (!m || m->id != task->dst_id)
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (late)
			nanosleep(&pause, NULL);
	}
	return CUDA_SUCCESS;
}

static int standin_run_write(const struct standin_task *task)
{
	const struct standin_memory *m;
	int code = CUDA_ERROR_ILLEGAL_ADDRESS;

	pthread_mutex_lock(&standin_lock);
	m = standin_memory_find(task->dst);
	if (m && m->id == task->dst_id) {
		__atomic_store_n(
			(uint32_t *)(void *)standin_memory_inside(m, task->dst, sizeof(uint32_t)),
			task->value, __ATOMIC_RELEASE);
		code = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&standin_lock);
	return code;
}

/* The word may lie in device or pinned memory, never in managed memory. */
static int standin_give_word(void *stream, struct standin_task *task, CUdeviceptr addr, int is_bad)
{
	struct standin_context *context;
	const struct standin_memory *m;
	struct standin_stream *s;
	int code = standin_enter(&context);

	if (code)
		return code;
	task->dst = (char *)(uintptr_t)addr;
	m = standin_memory_find(task->dst);
	if (is_bad || addr % sizeof(task->value) || !m || m->managed ||
	    !standin_memory_inside(m, task->dst, sizeof(task->value)))
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	if (standin_injected("STANDIN_CUDA_WAIT", 0))
		return standin_leave(standin_injected("STANDIN_CUDA_WAIT", 0));
	task->dst_id = m->id;
	code = standin_stream_find(stream, context, &s);
	if (!code)
		code = standin_stream_give(s, task, NULL);
	return standin_leave(code);
}

int cuStreamWaitValue32_v2(void *stream, CUdeviceptr addr, uint32_t value, unsigned flags)
{
	struct standin_task task = {.run = standin_run_wait, .value = value, .width = flags};

	return standin_give_word(stream, &task, addr, flags > CU_STREAM_WAIT_VALUE_NOR);
}

int cuStreamWriteValue32_v2(void *stream, CUdeviceptr addr, uint32_t value, unsigned flags)
{
	struct standin_task task = {.run = standin_run_write, .value = value};

	return standin_give_word(stream, &task, addr,
				 flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER);
}

/* ------------------------------------------------------------------- captures -- */

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = standin_mode;

	if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
	    *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	standin_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

int standin_unsafe(void)
{
	return standin_mode == CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_SUCCESS
							      : standin_streams_invalidate();
}

static int standin_capture_enter(void *handle, struct standin_stream **stream)
{
	struct standin_context *context;
	int code = standin_enter(&context);

	if (code)
		return code;
	code = !handle || handle == CU_STREAM_LEGACY ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
						     : CUDA_SUCCESS;
	if (!code)
		code = standin_stream_find(handle, context, stream);
	return code ? standin_leave(code) : CUDA_SUCCESS;
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	struct standin_stream *s;
	int code = standin_capture_enter(stream, &s);

	if (code)
		return code;
	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return standin_leave(CUDA_ERROR_INVALID_VALUE);
	if (s->capture)
		return standin_leave(CUDA_ERROR_ILLEGAL_STATE);
	s->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	s->capture_mode = mode;
	s->capture_thread = pthread_self();
	return standin_leave(CUDA_SUCCESS);
}

int cuStreamEndCapture(void *stream, void **graph)
{
	struct standin_task *captured;
	struct standin_stream *s;
	int code = standin_capture_enter(stream, &s), state, good;

	if (code)
		return code;
	state = s->capture;
	captured = s->captured;
	s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
	s->captured = NULL;
	good = graph && state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (graph)
		*graph = good ? standin_graph_new(captured) : NULL;
	(void)standin_leave(CUDA_SUCCESS);
	if (!good)
		standin_captured_free(captured);
	if (!state)
		return CUDA_ERROR_ILLEGAL_STATE;
	return state == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS
							: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* The legacy stream has no answer while another stream of its context is being captured. */
int cuStreamIsCapturing(void *stream, int *status)
{
	struct standin_context *context = NULL;
	struct standin_stream *s;
	int code = standin_enter(&context);

	if (code)
		return code;
	code = standin_stream_find(stream, context, &s);
	if (!code && !status)
		code = CUDA_ERROR_INVALID_VALUE;
	if (!code && s == context->legacy && standin_streams_capture(context))
		code = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (!code)
		*status = s->capture;
	return standin_leave(code);
}
