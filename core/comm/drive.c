/* SPDX-License-Identifier: BSD-3-Clause */
/* drive.c - moves the operations of the communicators of a context on, as its waits and its progress ask for it. */
#include "comm/drive.h"
#include "comm/engines.h"
#include "comm/moving.h"
#include "comm/op.h"
#include "comm/queue.h"

/* ------------------------------------------------------------------------ moving -- */

/*
 * A call looks at so many communicators that do not move, the next call at the next ones: a program may have thousands with
 * operations under way.
 */
enum { DRIVE_LOOKS = 64 };

static int drive_move(struct comm *comm)
{
	const int moved = comm->messages.looks ? comm->client->move_messages(comm) : 0;

	return moved | queue_progress(comm);
}

/* The communicators before `first` become the last ones of context->busy; `before` is the last communicator before `first`. */
static void drive_rotate(struct context *context, struct comm *first, struct comm *before)
{
	context->last_busy->next_busy = context->busy;
	context->last_busy = before;
	before->next_busy = NULL;
	context->busy = first;
}

/*
 * May the communicator leave context->busy?  Yes if only a message can move its operations, which puts it back, and if
 * context->busy has other communicators: the only one stays, since composed_poll looks for it there.
 */
static int drive_may_rest(const struct context *context, const struct comm *comm)
{
	return (context->busy != comm || comm->next_busy) && moving_is_at_rest(comm);
}

int drive_advance(struct context *context)
{
	struct comm *before = NULL, *c = context->busy, *next;
	int moved = 0, looks = DRIVE_LOOKS, one;

	for (; c && looks; c = next) {
		next = c->next_busy;
		if (!c->messages.looks && !c->tasks.limited &&
		    (c->finished == c->issued || c->error)) {
			comm_unlist_busy(c, before, COMM_IDLE);
		} else if (drive_may_rest(context, c)) {
			c->queue.head->rests = 1;
			comm_unlist_busy(c, before, COMM_RESTS);
		} else {
			one = drive_move(c);
			looks -= !one;
			moved |= one;
			next = c->next_busy;
			before = c;
		}
	}
	if (c)
		drive_rotate(context, c, before);
	return moved;
}

int drive_look(struct context *context)
{
	int n = 0, moved = 0;

	for (const struct comm *c = context->busy; c && n <= DRIVE_LOOKS; c = c->next_busy)
		n++;
	for (struct comm *c = context->busy; c; c = c->next_busy) {
		if (n > DRIVE_LOOKS)
			moved |= drive_move(c);
		moved |= c->client->look_at_messages(c) | queue_look_at_all(c);
	}
	return moved;
}

/* ------------------------------------------------------------- failing and sleeping -- */

void drive_check(struct context *context)
{
	for (struct comm *c = context->comms; c; c = c->next)
		comm_check(c);
}

void drive_shut(struct context *context)
{
	for (struct comm *c = context->comms; c; c = c->next)
		comm_fail(c, 1, COLL_ERR_ABORTED, "the endpoint of backend '%s' had to be closed",
			  context->plugin->backend.name);
}

int drive_awaits(const struct context *context)
{
	for (const struct comm *c = context->busy; c; c = c->next_busy)
		if (c->queue.head &&
		    ((!c->queue.head->engine->by_messages && c->queue.head->state != OP_DEFERRED) ||
		     c->queue.head->stream_events || c->queue.head->dependencies ||
		     (c->queue.head->ordered && !c->queue.head->steps_left)))
			return 1;
	return 0;
}

int64_t drive_due(const struct context *context)
{
	int64_t due = INT64_MAX;

	for (const struct comm *c = context->busy; c; c = c->next_busy)
		if (c->tasks.limited && c->tasks.look_us < due)
			due = c->tasks.look_us;
	return due;
}

int drive_busy(const struct context *context)
{
	return context->comms && engines_busy(context->comms) != NULL;
}
