/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx.c - the ucx backend: its table and its options; opening and closing an endpoint. */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static int32_t ucx_probe(const coll_host_t *host, coll_error_t *err)
{
	ucp_context_h context;
	int32_t code = ucx_library_open(host, err);

	if (!code)
		code = ucx_context_try(host, &context, err);
	if (!code)
		ucx_lib.ucp_cleanup(context);
	return code;
}

static void ucx_free(struct ucx *u)
{
	int outermost;

	ucx_log_handler_remove(u);
	ucx_wait_close(u);
	outermost = ucx_enter(u);
	if (u->worker)
		ucx_lib.ucp_worker_destroy(u->worker);
	ucx_leave(u, outermost);
	/* UCX completes its last frames while it destroys the worker, so it needs their type until then. */
	if (u->frame_type)
		ucx_lib.ucp_dt_destroy(u->frame_type);
	ucx_zcopy_free(u);
	if (u->context)
		ucx_lib.ucp_cleanup(u->context);
	ucx_free_deferred(u);
	ucx_gap_close(u);
	ucx_calls_close(u);
	free(u->addresses);
	free(u->record);
	free(u->peer);
	free(u);
}

static void ucx_close(void *ep, int64_t timeout_ms)
{
	const coll_host_t *before;
	struct ucx *u = ep;
	const coll_host_t *host = u->host;
	int outermost;

	before = ucx_log_begin(host);
	u->closing = 1;
	outermost = ucx_enter(u);
	if (u->worker && u->peer)
		ucx_peers_close(u, timeout_ms);
	ucx_leave(u, outermost);
	ucx_free(u);
	ucx_log_end(before);
}

/* Returns the most payload bytes of a frame that UCX sends in one piece over any of its transports. */
static uint64_t ucx_packed_size(ucp_worker_h worker)
{
	ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
	uint64_t least = 2048, payload = 0;

	/* The longest header that UCX accepts is one fragment minus UCX's own header. */
	if (ucx_lib.ucp_worker_query(worker, &attr) == UCS_OK &&
	    attr.max_am_header > sizeof(struct ucx_message_head))
		payload = (attr.max_am_header - sizeof(struct ucx_message_head)) / 64 * 64;
	return payload > least ? payload : least;
}

/* Adds the free space of /dev/shm to the text: UCX's own text does not say which memory has run out. */
static int32_t ucx_no_worker(ucs_status_t status, coll_error_t *err)
{
	char what[80] = "cannot make a UCX worker";
	struct statvfs shm;

	if (!statvfs("/dev/shm", &shm))
		snprintf(what, sizeof(what),
			 "cannot make a UCX worker, with %.3g MiB free in /dev/shm",
			 (double)shm.f_bavail * (double)shm.f_frsize / (1 << 20));
	return ucx_refused(err, status, what);
}

static int32_t ucx_open_worker(struct ucx *u, coll_error_t *err)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	ucs_status_t status = ucx_lib.ucp_worker_create(u->context, &params, &u->worker);

	if (status != UCS_OK) {
		u->worker = NULL;
		return ucx_no_worker(status, err);
	}
	status = ucx_lib.ucp_dt_create_generic(&ucx_frame_ops, NULL, &u->frame_type);
	if (status != UCS_OK) {
		u->frame_type = 0;
		return ucx_refused(err, status, "cannot make a UCX datatype");
	}
	u->packed = ucx_packed_size(u->worker);
	return ucx_set_handlers(u, err);
}

static int32_t ucx_new(const coll_host_t *host, struct ucx **out, coll_error_t *err)
{
	struct ucx *u = calloc(1, sizeof(*u));

	*out = u;
	if (!u)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	u->host = host;
	u->rank = host->rank;
	u->nranks = host->nranks;
	u->wait_fd = u->timer_fd = u->efd = -1;
	ucx_calls_open(u);
	u->deferred_end = &u->deferred;
	ucx_log_handler_add(u);
	u->zcopy = (uint64_t)host->option_int(host, "zcopy");
	u->mesh = (uint32_t)host->option_int(host, "mesh");
	u->peer = calloc(u->nranks, sizeof(*u->peer));
	u->record = calloc(u->nranks, sizeof(*u->record));
	if (!u->peer || !u->record)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", u->nranks);
	for (uint32_t i = 0; i < u->nranks; i++) {
		u->peer[i].rank = i;
		u->peer[i].pidfd = -1;
	}
	return ucx_library_open(u->host, err);
}

/* Makes the context and the worker. */
static int32_t ucx_start(struct ucx *u, coll_error_t *err)
{
	/* UCX's transports within a host need these. */
	const uint8_t needs = COLL_SHARES_PIDS | COLL_SHARES_FILES | COLL_SHARES_IPC;
	int one_host = kit_all_share(u->host, needs);
	int32_t code = ucx_context_open(u->host, u->nranks, one_host, &u->context, err);

	if (code)
		return code;
	u->memory = ucx_context_memory(u->context);
	u->registers = ucx_lacks_registrations();
	code = ucx_open_worker(u, err);
	return code ? code : ucx_wait_open(u, err);
}

/*
 * Does a rank share memory with this rank that UCX cannot wake?  UCX wakes it by a socket with an abstract name, which does
 * not reach beyond a network namespace.
 */
static int ucx_lacks_signals(const struct ucx *u)
{
	for (uint32_t i = 0; i < u->nranks; i++)
		if (i != u->rank && ucx_may_share_memory(u, i) &&
		    !kit_shares(u->host, i, COLL_SHARES_NETWORK))
			return 1;
	return 0;
}

/* Checks the resources that UCX needs.  A failure of one rank fails all ranks.  After that UCX may start its thread. */
static int32_t ucx_prepare(const coll_host_t *host, struct ucx **out, coll_error_t *err)
{
	struct ucx_thread thread = {.started = 0};
	int32_t code = ucx_new(host, out, err);

	if (code || host->nranks < 2)
		return host->nranks > 1 ? ucx_barrier(host, code, err) : code;
	code = ucx_barrier(host, ucx_thread_reserve(&thread, err), err);
	ucx_thread_release(&thread);
	(*out)->no_signals = ucx_lacks_signals(*out);
	return code;
}

/* Connects before the first message, so that open() fails if the transports of two ranks do not fit. */
static int32_t ucx_open_first(struct ucx *u, coll_error_t *err)
{
	int32_t code;
	int outermost;

	for (uint32_t i = 0; i < u->nranks; i++)
		if (i != u->rank && kit_shares(u->host, i, COLL_SHARES_PIDS))
			ucx_watch(u, ucx_peer_get(u, i));
	ucx_calls_map_all(u);
	outermost = ucx_enter(u);
	code = ucx_handshake(u, err);
	ucx_leave(u, outermost);
	return code;
}

static int32_t ucx_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	const coll_host_t *before;
	coll_error_t own = {.size = sizeof(own)};
	struct ucx *u = NULL;
	int32_t code;

	before = ucx_log_begin(host);
	code = ucx_prepare(host, &u, &own);
	if (!code) {
		code = ucx_start(u, &own);
		if (code)
			kit_exchange_fail(host, code, &own);
		else if (host->nranks > 1)
			code = ucx_exchange(u, &own);
	}
	if (!code && host->nranks > 1)
		code = ucx_barrier(host, ucx_open_first(u, &own), &own);
	ucx_log_end(before);
	if (code && u)
		ucx_close(u, 0);
	else if (u)
		ucx_calls_unpublish(u);
	*ep = code ? NULL : u;
	if (code && err) {
		own.size = err->size;
		memcpy(err, &own, sizeof(own) < own.size ? sizeof(own) : own.size);
	}
	return code;
}

static uint32_t ucx_memory(void *ep)
{
	const struct ucx *u = ep;

	return u->memory;
}

static const coll_option_t ucx_options[] = {
	{.key = "interface",
	 .unit = "",
	 .help = "network interface or address for TCP; unset: the option `interface`, or else all",
	 .type = COLL_OPTION_STRING},
	{.key = "keepalive",
	 .fallback = "2s",
	 .unit = "seconds",
	 .help = "interval of the probes for dead peers on other hosts; 0: never",
	 .max = (int64_t)86400 * 1000000,
	 .type = COLL_OPTION_DURATION},
	{.key = "mesh",
	 .fallback = "64",
	 .unit = "ranks",
	 .help = "number of ranks that connect at the start; more connect when they first need to",
	 .max = 1 << 20,
	 .type = COLL_OPTION_INT},
	{.key = "zcopy",
	 .fallback = "0",
	 .unit = "bytes",
	 .help = "length from which messages go memory to memory; 0: 256K over RDMA, else never",
	 .max = (int64_t)1 << 40,
	 .type = COLL_OPTION_BYTES},
};

static const coll_transport_t ucx_transport = {
	.size = sizeof(coll_transport_t),
	.send = ucx_send,
	.progress = ucx_progress,
	.cancel = ucx_cancel,
	.drop = ucx_drop,
	.wait_fd = ucx_wait_fd,
	.arm = ucx_arm,
	.mem_register = ucx_mem_register,
	.mem_deregister = ucx_mem_deregister,
	.memory = ucx_memory,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "ucx",
	.version = "1.3",
	.description = "RDMA, shared memory and TCP by UCX's own choice",
	.priority = 50,
	.memory = COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED,
	.options = ucx_options,
	.option_count = sizeof(ucx_options) / sizeof(ucx_options[0]),
	.option_size = sizeof(coll_option_t),
	.transport = &ucx_transport,
	.probe = ucx_probe,
	.open = ucx_open,
	.close = ucx_close,
	.info = ucx_info,
};
