/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_placed.c - a backend with native collectives, for one rank, that does no allreduce in place: its `takes`
 * sees whether a call is.
 */
#include <coll/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lone {
	const coll_host_t *host;
};

/* The only rank copies its input. */
static int32_t lone_copy(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)err;
	if (args->count)
		memmove(args->recvbuf, args->sendbuf, args->count * sizeof(int64_t));
	return COLL_SUCCESS;
}

static int32_t lone_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

static int32_t lone_barrier(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)args;
	(void)err;
	return COLL_SUCCESS;
}

static int32_t lone_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct lone *ep = malloc(sizeof(*ep));

	*out = ep;
	if (!ep)
		return err->code = COLL_ERR_NO_MEMORY;
	ep->host = host;
	return COLL_SUCCESS;
}

static void lone_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static int32_t lone_takes(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	if (args->kind != COLL_KIND_ALLREDUCE || !(args->flags & COLL_ARGS_IN_PLACE))
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "the engine has no allreduce in place");
	return err->code = COLL_ERR_UNSUPPORTED;
}

static const coll_native_t lone_native = {
	.size = sizeof(coll_native_t),
	.allreduce = lone_copy,
	.broadcast = lone_copy,
	.barrier = lone_barrier,
	.query = lone_query,
	.takes = lone_takes,
};

__attribute__((visibility("default"))) const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME,
	.name = "placed",
	.version = "1.0",
	.description = "no allreduce in place",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.native = &lone_native,
	.open = lone_open,
	.close = lone_close,
};
