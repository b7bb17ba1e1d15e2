/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_event.c - CUDA events without timing. */
#include "nccl.h"

#include <stdlib.h>

int32_t nccl_event_create(void *ep, void **event, coll_error_t *err)
{
	struct nccl *n = ep;
	struct nccl_event *e = calloc(1, sizeof(*e));
	int pushed, result;
	int32_t code = e ? nccl_enter(n->context, &pushed, err)
			 : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an event");

	if (!code) {
		result = cuda_driver.cuEventCreate(&e->event, CUDA_EVENT_DISABLE_TIMING);
		if (result)
			code = nccl_cuda_refused(err, result, "cuEventCreate");
		nccl_leave(pushed);
	}
	if (code) {
		free(e);
		return code;
	}
	e->context = n->context;
	*event = e;
	return COLL_SUCCESS;
}

void nccl_event_destroy(void *ep, void *event)
{
	struct nccl_event *e = event;
	int pushed = 0;

	(void)ep;
	if (!nccl_enter(e->context, &pushed, NULL))
		cuda_driver.cuEventDestroy(e->event);
	nccl_leave(pushed);
	free(e);
}

/*
 * Replaces an event of another context, because an event can be recorded in its own context only.  Streams that
 * wait for the old event still do.
 */
static int nccl_event_move(const struct nccl *n, struct nccl_event *e)
{
	void *moved = NULL;
	int result;

	if (e->context == n->context)
		return CUDA_OK;
	result = cuda_driver.cuEventCreate(&moved, CUDA_EVENT_DISABLE_TIMING);
	if (result)
		return result;
	cuda_driver.cuEventDestroy(e->event);
	e->event = moved;
	e->context = n->context;
	return CUDA_OK;
}

int32_t nccl_event_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct nccl *n = ep;
	struct nccl_event *e = event;
	int pushed, result;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	result = nccl_event_move(n, e);
	code = result ? nccl_cuda_refused(err, result, "cuEventCreate")
		      : nccl_enqueue_begin(n, err);
	if (!code) {
		result = cuda_driver.cuEventRecord(e->event, stream ? stream : n->stream);
		nccl_enqueue_end(n);
		if (result)
			code = nccl_cuda_refused(err, result, "cuEventRecord");
	}
	nccl_end(n, pushed);
	return code;
}

int32_t nccl_event_wait(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct nccl *n = ep;
	const struct nccl_event *e = event;
	int pushed, result;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	code = nccl_enqueue_begin(n, err);
	if (!code) {
		result = cuda_driver.cuStreamWaitEvent(stream ? stream : n->stream, e->event, 0);
		nccl_enqueue_end(n);
		if (result)
			code = nccl_cuda_refused(err, result, "cuStreamWaitEvent");
	}
	nccl_end(n, pushed);
	return code;
}

int32_t nccl_event_query(void *ep, void *event, coll_error_t *err)
{
	const struct nccl_event *e = event;
	int pushed, result;
	int32_t code = nccl_enter(e->context, &pushed, err);

	(void)ep;
	if (code)
		return code;
	result = cuda_driver.cuEventQuery(e->event);
	nccl_leave(pushed);
	if (driver_not_ready(result))
		return COLL_IN_PROGRESS;
	return result ? nccl_cuda_refused(err, result, "work before the event") : COLL_SUCCESS;
}

int32_t nccl_event_synchronize(void *ep, void *event, int64_t timeout_ms, coll_error_t *err)
{
	const int64_t deadline = clock_now_ms() + timeout_ms;
	unsigned round = 0;
	int32_t code;

	do
		code = nccl_event_query(ep, event, err);
	while (code == COLL_IN_PROGRESS && nccl_backoff(&round, deadline));
	if (code == COLL_IN_PROGRESS)
		return error_fill(
			err, COLL_ERR_TIMEOUT,
			"timed out: the event's stream has not reached the event after %.3g s",
			(double)timeout_ms / 1000);
	return code;
}
