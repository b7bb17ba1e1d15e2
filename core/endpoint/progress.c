/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - drives one endpoint: its messages in, the client's operations on, and control messages out. */
#include "base/cancel.h"
#include "endpoint/context.h"

#include <string.h>
#include <unistd.h>

/* -------------------------------------------------------------- control messages -- */

static void context_send_body(struct context *context, int peer, uint64_t tag,
			      const struct control_body *body, const void *bytes, size_t len)
{
	if (context->client->send)
		context->client->send(context, peer, tag, body, bytes, len);
}

void context_send_control(struct context *context, int peer, uint64_t tag, int kind, int code,
			  const char *text)
{
	const struct control_body body = {.kind = kind, .code = code};

	context_send_body(context, peer, tag, &body, text, strlen(text) + 1);
}

void context_send_struct(struct context *context, int peer, uint64_t tag, int kind,
			 const void *bytes, size_t len)
{
	const struct control_body body = {.kind = kind};

	context_send_body(context, peer, tag, &body, bytes, len);
}

/* ----------------------------------------------------------------------- driving -- */

int context_send_more(struct context *context, coll_send_t *send, coll_error_t *err)
{
	const coll_transport_t *t = context->plugin->backend.transport;

	if (!t->send_more)
		return t->send(context->ep, send, err);
	context->unflushed = 1;
	return t->send_more(context->ep, send, err);
}

int context_take_news(struct context *context)
{
	const int notified = atomic_load_explicit(&context->notice.news, memory_order_relaxed) &&
			     atomic_exchange(&context->notice.news, 0);
	const int pending = context->pending_events;

	context->pending_events = 0;
	return pending | notified;
}

/* 1: control messages came or went. */
static int context_take(struct context *context)
{
	if (context->client->take)
		return context->client->take(context);
	if (context_take_news(context))
		context_check(context);
	return 0;
}

int context_progress(struct context *context)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	int moved = 0, controls;

	if (t)
		moved = context->ep ? t->progress(context->ep) : 0;
	else if (!context->busy && context_rests(context))
		context->client->rest(context);
	controls = context_take(context);
	moved |= controls;
	/* The flush completes most sends, and so the steps that waited for them. */
	do
		moved |= context->client->advance(context);
	while (context_flush(context));
	if (context->sleepers_have_news && context->sleepers)
		context_wake(context);
	context->sleepers_have_news = 0;
	context->progress_count += moved != 0;
	context->control_count += controls != 0;
	return moved;
}

void context_wake(struct context *context)
{
	CANCEL_OFF;
	uint64_t one = 1;
	ssize_t n = write(context->waits.wake_fd, &one, sizeof(one));

	(void)n; /* a full counter means that a wake-up is already due */
}

void context_notify(struct context *context)
{
	atomic_store(&context->notice.news, 1);
	context_wake(context);
}

void context_failed(struct context *context)
{
	atomic_store(&context->notice.ended, 1);
	context_notify(context);
	if (context->client->failed)
		context->client->failed(context);
}
