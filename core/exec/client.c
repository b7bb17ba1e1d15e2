/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c - the reports of a context to its communicators: see struct context_client. */
#include "compose/again.h"
#include "exec/control.h"
#include "watch/failure.h"
#include "compose/steps.h"
#include "message/message.h"
#include "comm/moving.h"
#include "native/native.h"
#include "comm/queue.h"
#include "watch/report.h"
#include "watch/stall.h"
#include "device/device.h"
#include "transport/channel.h"

#include <stdio.h>

static void client_check(struct context *context)
{
	for (struct comm *c = context->comms; c; c = c->next)
		comm_check(c);
}

/* A control message about a communicator that could not be made concerns every communicator. */
static void client_take_controls(struct context *context)
{
	const struct match *m = &traffic_of(context)->match;
	int all = m->controls > MATCH_CONTROLS_SEEN;
	struct comm *comm;

	for (int i = 0; i < m->controls && !all; i++)
		all = comm_tag_is_birth(m->control[i]);
	if (all)
		client_check(context);
	for (int i = 0; i < m->controls && !all; i++) {
		comm = comm_of_tag(context, m->control[i]);
		if (comm)
			comm_check(comm);
	}
}

/* 1: control messages came or went. */
static int client_take(struct context *context)
{
	struct traffic *traffic = traffic_of(context);
	struct recv *recv;
	int controls;

	while ((recv = match_next_done(&traffic->match)))
		steps_received(recv);
	controls = traffic->match.controls != 0;
	if (context_take_news(context))
		client_check(context);
	else if (controls)
		client_take_controls(context);
	traffic->match.controls = 0;
	return controls | (traffic->controls && traffic_reap_controls(context));
}

/*
 * A call looks at so many communicators that do not move, the next call at the next ones: a program may have thousands with
 * operations under way.
 */
enum { CLIENT_LOOKS = 64 };

static int client_move(struct comm *comm)
{
	const int moved = comm->messages.looks ? message_progress(comm) : 0;

	return moved | queue_progress(comm);
}

/* The communicators before `first` become the last ones of context->busy; `before` is the last of them. */
static void client_rotate(struct context *context, struct comm *first, struct comm *before)
{
	context->last_busy->next_busy = context->busy;
	context->last_busy = before;
	before->next_busy = NULL;
	context->busy = first;
}

/*
 * May the communicator leave context->busy?  Yes if only a message can move its operations, which puts it back, and if
 * context->busy has other communicators: the only one stays, since again_poll looks for it there.
 */
static int client_may_rest(const struct context *context, const struct comm *comm)
{
	return (context->busy != comm || comm->next_busy) && moving_is_at_rest(comm);
}

static int client_advance(struct context *context)
{
	struct comm *before = NULL, *c = context->busy, *next;
	int moved = 0, looks = CLIENT_LOOKS, one;

	for (; c && looks; c = next) {
		next = c->next_busy;
		if (!c->messages.looks && (c->finished == c->issued || c->error)) {
			comm_unlist_busy(c, before, COMM_IDLE);
		} else if (client_may_rest(context, c)) {
			c->queue.head->rests = 1;
			comm_unlist_busy(c, before, COMM_RESTS);
		} else {
			one = client_move(c);
			looks -= !one;
			moved |= one;
			next = c->next_busy;
			before = c;
		}
	}
	if (c)
		client_rotate(context, c, before);
	return moved;
}

static int client_look(struct context *context)
{
	int n = 0, moved = 0;

	for (const struct comm *c = context->busy; c && n <= CLIENT_LOOKS; c = c->next_busy)
		n++;
	for (struct comm *c = context->busy; c; c = c->next_busy) {
		if (n > CLIENT_LOOKS)
			moved |= client_move(c);
		moved |= message_look_at_all(c) | queue_look_at_all(c);
	}
	return moved;
}

static void client_shut(struct context *context)
{
	for (struct comm *c = context->comms; c; c = c->next)
		comm_fail(c, 1, COLL_ERR_ABORTED, "the endpoint of backend '%s' had to be closed",
			  context->plugin->backend.name);
}

/* The transport's descriptor wakes a thread for none of these. */
static int client_awaits(const struct context *context)
{
	if (traffic_of(context)->copies.pending)
		return 1;
	for (const struct comm *c = context->busy; c; c = c->next_busy)
		if (c->queue.head &&
		    ((!c->queue.head->engine->by_messages && c->queue.head->state != OP_DEFERRED) ||
		     c->queue.head->stream_events || c->queue.head->dependencies ||
		     (c->queue.head->ordered && !c->queue.head->steps_left)))
			return 1;
	return 0;
}

/* The limits of operations and of messages. */
static int64_t client_due(const struct context *context)
{
	int64_t due = INT64_MAX;

	for (const struct comm *c = context->busy; c; c = c->next_busy) {
		if (c->limits.first && c->limits.look_us < due)
			due = c->limits.look_us;
		if (c->messages.limited && c->messages.next_limit_us < due)
			due = c->messages.next_limit_us;
	}
	return due;
}

static int client_busy(const struct context *context)
{
	return context->comms && native_busy(context->comms);
}

static int client_watch(struct context *context)
{
	int busy = 0;

	for (struct comm *c = context->comms; c; c = c->next)
		busy |= stall_ask_outside(c);
	return busy;
}

static void client_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			    const coll_header_t *header)
{
	struct comm *comm = comm_of_tag(context, header->tag);
	int same = match_same_call(recv->meta, header->meta);

	if (recv->loose)
		message_misfit(recv, peer, header);
	if (!comm || recv->loose)
		return;
	if (header->tag & TAG_USER)
		comm_report_message(comm, comm->to_comm_rank[peer], header->tag, header->meta,
				    recv->meta);
	else if (same)
		comm_report_lengths(comm, recv, peer, header);
	else
		comm_report_call(comm, comm->to_comm_rank[peer], recv->op->seq, header->meta,
				 recv->meta);
}

/*
 * The communicator of the message fails: the fault is this rank's.  A communicator that is still being
 * made cannot fail: then the connection has to end, and context->failure names the cause.
 */
static int client_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	struct comm *comm = comm_of_tag(context, header->tag);
	struct rank_name name, own;

	if (!comm) {
		context->refused = (int)peer;
		context->refused_len = header->len;
		return COLL_ERR_NO_MEMORY;
	}
	comm_set_pending(
		comm, COLL_ERR_NO_MEMORY,
		"%s has no memory to keep a message of %llu bytes from %s, which came before %s "
		"waited for it: give %s more memory, or call receives earlier",
		comm_own_name(comm, &own), (unsigned long long)header->len,
		comm_rank_name(comm, comm->to_comm_rank[peer], &name), own.text, own.text);
	return COLL_SUCCESS;
}

static int client_check_unexpected(struct context *context, uint32_t peer, const coll_header_t *h)
{
	struct comm *comm = comm_of_tag(context, h->tag);
	uint32_t seq = (uint32_t)(h->tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK;

	if (!comm && !comm_tag_is_birth(h->tag))
		return comm_was_freed(context, (uint32_t)(h->tag >> TAG_CONTEXT_SHIFT));
	if (h->tag & MATCH_CONTROL)
		return 0;
	if (comm_tag_is_loose(h->tag)) /* a thread may sleep in coll_probe */
		context->sleepers_have_news = 1;
	if (comm->error || comm->pending_code || comm->to_comm_rank[peer] < 0)
		return 1;
	return !(h->tag & TAG_USER) &&
	       report_message_differs(comm, comm->to_comm_rank[peer], seq, h->meta);
}

static int client_ends(int kind)
{
	return kind == CONTROL_FAIL || kind == CONTROL_UNMADE;
}

const struct traffic_client comm_traffic_client = {
	.fill = steps_fill,
	.check_unexpected = client_check_unexpected,
	.no_memory = client_no_memory,
	.mismatch = client_mismatch,
	.watch = client_watch,
	.ends = client_ends,
};

static void client_begin(struct context *context, const struct context_parts *parts)
{
	traffic_begin(context, parts, &comm_traffic_client);
}

const struct context_client comm_context_client = {
	.size = sizeof(struct traffic),
	.begin = client_begin,
	.opened = traffic_opened,
	.closing = channel_forget,
	.closed = channel_close,
	.left = channel_leave,
	.free = traffic_free,
	.memory_kind = device_kind,
	.take = client_take,
	.send = channel_send,
	.sending = traffic_is_sending,
	.lost = channel_has_lost,
	.failed = channel_end,
	.check = client_check,
	.poll = again_poll,
	.advance = client_advance,
	.look = client_look,
	.shut = client_shut,
	.awaits = client_awaits,
	.due = client_due,
	.busy = client_busy,
};
