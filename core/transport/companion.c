/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion.c - the endpoint beside a native backend: opening and closing it, and the control messages of contexts, which
 * go over their own endpoint or over that one.
 */
#include "transport/companion_impl.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { COMPANION_LEAVE_MS = 1000 /* longest wait until the other ranks have COMPANION_LEAVE */ };

/* ----------------------------------------------------------------------- sending -- */

/* Any thread may call it, with or without the context's lock. */
static void companion_send(const struct context *context, int peer, const struct control_body *body,
			   const void *bytes, size_t len)
{
	struct companion *c = context->companion;
	const struct control_body carry = {.kind = COMPANION_CARRY};
	const size_t size = sizeof(struct companion_letter) + len;
	struct companion_letter *letter = malloc(size);

	if (!letter)
		return;
	letter->channel = context->channel;
	letter->body = *body;
	memcpy(letter->body.text, bytes, len);
	context_lock(c->context);
	endpoint_send_control(c->context, companion_rank(context, peer), MATCH_CONTROL, &carry,
			      letter, size);
	lock_release(&c->context->lock);
	companion_wake(c);
	free(letter);
}

static void context_send_body(struct context *context, int peer, uint64_t tag,
			      const struct control_body *body, const void *bytes, size_t len)
{
	if (context->plugin->backend.transport)
		endpoint_send_control(context, peer, tag, body, bytes, len);
	else if (context->companion)
		companion_send(context, peer, body, bytes, len);
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

/* The companion's context has no operations and no communicators. */
static void companion_received(struct recv *recv)
{
	(void)recv;
}

static int companion_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n)
{
	(void)recv;
	(void)dst;
	(void)bytes;
	(void)n;
	return COLL_ERR_INTERNAL;
}

static int companion_check_unexpected(struct context *context, uint32_t peer,
				      const coll_header_t *header)
{
	(void)context;
	(void)peer;
	return header->tag != MATCH_CONTROL;
}

static int companion_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return COLL_SUCCESS;
}

static void companion_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			       const coll_header_t *header)
{
	(void)context;
	(void)recv;
	(void)peer;
	(void)header;
}

static void companion_check(struct context *context)
{
	(void)context; /* companion_look follows every round */
}

static int companion_advance(struct context *context)
{
	(void)context;
	return 0;
}

static int companion_idle(const struct context *context)
{
	(void)context;
	return 0;
}

static int companion_ends(int kind)
{
	(void)kind;
	return 0;
}

static int64_t companion_due(const struct context *context)
{
	(void)context;
	return INT64_MAX;
}

static const struct context_client companion_client = {
	.received = companion_received,
	.fill = companion_fill,
	.no_memory = companion_no_memory,
	.check_unexpected = companion_check_unexpected,
	.mismatch = companion_mismatch,
	.check = companion_check,
	.controls = companion_check,
	.advance = companion_advance,
	.look = companion_advance,
	.shut = companion_check,
	.awaits = companion_idle,
	.due = companion_due,
	.busy = companion_idle,
	.ends = companion_ends,
};

/* ------------------------------------------------------------- opening and closing -- */

static void companion_free(struct companion *c, int64_t timeout_ms)
{
	if (c->context)
		context_withdraw(c->context, timeout_ms);
	companion_free_letters(c->early);
	free(c->left);
	free((void *)c->lost);
	free(c);
}

/* Opens the endpoint of this rank. */
static int companion_begin(struct companion *c, const struct context_parts *parts)
{
	const size_t n = (size_t)bootstrap_nranks(parts->bootstrap);
	int code = context_make(&c->context, parts);

	c->left = calloc(n, sizeof(*c->left));
	c->lost = calloc(n, sizeof(*c->lost));
	if (!code && (!c->left || !c->lost))
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %zu ranks", n);
	if (!code)
		code = context_open(c->context);
	return code ? code : companion_watch_begin(c);
}

int companion_open(struct context *context, const struct plugin *plugin)
{
	const struct context_parts parts = {.client = &companion_client,
					    .bootstrap = context->bootstrap,
					    .config = context->config,
					    .plugin = plugin,
					    .selection = context->selection,
					    .device = -1};
	struct companion *c = calloc(1, sizeof(*c));
	struct error_first first = {0};
	int code = c ? companion_begin(c, &parts)
		     : error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");

	error_note(&first, context_all_ok(c ? c->context : NULL, context->bootstrap, code,
					  context->host.timeout_ms));
	if (first.code && c) {
		companion_watch_end(c);
		companion_free(c, 0);
	} else if (!first.code) {
		context->companion = c;
	}
	bootstrap_watch(context->bootstrap, &context->aborted); /* the companion's context had it */
	return error_raise(&first);
}

static int companion_is_sending(const struct companion *c)
{
	context_progress(c->context);
	return context_controls_pending(c->context);
}

/* Tells the other ranks once that this rank leaves; returns the deadline for what the caller does next. */
static int64_t companion_say_leave(struct companion *c, int64_t timeout_ms)
{
	const int64_t most = timeout_ms < COMPANION_LEAVE_MS ? timeout_ms : COMPANION_LEAVE_MS;
	const int64_t deadline = clock_deadline(most);

	context_lock(c->context);
	if (!c->has_left)
		companion_tell(c, COMPANION_LEAVE);
	c->has_left = 1;
	while (companion_is_sending(c) && clock_remaining(deadline) > 0)
		clock_nap(1000);
	lock_release(&c->context->lock);
	return deadline;
}

void companion_leave(struct context *context, int64_t timeout_ms)
{
	struct companion *c = context->companion;

	if (!c)
		return;
	companion_forget(context);
	if (!companion_watches(c))
		companion_say_leave(c, timeout_ms);
}

void companion_close(struct companion *c, int64_t timeout_ms)
{
	int64_t deadline;

	companion_watch_end(c);
	deadline = companion_say_leave(c, timeout_ms);
	companion_free(c, clock_remaining(deadline));
}
