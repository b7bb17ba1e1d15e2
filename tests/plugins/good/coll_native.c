/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_native.c - a backend with native collectives and no transport, for one rank: it queues the
 * operations, and its "device" finishes one operation at each query.
 */
#include <coll/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NATIVE_QUEUE = 16 };

struct native {
	coll_args_t queue[NATIVE_QUEUE];
	int first, n;
	int in_group; /* nesting of groups; no operation completes before the group ends */
	float scale;
};

enum { NATIVE_SCALED = 1000, NATIVE_BROKEN = 13 };

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

/* Supports float32 only. */
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
	if (native->in_group || args->count == NATIVE_BROKEN)
		return COLL_IN_PROGRESS;
	memmove(args->recvbuf, args->sendbuf, args->count * sizeof(float));
	for (uint64_t i = 0; args->op == NATIVE_SCALED && i < args->count; i++)
		((float *)args->recvbuf)[i] *= native->scale;
	native->first = (native->first + 1) % NATIVE_QUEUE;
	native->n--;
	return COLL_IN_PROGRESS;
}

static int32_t native_group_begin(void *ep, coll_error_t *err)
{
	struct native *native = ep;

	(void)err;
	native->in_group++;
	return COLL_SUCCESS;
}

static int32_t native_group_end(void *ep, coll_error_t *err)
{
	struct native *native = ep;

	if (native->in_group-- > 0)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "a group ended that never began");
	return err->code = COLL_ERR_INTERNAL;
}

/* An operation on NATIVE_BROKEN elements breaks the engine. */
static int32_t native_async_error(void *ep, coll_error_t *err)
{
	const struct native *native = ep;

	if (!native->n || native->queue[native->first].count != NATIVE_BROKEN)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "the engine has failed");
	return err->code = COLL_ERR_DEVICE;
}

static int32_t native_op_create(void *ep, int32_t *op, const void *scalar, int32_t dtype,
				int32_t residence, coll_error_t *err)
{
	struct native *native = ep;

	(void)residence;
	if (dtype != COLL_FLOAT32) {
		snprintf(err->text, sizeof(err->text), "scales float32 only");
		return err->code = COLL_ERR_UNSUPPORTED;
	}
	memcpy(&native->scale, scalar, sizeof(native->scale));
	*op = NATIVE_SCALED;
	return COLL_SUCCESS;
}

static int32_t native_op_destroy(void *ep, int32_t op, coll_error_t *err)
{
	(void)ep;
	if (op == NATIVE_SCALED)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "operation %d was never made", (int)op);
	return err->code = COLL_ERR_INTERNAL;
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
	.group_begin = native_group_begin,
	.group_end = native_group_end,
	.query = native_query,
	.async_error = native_async_error,
	.op_create_pre_mul_sum = native_op_create,
	.op_destroy = native_op_destroy,
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
