/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c - the reports of a context to its communicators: see struct context_client. */
#include "exec/again.h"
#include "exec/engine.h"
#include "exec/message.h"
#include "exec/moving.h"
#include "exec/native.h"
#include "exec/queue.h"
#include "exec/stall.h"

static void client_check(struct context *context)
{
	for (struct comm *c = context->comms; c; c = c->next)
		comm_check(c);
}

/* A control message about a communicator that could not be made concerns every communicator. */
static void client_take_controls(struct context *context)
{
	const struct match *m = &context->match;
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

/*
 * A call looks at so many communicators that do not move, the next call at the next ones: a program may have thousands with
 * operations under way.
 */
enum { CLIENT_LOOKS = 64 };

static int client_move(struct comm *comm)
{
	const int moved = comm->loose ? message_progress(comm) : 0;

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

/* Only messages move it, and others are there: messages find it.  What is alone stays, for again_poll. */
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
		if (!c->loose && (c->finished == c->issued || c->error)) {
			comm_unlist_busy(c, before, COMM_IDLE);
		} else if (client_may_rest(context, c)) {
			c->head->rests = 1;
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

/* The transport's descriptor does not wake a thread for either of them. */
static int client_awaits(const struct context *context)
{
	for (const struct comm *c = context->busy; c; c = c->next_busy)
		if (c->head && (c->head->call.args.kind == KIND_AWAIT || c->head->native ||
				c->head->stream_events || c->head->gates ||
				(c->head->bounce && !c->head->steps_left)))
			return 1;
	return 0;
}

/* The limits of operations and of messages. */
static int64_t client_due(const struct context *context)
{
	int64_t due = INT64_MAX;

	for (const struct comm *c = context->busy; c; c = c->next_busy) {
		if (c->limits && c->limits_look_us < due)
			due = c->limits_look_us;
		if (c->limited && c->next_limit_us < due)
			due = c->next_limit_us;
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

static int client_ends(int kind)
{
	return kind == CONTROL_FAIL || kind == CONTROL_UNMADE;
}

const struct context_client comm_context_client = {
	.received = engine_received,
	.fill = engine_fill,
	.no_memory = comm_no_memory,
	.check_unexpected = comm_check_unexpected,
	.mismatch = comm_mismatch,
	.check = client_check,
	.controls = client_take_controls,
	.poll = again_poll,
	.advance = client_advance,
	.look = client_look,
	.shut = client_shut,
	.awaits = client_awaits,
	.due = client_due,
	.busy = client_busy,
	.watch = client_watch,
	.ends = client_ends,
};
