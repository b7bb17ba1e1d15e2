/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic.c - the traffic of an endpoint: how it begins and ends, its control messages, and the functions of the host
 * table by which a plugin hands over messages, reduces them and copies them.
 */
#include "transport/traffic.h"
#include "device/device.h"
#include "base/error.h"
#include "reduce/reduce.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------ the functions for a plugin -- */

static int32_t host_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   coll_sink_t *sink)
{
	if (peer >= host->nranks)
		return COLL_ERR_INTERNAL;
	return match_arrive(&traffic_of(host->core)->match, peer, header, sink);
}

static int32_t host_posted(const coll_host_t *host, uint32_t peer, const coll_header_t *header)
{
	return match_posted(&traffic_of(host->core)->match, peer, header);
}

static void host_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	match_data(&traffic_of(host->core)->match, cookie, bytes, n);
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	enum { GIVEN_UP_MINOR = 6 };
	struct context *context = host->core;

	/* A plugin of an older minor means that the message has failed. */
	if (status == COLL_ERR_ABORTED && context->plugin->backend.abi_minor < GIVEN_UP_MINOR)
		status = COLL_ERR_REMOTE;
	match_arrived(&traffic_of(context)->match, cookie, status);
}

static int32_t host_message(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			    const void *bytes)
{
	if (peer >= host->nranks)
		return COLL_ERR_INTERNAL;
	return match_message(&traffic_of(host->core)->match, peer, header, bytes);
}

static int32_t host_reduce(const coll_host_t *host, void *dst, const void *left, const void *right,
			   uint64_t count, int32_t dtype, int32_t op)
{
	(void)host;
	if (!reduce_supports(dtype, op))
		return COLL_ERR_UNSUPPORTED;
	reduce(dst, left, right, count, dtype, op);
	return COLL_SUCCESS;
}

static uint32_t host_memory_kind(const coll_host_t *host, const void *ptr, int32_t *device)
{
	int ordinal;
	uint32_t kind = device_kind(ptr, &ordinal);

	(void)host;
	*device = ordinal;
	return kind ? kind : COLL_MEM_HOST;
}

static int32_t host_copy(const coll_host_t *host, void *dst, const void *src, uint64_t n,
			 coll_error_t *err)
{
	int code = device_copy(dst, src, n);

	(void)host;
	return code ? error_fill(err, code, "%s", error_text()) : COLL_SUCCESS;
}

/* -------------------------------------------------------------- control messages -- */

/* A control message that is being sent. */
struct control {
	struct control *next;
	coll_send_t send;
	struct control_body *body;
};

void traffic_send_control(struct context *context, int peer, uint64_t tag,
			  const struct control_body *body, const void *bytes, size_t len)
{
	struct traffic *traffic = traffic_of(context);
	struct control *n = calloc(1, sizeof(*n));
	coll_error_t err;

	error_clear(&err);
	if (n)
		n->body = malloc(sizeof(*n->body) + len);
	if (!n || !n->body || !context->ep || context->failure[peer]) {
		free(n ? n->body : NULL);
		free(n);
		return;
	}
	*n->body = *body;
	memcpy(n->body->text, bytes, len);
	n->send.header.tag = tag;
	n->send.header.len = sizeof(*n->body) + len;
	n->send.buf = n->body;
	n->send.peer = (uint32_t)peer;
	n->send.memory = COLL_MEM_HOST;
	n->send.status = COLL_IN_PROGRESS;
	n->next = traffic->controls;
	traffic->controls = n;
	if (context->plugin->backend.transport->send(context->ep, &n->send, &err))
		n->send.status = COLL_ERR_PEER_LOST; /* reaped with the completed messages */
}

int traffic_reap_controls(struct context *context)
{
	int moved = 0;

	for (struct control **at = &traffic_of(context)->controls; *at;) {
		struct control *n = *at;

		if (n->send.status == COLL_IN_PROGRESS) {
			at = &n->next;
			continue;
		}
		*at = n->next;
		free(n->body);
		free(n);
		moved = 1;
	}
	return moved;
}

/* A closed endpoint will never send its control messages. */
int traffic_is_sending(struct context *context)
{
	traffic_reap_controls(context);
	return context->ep && traffic_of(context)->controls;
}

static void traffic_drop_controls(struct traffic *traffic)
{
	struct control *next;

	for (struct control *n = traffic->controls; n; n = next) {
		next = n->next;
		free(n->body);
		free(n);
	}
	traffic->controls = NULL;
}

/* ------------------------------------------------------------- its begin and end -- */

/* The functions of the host table that concern messages and memory. */
static void traffic_fill_host(coll_host_t *host, int devices)
{
	host->arrive = host_arrive;
	host->data = host_data;
	host->arrived = host_arrived;
	host->posted = host_posted;
	host->message = host_message;
	host->reduce = host_reduce;
	if (devices) {
		host->memory_kind = host_memory_kind;
		host->copy = host_copy;
	}
}

void traffic_begin(struct context *context, const struct context_parts *parts,
		   const struct traffic_client *client)
{
	const struct context *parent = context->parent;
	struct traffic *traffic = traffic_of(context);

	traffic->client = client;
	context->devices = device_open();
	traffic_fill_host(&context->host, context->devices);
	match_init(&traffic->match);
	traffic->match.check_unexpected = client->check_unexpected;
	traffic->match.mismatch = client->mismatch;
	traffic->match.no_memory = client->no_memory;
	traffic->match.fill = client->fill;
	traffic->match.context = context;
	traffic->selection = parent ? traffic_of(parent)->selection : *parts->selection;
	traffic->channel = parent ? traffic_of(parent)->channel : NULL;
	traffic->home.device = parts->device_named ? parts->device : -1;
}

/* If the application left the choice of the device to the backend, only the backend knows it. */
void traffic_opened(struct context *context)
{
	const coll_native_t *native = context->plugin->backend.native;

	if (native && native->device)
		traffic_of(context)->home.device = context->device;
}

void traffic_free(struct context *context)
{
	struct traffic *traffic = traffic_of(context);

	traffic_drop_controls(traffic);
	match_free(&traffic->match);
	copies_free(&traffic->copies);
	stream_home_leave(&traffic->home);
}
