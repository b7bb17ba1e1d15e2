/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_native.c - a backend with collectives of its own and no transport, for one rank: it queues
 * the operations, and its "device" finishes one each time it is asked.
 */
#include <coll/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NATIVE_QUEUE = 16 };

struct native {
	coll_args_t queue[NATIVE_QUEUE];
	int first, n;
};

static int32_t native_enqueue(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct native *native = ep;

	if (native->n == NATIVE_QUEUE) {
		snprintf(err->text, sizeof(err->text), "the queue of %d is full", NATIVE_QUEUE);
		return err->code = COLL_ERR_DEVICE;
	}
	native->queue[(native->first + native->n++) % NATIVE_QUEUE] = *args;
	return COLL_SUCCESS;
}

/* Knows float32 only. */
static int32_t native_allreduce(void *ep, const coll_args_t *args, coll_error_t *err)
{
	if (args->dtype == COLL_FLOAT32)
		return native_enqueue(ep, args, err);
	snprintf(err->text, sizeof(err->text), "native allreduce takes float32 only");
	return err->code = COLL_ERR_UNSUPPORTED;
}

static int32_t native_query(void *ep, coll_error_t *err)
{
	struct native *native = ep;
	const coll_args_t *args = &native->queue[native->first];

	(void)err;
	if (!native->n)
		return COLL_SUCCESS;
	memmove(args->recvbuf, args->sendbuf, args->count * sizeof(float));
	native->first = (native->first + 1) % NATIVE_QUEUE;
	native->n--;
	return COLL_IN_PROGRESS;
}

static int32_t native_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	*ep = calloc(1, sizeof(struct native));
	if (host->nranks == 1 && *ep)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "made for one rank, not %u", (unsigned)host->nranks);
	return err->code = COLL_ERR_UNSUPPORTED;
}

static void native_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static void *native_handle(void *ep)
{
	return ep;
}

static const coll_native_t native_slots = {
	.size = sizeof(coll_native_t),
	.allreduce = native_allreduce,
	.query = native_query,
	.handle = native_handle,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "native",
	.version = "1.0",
	.description = "collectives of its own, for one rank",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.native = &native_slots,
	.open = native_open,
	.close = native_close,
};
