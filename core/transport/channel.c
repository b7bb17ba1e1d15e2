/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c - opens and closes the endpoints beside a native backend, and sends the control messages of contexts. */
#include "transport/channel_impl.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { CHANNEL_LEAVE_MS = 1000 /* longest wait until the other ranks have WATCHER_LEAVE */ };

/* ----------------------------------------------------------------------- sending -- */

void channel_send(struct context *context, int peer, uint64_t tag, const struct control_body *body,
		  const void *bytes, size_t len)
{
	struct channel *c = traffic_of(context)->channel;

	if (context->plugin->backend.transport) {
		traffic_send_control(context, peer, tag, body, bytes, len);
		return;
	}
	if (!c)
		return;
	context_lock(c->control); /* any thread may come here, with or without the context's lock */
	traffic_send_control(c->control, channel_rank(context, peer), tag, body, bytes, len);
	lock_release(&c->control->lock);
	channel_wake(c);
}

/* ------------------------------------------------------------- opening and closing -- */

static int channel_check_unexpected(struct context *control, uint32_t peer,
				    const coll_header_t *header)
{
	return !(header->tag & MATCH_CONTROL) ||
	       traffic_of(control)->client->check_unexpected(control, peer, header);
}

/* A control message that is lost is no reason to lose the rank. */
static int channel_no_memory(struct context *control, uint32_t peer, const coll_header_t *header)
{
	(void)control;
	(void)peer;
	(void)header;
	return COLL_SUCCESS;
}

/*
 * Makes and opens a context of `plugin` for the ranks of another context, whose bootstrap and configuration it uses.  controls:
 * for control messages only.
 */
static int channel_open_context(struct context **out, const struct context *context,
				const struct plugin *plugin, int controls)
{
	const struct context_parts parts = {.client = context->client,
					    .bootstrap = context->bootstrap,
					    .config = context->config,
					    .plugin = plugin,
					    .selection = &traffic_of(context)->selection,
					    .node_size = context->node_size,
					    .device = -1};
	const int code = context_make(out, &parts);

	if (code)
		return code;
	traffic_of(*out)->home.device = traffic_of(context)->home.device;
	if (controls) {
		traffic_of(*out)->match.check_unexpected = channel_check_unexpected;
		traffic_of(*out)->match.no_memory = channel_no_memory;
	}
	return context_open(*out);
}

static int channel_begin(struct channel *c, const struct context *context,
			 const struct plugin *plugin)
{
	const size_t n = (size_t)context->nranks;
	int code = channel_open_context(&c->control, context, plugin, 1);

	c->left = calloc(n, sizeof(*c->left));
	c->lost = calloc(n, sizeof(*c->lost));
	if (!code && (!c->left || !c->lost))
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %zu ranks", n);
	return code ? code : watcher_begin(c);
}

static void channel_free(struct channel *c, int64_t timeout_ms)
{
	if (c->control)
		context_withdraw(c->control, timeout_ms);
	free(c->left);
	free((void *)c->lost);
	free(c);
}

static int channel_open_control(struct context *context, const struct plugin *plugin)
{
	struct channel *c = calloc(1, sizeof(*c));
	struct error_first first = {0};
	int code = c ? channel_begin(c, context, plugin)
		     : error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");

	error_note(&first, context_all_ok(c ? c->control : NULL, context->bootstrap, code,
					  context->host.timeout_ms));
	if (first.code && c) {
		watcher_end(c);
		channel_free(c, 0);
	} else if (!first.code) {
		traffic_of(context)->channel = c;
	}
	return error_raise(&first);
}

static void channel_close_host(struct context *host_context, int64_t timeout_ms)
{
	wait_thread_stop(host_context);
	context_withdraw(host_context, timeout_ms);
}

static int channel_open_host(struct context *context, const struct plugin *plugin)
{
	struct context *host = NULL;
	struct error_first first = {0};
	const int code = channel_open_context(&host, context, plugin, 0);

	error_note(&first,
		   context_all_ok(host, context->bootstrap, code, context->host.timeout_ms));
	if (first.code && host)
		channel_close_host(host, 0);
	else if (!first.code)
		context->host_context = host;
	return error_raise(&first);
}

static int channel_is_sending(const struct channel *c)
{
	context_progress(c->control);
	return traffic_is_sending(c->control);
}

/* Tells the other ranks once that this rank leaves; returns the deadline for what the caller does next. */
static int64_t channel_say_leave(struct channel *c, int64_t timeout_ms)
{
	const int64_t most = timeout_ms < CHANNEL_LEAVE_MS ? timeout_ms : CHANNEL_LEAVE_MS;
	const int64_t deadline = clock_deadline(most);

	context_lock(c->control);
	if (!c->has_left)
		watcher_tell_ranks(c, WATCHER_LEAVE);
	c->has_left = 1;
	while (channel_is_sending(c) && clock_remaining(deadline) > 0)
		clock_nap(1000);
	lock_release(&c->control->lock);
	return deadline;
}

static void channel_close_control(struct channel *c, int64_t timeout_ms)
{
	int64_t deadline;

	watcher_end(c);
	deadline = channel_say_leave(c, timeout_ms);
	channel_free(c, clock_remaining(deadline));
}

int channel_open(struct context *context, const struct plugin *plugin)
{
	struct traffic *traffic = traffic_of(context);
	struct error_first first = {0};

	if (context->nranks > 1)
		error_note(&first, channel_open_control(context, plugin));
	if (!first.code && !context->plugin->backend.transport)
		error_note(&first, channel_open_host(context, plugin));
	if (first.code && traffic->channel) {
		channel_close_control(traffic->channel, 0);
		traffic->channel = NULL;
	}
	bootstrap_watch(context->bootstrap, &context->aborted); /* the new contexts had it */
	return error_raise(&first);
}

void channel_leave(struct context *context, int64_t timeout_ms)
{
	struct channel *c = traffic_of(context)->channel;

	if (!c || context->plugin->backend.transport)
		return;
	channel_forget(context);
	if (!watcher_watches(c)) /* so nobody misses the messages that the wait takes in */
		channel_say_leave(c, timeout_ms);
}

void channel_close(struct context *context, int64_t timeout_ms)
{
	struct channel *c = traffic_of(context)->channel;

	if (context->parent)
		return;
	if (c)
		channel_close_control(c, timeout_ms);
	if (context->host_context)
		channel_close_host(context->host_context, timeout_ms);
}

void channel_report_lost(struct context *context)
{
	const struct channel *c = traffic_of(context)->channel;

	if (!c || !context->plugin->backend.transport)
		return;
	for (int r = 0; r < context->nranks; r++)
		if (channel_is_silent(c, context, r))
			context->host.peer_lost(&context->host, (uint32_t)r,
						c->control->failure[channel_rank(context, r)]);
}

int channel_derive_open(struct context *context, const struct context_making *making)
{
	struct context *parent = context->parent;
	int code, lost;

	if (making->exclude)
		watcher_spare(parent, making, context->host.timeout_ms);
	code = context_derive_open(context, making);
	if (making->exclude)
		watcher_spare_no_more(parent);
	lost = code ? watcher_check_ranks(context) : COLL_SUCCESS;
	return lost ? lost : code;
}

/* ---------------------------------------------------------------- messages that have come -- */

struct unexpected *channel_take(struct context *context, uint64_t tag)
{
	struct channel *c = traffic_of(context)->channel;
	struct unexpected *e = NULL;
	int from = -1;

	if (context->plugin->backend.transport)
		return match_take(&traffic_of(context)->match, tag);
	if (!c || !traffic_of(context)->control_tag) /* the watcher sees them first */
		return NULL;
	context_lock(c->control);
	while (from < 0 && (e = match_take(&traffic_of(c->control)->match, tag))) {
		from = channel_rank_of(context, (int)e->peer);
		if (from < 0) /* no rank of the context sends so */
			free(e);
	}
	lock_release(&c->control->lock);
	if (e)
		e->peer = (uint32_t)from;
	return e;
}

struct context *channel_control(const struct context *context)
{
	const struct channel *c = traffic_of(context)->channel;

	return c ? c->control : NULL;
}
