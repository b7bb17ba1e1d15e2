/* SPDX-License-Identifier: BSD-3-Clause */
/* drive.c - moves the operations of the communicators of a context on, as its waits and its progress ask for it. */
#include "comm/drive.h"
#include "comm/engines.h"
#include "comm/moving.h"
#include "comm/op.h"
#include "comm/queue.h"

/* ------------------------------------------------------------------------ moving -- */

/*
 * A call looks at so many communicators that do not move, and the next call at the next communicators: a program may
 * have thousands with operations under way.
 */
enum { DRIVE_LOOKS = 64 };

static int drive_move(struct lane *lane)
{
	const int moved = lane->messages.looks ? lane->client->move_messages(lane) : 0;

	return moved | queue_progress(lane);
}

/* The communicators before `first` become the last of context->busy; `before` is the last communicator before `first`. */
static void drive_rotate(struct context *context, struct lane *first, struct lane *before)
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
static int drive_may_rest(const struct context *context, const struct lane *lane)
{
	return (context->busy != lane || lane->next_busy) && moving_is_at_rest(lane);
}

int drive_advance(struct context *context)
{
	struct lane *before = NULL, *lane = context->busy, *next;
	int moved = 0, looks = DRIVE_LOOKS, one;

	for (; lane && looks; lane = next) {
		next = lane->next_busy;
		if (!lane->messages.looks && !lane->tasks.limited &&
		    (lane->finished == lane->issued || lane->error)) {
			lane_unlist_busy(lane, before, LANE_IDLE);
		} else if (drive_may_rest(context, lane)) {
			lane->queue.head->rests = 1;
			lane_unlist_busy(lane, before, LANE_RESTS);
		} else {
			one = drive_move(lane);
			looks -= !one;
			moved |= one;
			next = lane->next_busy;
			before = lane;
		}
	}
	if (lane)
		drive_rotate(context, lane, before);
	return moved;
}

int drive_look(struct context *context)
{
	int n = 0, moved = 0;

	for (const struct lane *lane = context->busy; lane && n <= DRIVE_LOOKS;
	     lane = lane->next_busy)
		n++;
	for (struct lane *lane = context->busy; lane; lane = lane->next_busy) {
		if (n > DRIVE_LOOKS)
			moved |= drive_move(lane);
		moved |= lane->client->look_at_messages(lane) | queue_look_at_all(lane);
	}
	return moved;
}

/* ------------------------------------------------------------- failing and sleeping -- */

void drive_check(struct context *context)
{
	for (struct lane *lane = context->lanes; lane; lane = lane->next)
		lane_check(lane);
}

void drive_shut(struct context *context)
{
	for (struct lane *lane = context->lanes; lane; lane = lane->next)
		comm_fail(lane, 1, COLL_ERR_ABORTED,
			  "the endpoint of backend '%s' had to be closed",
			  context->plugin->backend.name);
}

int drive_awaits(const struct context *context)
{
	for (const struct lane *lane = context->busy; lane; lane = lane->next_busy)
		if (lane->queue.head &&
		    ((!lane->queue.head->engine->by_messages &&
		      lane->queue.head->state != OP_DEFERRED) ||
		     lane->queue.head->stream_events || lane->queue.head->dependencies ||
		     (lane->queue.head->ordered && !lane->queue.head->steps_left)))
			return 1;
	return 0;
}

int64_t drive_due(const struct context *context)
{
	int64_t due = INT64_MAX;

	for (const struct lane *lane = context->busy; lane; lane = lane->next_busy)
		if (lane->tasks.limited && lane->tasks.look_us < due)
			due = lane->tasks.look_us;
	return due;
}

int drive_busy(const struct context *context)
{
	return context->lanes && engines_busy(context->lanes) != NULL;
}

void drive_rest(struct context *context)
{
	if (context->lanes)
		engines_progress(context->lanes);
}
