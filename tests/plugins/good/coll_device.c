/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_device.c - a transport within one process that takes CUDA memory, and verifies the kinds of
 * memory that the core declares: the kind of each send and each receive buffer must be the one that
 * the driver reports.
 */
#include <coll/backend.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_PIECE = 1000 };

struct device_message {
	struct device_message *next;
	uint32_t from;
	coll_header_t header;
	char data[];
};

struct device_box {
	pthread_mutex_t lock;
	struct device_message *first, **end;
	int closed;
};

struct device_world {
	_Atomic int refs;
	struct device_box box[];
};

struct device_ep {
	const coll_host_t *host;
	struct device_world *world;
	struct device_box *box;
	uint8_t *lost; /* per rank */
};

static const coll_option_t device_options[] = {
	{.key = "takes",
	 .fallback = "cuda",
	 .unit = "",
	 .help = "host, cuda (both) or all (more than the table says)"},
	{.key = "by_data",
	 .fallback = "no",
	 .unit = "",
	 .help = "hand everything to the core in pieces",
	 .type = COLL_OPTION_BOOL},
};

static int device_fail(coll_error_t *err, int code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

/* Is the memory of the kind that the core declares? */
static int device_is(const struct device_ep *ep, const void *ptr, uint32_t kind)
{
	int32_t device;

	return (ep->host->memory_kind ? ep->host->memory_kind(ep->host, ptr, &device)
				      : COLL_MEM_HOST) == kind;
}

static int device_copy(const struct device_ep *ep, void *dst, const void *src, uint64_t n,
		       uint32_t kinds, coll_error_t *err)
{
	if (kinds != COLL_MEM_HOST)
		return ep->host->copy(ep->host, dst, src, n, err);
	memcpy(dst, src, n);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ messages -- */

/* Send copies every message, so the send is complete at once. */
static int32_t device_send(void *ep_, coll_send_t *send, coll_error_t *err)
{
	struct device_ep *ep = ep_;
	struct device_box *to = &ep->world->box[send->peer];
	struct device_message *m = malloc(sizeof(*m) + send->header.len);
	int code = COLL_SUCCESS;

	if (!m)
		return device_fail(err, COLL_ERR_NO_MEMORY, "no memory for a message");
	*m = (struct device_message){.from = ep->host->rank, .header = send->header};
	if (send->header.len && !device_is(ep, send->buf, send->memory))
		code = device_fail(err, COLL_ERR_INTERNAL, "a send's memory is not what it says");
	if (!code && send->header.len)
		code = device_copy(ep, m->data, send->buf, send->header.len, send->memory, err);
	pthread_mutex_lock(&to->lock);
	if (!code && to->closed)
		code = device_fail(err, COLL_ERR_PEER_LOST, "the rank has closed");
	if (!code) {
		*to->end = m;
		to->end = &m->next;
	}
	pthread_mutex_unlock(&to->lock);
	if (code)
		free(m);
	else
		send->status = COLL_SUCCESS;
	return code;
}

static int device_deliver(struct device_ep *ep, const struct device_message *m,
			  const coll_sink_t *sink)
{
	const coll_host_t *host = ep->host;
	coll_error_t err = {.size = sizeof(err)};
	uint64_t n = m->header.len, at = 0;

	if (sink->buf && n && !device_is(ep, sink->buf, sink->memory)) {
		host->log(host, COLL_LOG_ERROR, "a sink's memory is not what it says");
		return COLL_ERR_INTERNAL;
	}
	if (sink->buf && !host->option_int(host, "by_data")) {
		int code = n ? device_copy(ep, sink->buf, m->data, n, sink->memory, &err) : 0;

		if (code)
			host->log(host, COLL_LOG_ERROR, err.text);
		return code;
	}
	for (; at < n; at += DEVICE_PIECE)
		host->data(host, sink->cookie, m->data + at,
			   n - at < DEVICE_PIECE ? n - at : DEVICE_PIECE);
	return COLL_SUCCESS;
}

static int device_receive(struct device_ep *ep)
{
	struct device_message *m;
	coll_sink_t sink;

	pthread_mutex_lock(&ep->box->lock);
	m = ep->box->first;
	if (m) {
		ep->box->first = m->next;
		if (!m->next)
			ep->box->end = &ep->box->first;
	}
	pthread_mutex_unlock(&ep->box->lock);
	if (m && !ep->host->arrive(ep->host, m->from, &m->header, &sink))
		ep->host->arrived(ep->host, sink.cookie, device_deliver(ep, m, &sink));
	free(m);
	return m != NULL;
}

static int32_t device_progress(void *ep_)
{
	struct device_ep *ep = ep_;
	uint8_t closed[256] = {0};
	int moved = 0;

	/*
	 * Looks for closed ranks first: messages that a rank sent before it closed are then in the
	 * inbox.
	 */
	for (uint32_t r = 0; r < ep->host->nranks; r++) {
		pthread_mutex_lock(&ep->world->box[r].lock);
		closed[r] = ep->world->box[r].closed && !ep->lost[r];
		pthread_mutex_unlock(&ep->world->box[r].lock);
	}
	while (device_receive(ep))
		moved = 1;
	for (uint32_t r = 0; r < ep->host->nranks; r++)
		if (closed[r]) {
			ep->lost[r] = 1;
			ep->host->peer_lost(ep->host, r, "it has closed");
		}
	return moved;
}

/* A message is never half sent or half received. */
static void device_cancel(void *ep, coll_send_t *send)
{
	(void)ep;
	(void)send;
}

static void device_drop(void *ep, uint64_t cookie)
{
	(void)ep;
	(void)cookie;
}

/* -------------------------------------------------------------------- memory -- */

static uint32_t device_memory(void *ep_)
{
	const struct device_ep *ep = ep_;
	const char *takes = ep->host->option_string(ep->host, "takes");

	return !strcmp(takes, "host")   ? COLL_MEM_HOST
	       : !strcmp(takes, "cuda") ? COLL_MEM_HOST | COLL_MEM_CUDA
					: COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED;
}

/* The handle encodes the arguments. */
static int32_t device_register(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
			       coll_error_t *err)
{
	(void)bytes;
	if (!device_is(ep, ptr, memory))
		return device_fail(err, COLL_ERR_INTERNAL, "registered as what it is not");
	*handle = (void *)(uintptr_t)memory;
	return COLL_SUCCESS;
}

static void device_deregister(void *ep, void *handle)
{
	(void)ep;
	(void)handle;
}

/* -------------------------------------------------------------- open and close -- */

static struct device_world *device_make_world(uint32_t nranks)
{
	struct device_world *world = calloc(1, sizeof(*world) + nranks * sizeof(world->box[0]));

	if (!world)
		return NULL;
	atomic_store(&world->refs, (int)nranks);
	for (uint32_t r = 0; r < nranks; r++) {
		pthread_mutex_init(&world->box[r].lock, NULL);
		world->box[r].end = &world->box[r].first;
	}
	return world;
}

static int32_t device_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct device_ep *ep = calloc(1, sizeof(*ep));
	uint64_t own = 0, all[256];
	int code;

	*out = ep;
	if (!ep || host->nranks > 256)
		return device_fail(err, COLL_ERR_NO_MEMORY, "no memory, or too many ranks");
	ep->host = host;
	ep->lost = calloc(host->nranks, 1);
	if (host->rank == 0)
		own = (uintptr_t)device_make_world(host->nranks);
	code = host->exchange(host, &own, all, sizeof(own), host->timeout_ms, err);
	if (code || !all[0] || !ep->lost)
		return code ? code : device_fail(err, COLL_ERR_NO_MEMORY, "no memory");
	ep->world = (struct device_world *)(uintptr_t)all[0];
	ep->box = &ep->world->box[host->rank];
	return COLL_SUCCESS;
}

static void device_empty(struct device_box *box)
{
	struct device_message *next;

	for (struct device_message *m = box->first; m; m = next) {
		next = m->next;
		free(m);
	}
	box->first = NULL;
	box->end = &box->first;
}

static void device_close(void *ep_, int64_t timeout_ms)
{
	struct device_ep *ep = ep_;

	(void)timeout_ms;
	if (ep->world) {
		pthread_mutex_lock(&ep->box->lock);
		ep->box->closed = 1;
		device_empty(ep->box);
		pthread_mutex_unlock(&ep->box->lock);
		if (atomic_fetch_sub(&ep->world->refs, 1) == 1)
			free(ep->world);
	}
	free(ep->lost);
	free(ep);
}

static const coll_transport_t device_transport = {
	.size = sizeof(coll_transport_t),
	.send = device_send,
	.progress = device_progress,
	.cancel = device_cancel,
	.drop = device_drop,
	.mem_register = device_register,
	.mem_deregister = device_deregister,
	.memory = device_memory,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME,
	.name = "device",
	.version = "1.0",
	.description = "takes CUDA memory, within one process",
	.priority = 1,
	.memory = COLL_MEM_HOST | COLL_MEM_CUDA,
	.options = device_options,
	.option_count = 2,
	.option_size = sizeof(coll_option_t),
	.transport = &device_transport,
	.open = device_open,
	.close = device_close,
};
