/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - drives one endpoint: its messages in, the client's operations on, and control messages out. */
#include "base/cancel.h"
#include "base/error.h"
#include "transport/context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -------------------------------------------------------------- control messages -- */

/* A control message that is being sent. */
struct control {
	struct control *next;
	coll_send_t send;
	struct control_body *body;
};

void endpoint_send_control(struct context *context, int peer, uint64_t tag,
			   const struct control_body *body, const void *bytes, size_t len)
{
	struct control *n = calloc(1, sizeof(*n));
	coll_error_t err = error_blank();

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
	n->next = context->controls;
	context->controls = n;
	if (context->plugin->backend.transport->send(context->ep, &n->send, &err))
		n->send.status = COLL_ERR_PEER_LOST; /* reaped with the others */
}

static int context_reap_controls(struct context *context)
{
	int moved = 0;

	for (struct control **at = &context->controls; *at;) {
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

int context_controls_pending(struct context *context)
{
	context_reap_controls(context);
	return context->controls != NULL;
}

void context_drop_controls(struct context *context)
{
	struct control *next;

	for (struct control *n = context->controls; n; n = next) {
		next = n->next;
		free(n->body);
		free(n);
	}
	context->controls = NULL;
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

static int context_has_alarm(const struct context *context)
{
	return atomic_load_explicit(&context->alarm.news, memory_order_relaxed);
}

/* Has the watcher news since the last call? */
static int context_is_alarmed(struct context *context)
{
	return context_has_alarm(context) && atomic_exchange(&context->alarm.news, 0);
}

/* 1: control messages have come. */
static int context_take_news(struct context *context)
{
	const int alarmed = context_is_alarmed(context), controls = context->match.controls != 0;

	if (context->pending_events || alarmed || !controls) {
		context->pending_events = 0;
		context->client->check(context);
	} else {
		context->client->controls(context);
	}
	context->match.controls = 0;
	return controls;
}

int context_progress(struct context *context)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	struct recv *recv;
	int moved = 0, controls = 0;

	if (context->ep && t)
		moved = t->progress(context->ep);
	while ((recv = match_next_done(&context->match)))
		context->client->received(recv);
	if (context->pending_events || context->match.controls || context_has_alarm(context))
		controls = context_take_news(context);
	if (context->controls)
		controls |= context_reap_controls(context);
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
	ssize_t n = write(context->wake_fd, &one, sizeof(one));

	(void)n; /* a full counter means that a wake-up is already due */
}

void context_notify(struct context *context)
{
	atomic_store(&context->alarm.news, 1);
	context_wake(context);
}
