/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_frozen.c - a plugin as it was written for ABI 1.0, built against the frozen header, to be
 * loaded by every later libcoll.  It uses something of every struct of 1.0, and complains of what
 * it finds in a wrong place.  Frozen like the header.
 */
#include "backend_v1_0.h"
#include "inbox.h"

#include <inttypes.h>

static const coll_option_t frozen_options[] = {
	{.key = "greeting", .fallback = "hello", .unit = "", .help = "any text"},
	{.key = "lanes",
	 .fallback = "3",
	 .unit = "",
	 .help = "a number",
	 .min = 1,
	 .max = 8,
	 .type = COLL_OPTION_INT},
	{.key = "loud",
	 .fallback = "yes",
	 .unit = "",
	 .help = "a choice",
	 .type = COLL_OPTION_BOOL},
	{.key = "room",
	 .fallback = "2K",
	 .unit = "bytes",
	 .help = "a size",
	 .min = 0,
	 .max = 1 << 20,
	 .type = COLL_OPTION_BYTES},
	{.key = "pause",
	 .fallback = "5ms",
	 .unit = "seconds",
	 .help = "a time",
	 .min = 0,
	 .max = 1000000,
	 .type = COLL_OPTION_DURATION},
};

static int32_t frozen_probe(const coll_host_t *host, coll_error_t *err)
{
	if (host->size < sizeof(*host))
		return inbox_fail(err, COLL_ERR_ABI, "the host is smaller than that of ABI 1.0");
	if (err->size < sizeof(*err))
		return inbox_fail(err, COLL_ERR_ABI, "the error is smaller than that of ABI 1.0");
	if (host->option_int(host, "pause") != 5000 || host->option_int(host, "room") != 2048)
		return inbox_fail(err, COLL_ERR_INTERNAL, "the options were misread");
	host->log(host, COLL_LOG_TRACE, "probed");
	return COLL_SUCCESS;
}

static int32_t frozen_info(const coll_host_t *host, char *buf, uint64_t size)
{
	snprintf(buf, size, "%s, %" PRId64 " lanes, loud %" PRId64,
		 host->option_string(host, "greeting"), host->option_int(host, "lanes"),
		 host->option_int(host, "loud"));
	return COLL_SUCCESS;
}

/* All ranks can compute the same proof of the secret that they share. */
static int32_t frozen_check_key(const coll_host_t *host, coll_error_t *err)
{
	uint8_t own[16], *all = host->alloc(host, host->nranks * sizeof(own));
	int32_t code;

	host->mac(host, "proof", 5, own);
	if (!all)
		return inbox_fail(err, COLL_ERR_NO_MEMORY, "no memory for proofs");
	code = host->exchange(host, own, all, sizeof(own), host->timeout_ms, err);
	for (uint32_t r = 0; r < host->nranks && !code; r++)
		if (memcmp(all + r * sizeof(own), own, sizeof(own)) != 0)
			code = inbox_fail(err, COLL_ERR_PERMISSION, "a rank has another key");
	host->free(host, all, host->nranks * sizeof(own));
	return code;
}

static int32_t frozen_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	const int32_t left[2] = {40, 5}, right[2] = {2, 1};
	int32_t sum[2] = {0, 0}, code = inbox_open(host, ep, err);

	if (!code)
		code = frozen_check_key(host, err);
	if (!code && (host->rank >= host->nranks || host->aborted(host)))
		code = inbox_fail(err, COLL_ERR_INTERNAL, "the host was misread");
	if (!code && (host->reduce(host, sum, left, right, 2, COLL_INT32, COLL_SUM) ||
		      sum[0] != 42 || sum[1] != 6))
		code = inbox_fail(err, COLL_ERR_INTERNAL, "the host's reduce was misread");
	return code;
}

/* Sends are complete at once and messages arrive whole: there is never anything to give up. */
static void frozen_cancel(void *ep, coll_send_t *send)
{
	(void)ep;
	(void)send;
}

static void frozen_drop(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

/* A native slot that leaves the work to the core, once it has read its arguments. */
static int32_t frozen_broadcast(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct inbox_ep *own = ep;

	if (args->size < sizeof(*args) || args->kind != COLL_KIND_BROADCAST || !args->recvbuf ||
	    args->count > 1 << 20 || args->root < 0 || (uint32_t)args->root >= own->host->nranks ||
	    args->stream || args->scalar)
		return inbox_fail(err, COLL_ERR_INTERNAL, "the arguments were misread");
	return inbox_fail(err, COLL_ERR_UNSUPPORTED, "left to the core");
}

static int32_t frozen_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

static void *frozen_handle(void *ep)
{
	return ep;
}

static const coll_transport_t frozen_transport = {
	.size = sizeof(coll_transport_t),
	.send = inbox_send,
	.progress = inbox_progress,
	.cancel = frozen_cancel,
	.drop = frozen_drop,
	.wait_fd = inbox_wait_fd,
	.arm = inbox_arm,
};

static const coll_native_t frozen_native = {
	.size = sizeof(coll_native_t),
	.broadcast = frozen_broadcast,
	.query = frozen_query,
	.handle = frozen_handle,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME,
	.name = "frozen",
	.version = "1.0",
	.description = "built against the header of ABI 1.0",
	.priority = 2,
	.memory = COLL_MEM_HOST,
	.options = frozen_options,
	.option_count = sizeof(frozen_options) / sizeof(frozen_options[0]),
	.option_size = sizeof(coll_option_t),
	.transport = &frozen_transport,
	.native = &frozen_native,
	.probe = frozen_probe,
	.open = frozen_open,
	.close = inbox_close,
	.info = frozen_info,
};
