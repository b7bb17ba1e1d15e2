/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_null.c - a backend with native collectives that counts calls and does nothing: the test
 * decides which operations are complete and which calls fail (coll_null.h).  With NULL_DEVICE it is
 * a second backend, 'nulldevice', that takes device memory only.
 */
#include "coll_null.h"

#include <coll/backend.h>

#include <stdio.h>
#include <stdlib.h>

#ifdef NULL_DEVICE
#define NULL_NAME   "nulldevice"
#define NULL_MEMORY (COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED)
#else
#define NULL_NAME   "null"
#define NULL_MEMORY COLL_MEM_HOST
#endif

/* Groups of one thread over all endpoints: how many are open, and the number of the group. */
static _Atomic int null_groups;
static _Atomic uint64_t null_group = 1;

static int32_t null_error(coll_error_t *err, int32_t code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

/* Only one thread at a time may call the endpoint. */
static void null_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static int32_t null_call(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct null_handle *h = ep;
	int refusing = atomic_load_explicit(&h->refusing, memory_order_relaxed);

	if (refusing)
		return null_error(err, refusing, "told to refuse");
	null_count(&h->calls);
	h->sendbuf = args->sendbuf;
	h->count = args->count;
	h->stream = args->stream;
	return COLL_SUCCESS;
}

static int32_t null_query(void *ep, coll_error_t *err)
{
	struct null_handle *h = ep;

	(void)err;
	null_count(&h->queries);
	if (atomic_load(&h->group) == atomic_load(&null_group))
		null_count(&h->early);
	return atomic_load(&h->done) >= atomic_load(&h->calls) ? COLL_SUCCESS : COLL_IN_PROGRESS;
}

static int32_t null_async_error(void *ep, coll_error_t *err)
{
	struct null_handle *h = ep;
	int code = atomic_load(&h->failing);

	null_count(&h->errors);
	return code ? null_error(err, code, "told to fail") : COLL_SUCCESS;
}

static void null_abort(void *ep)
{
	atomic_store(&((struct null_handle *)ep)->aborted, 1);
}

static int32_t null_group_begin(void *ep, coll_error_t *err)
{
	struct null_handle *h = ep;

	(void)err;
	atomic_store(&h->group, atomic_load(&null_group));
	atomic_fetch_add(&h->groups, 1);
	atomic_fetch_add(&null_groups, 1);
	return COLL_SUCCESS;
}

static int32_t null_group_end(void *ep, coll_error_t *err)
{
	(void)err;
	atomic_fetch_sub(&((struct null_handle *)ep)->groups, 1);
	if (atomic_fetch_sub(&null_groups, 1) == 1)
		atomic_fetch_add(&null_group, 1);
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- events -- */

/* An event is the number of calls before it. */
struct null_event {
	uint64_t calls;
};

static int32_t null_event_create(void *ep, void **event, coll_error_t *err)
{
	*event = calloc(1, sizeof(struct null_event));
	if (!*event)
		return null_error(err, COLL_ERR_NO_MEMORY, "no memory for an event");
	atomic_fetch_add(&((struct null_handle *)ep)->events, 1);
	return COLL_SUCCESS;
}

static void null_event_destroy(void *ep, void *event)
{
	atomic_fetch_sub(&((struct null_handle *)ep)->events, 1);
	free(event);
}

static int32_t null_event_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	struct null_handle *h = ep;

	(void)stream;
	(void)err;
	null_count(&h->records);
	((struct null_event *)event)->calls = atomic_load(&h->calls);
	return COLL_SUCCESS;
}

static int32_t null_event_wait(void *ep, void *event, coll_stream_t stream, coll_error_t *err)
{
	(void)ep;
	(void)event;
	(void)stream;
	(void)err;
	return COLL_SUCCESS;
}

static int32_t null_event_query(void *ep, void *event, coll_error_t *err)
{
	struct null_handle *h = ep;

	(void)err;
	return atomic_load(&h->done) >= ((struct null_event *)event)->calls ? COLL_SUCCESS
									    : COLL_IN_PROGRESS;
}

static int32_t null_event_synchronize(void *ep, void *event, int64_t timeout_ms, coll_error_t *err)
{
	(void)timeout_ms;
	return null_event_query(ep, event, err) ? null_error(err, COLL_ERR_TIMEOUT, "not yet")
						: COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- opening -- */

static int32_t null_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct null_handle *h = calloc(1, sizeof(*h));

	*ep = h;
	if (!h)
		return null_error(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	if (host->nranks != 1)
		return null_error(err, COLL_ERR_UNSUPPORTED, "made for one rank");
	atomic_store(&h->done, UINT64_MAX);
	return COLL_SUCCESS;
}

static void null_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static void *null_handle(void *ep)
{
	return ep;
}

static const coll_native_t null_slots = {
	.size = sizeof(coll_native_t),
	.allreduce = null_call,
	.broadcast = null_call,
	.alltoallv = null_call,
	.send = null_call,
	.recv = null_call,
	.group_begin = null_group_begin,
	.group_end = null_group_end,
	.query = null_query,
	.async_error = null_async_error,
	.abort = null_abort,
	.event_create = null_event_create,
	.event_destroy = null_event_destroy,
	.event_record = null_event_record,
	.event_wait = null_event_wait,
	.event_query = null_event_query,
	.event_synchronize = null_event_synchronize,
	.handle = null_handle,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = NULL_NAME,
	.version = "1.0",
	.description = "counts calls and does nothing, for one rank",
	.priority = 1,
	.memory = NULL_MEMORY,
	.native = &null_slots,
	.open = null_open,
	.close = null_close,
};
