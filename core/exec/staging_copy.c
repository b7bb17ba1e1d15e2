/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_copy.c - runs the copies between device buffers and staging memory beside the other steps of a
 * schedule.  Copies start in the order in which they became ready, as far as their copy stream has room;
 * whenever the engine runs the operation, it polls the copies in flight.
 */
#include "exec/staging.h"
#include "exec/engine.h"
#include "exec/message_staging.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>

enum {
	STAGING_CANCEL_US = 1000000, /* an abort must be over within about a second */
	STAGING_POLL_US = 20
};

static int staging_copy_way(const struct op *op, int step)
{
	return op->sched.step[step].kind == STEP_COPY_IN ? COPY_STREAM_IN : COPY_STREAM_OUT;
}

void staging_copy_begin(struct op *op)
{
	op->staging.first[COPY_STREAM_IN] = op->staging.first[COPY_STREAM_OUT] = -1;
}

void staging_copy_ready(struct op *op, int step)
{
	int way = staging_copy_way(op, step), *first = op->staging.first, *last = op->staging.last;

	op->run[step].u.next = -1;
	if (first[way] < 0)
		first[way] = step;
	else
		op->run[last[way]].u.next = step;
	last[way] = step;
}

/* The communicator fails with this message when the transport has moved. */
static void staging_copy_failed(struct comm *comm, int code)
{
	struct rank_name name;
	char text[640];

	snprintf(text, sizeof(text), "%s: %s", comm_own_name(comm, &name), error_text());
	comm_set_pending(comm, code, text);
}

/* ------------------------------------------------------------------- starting -- */

static struct stream_copy staging_copy_of(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	void *user = (void *)staging_user_at(op, (int)step->dst.buf, step->dst.off);
	char *own = op->staging.start + step->dst.off;
	int in = step->kind == STEP_COPY_IN;

	return (struct stream_copy){.owner = op,
				    .step = i,
				    .dst = in ? own : user,
				    .src = in ? user : own,
				    .n = step->len};
}

static int staging_copy_start(struct op *op, int way)
{
	struct copy_stream *copy_stream = op->staging.copy_stream[way];
	struct comm *comm = op->comm;
	int i, code, moved = 0;

	while (!comm->pending_code && (i = op->staging.first[way]) >= 0 &&
	       copy_stream->count < COPY_STREAM_DEPTH) {
		struct stream_copy copy = staging_copy_of(op, i);

		op->staging.first[way] = op->run[i].u.next;
		code = copy_stream_start(copy_stream, &copy);
		if (code)
			staging_copy_failed(comm, code);
		else
			comm->context->copies_pending++;
		moved = 1;
	}
	return moved;
}

/* --------------------------------------------------------------------- completing -- */

/* A pre-multiplied sum scales its input when the copy in ends, from staging memory to the scratch memory. */
static void staging_copy_scale(struct op *op, const struct step *step)
{
	redop_scale(&op->call.redop, op->base[SCHED_SEND] + step->dst.off,
		    op->staging.start + step->dst.off, step->len / op->sched.elem);
}

static void staging_copy_done(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];

	if (op->call.redop.premul_sum && step->kind == STEP_COPY_IN)
		staging_copy_scale(op, step);
	engine_complete(op, i);
}

static void staging_copy_ended(const struct stream_copy *copy, int code)
{
	struct op *op = copy->owner;

	if (copy->step == STAGING_OF_MESSAGE) {
		message_copied(copy->owner, code);
		return;
	}
	if (code)
		staging_copy_failed(op->comm, code);
	else
		staging_copy_done(op, copy->step);
}

static int staging_copy_reap_stream(struct context *context, struct copy_stream *copy_stream)
{
	struct stream_copy copy;
	int moved = 0, code = COLL_SUCCESS;

	while (copy_stream->count && code != COLL_IN_PROGRESS) {
		code = copy_stream_poll(copy_stream, &copy);
		if (code == COLL_IN_PROGRESS)
			break;
		context->copies_pending--;
		staging_copy_ended(&copy, code);
		moved = 1;
	}
	return moved;
}

/* Operations share copy streams: an ended copy may be another operation's. */
int staging_copy_reap(struct context *context)
{
	int moved = 0;

	for (struct copy_stream *copy_stream = context->copy_streams;
	     copy_stream && context->copies_pending; copy_stream = copy_stream->next)
		moved |= staging_copy_reap_stream(context, copy_stream);
	return moved;
}

/* The call's stream has copied the input, and copies the result: the steps are complete. */
static int staging_copy_pass(struct op *op)
{
	int moved = 0, i;

	for (int way = 0; way < COPY_STREAMS; way++)
		while ((i = op->staging.first[way]) >= 0) {
			op->staging.first[way] = op->run[i].u.next;
			staging_copy_done(op, i);
			moved = 1;
		}
	return moved;
}

int staging_copy_run(struct op *op)
{
	int moved;

	if (op->bounce && op->bounce->carries)
		return staging_copy_pass(op);
	moved = staging_copy_reap(op->comm->context);

	for (int way = 0; way < COPY_STREAMS; way++)
		if (op->staging.first[way] >= 0)
			moved |= staging_copy_start(op, way);
	return moved;
}

/* ------------------------------------------------------------------ cancelling -- */

static int staging_copy_is_in_flight(const void *owner, const struct copy_stream *copy_stream)
{
	for (int k = 0; k < copy_stream->count; k++)
		if (copy_stream->copy[(copy_stream->first + k) % COPY_STREAM_DEPTH].owner == owner)
			return 1;
	return 0;
}

/* The first copy stream with a copy of the owner in flight. */
static struct copy_stream *staging_copy_stream(const struct context *context, const void *owner)
{
	struct copy_stream *copy_stream = context->copies_pending ? context->copy_streams : NULL;

	while (copy_stream && !staging_copy_is_in_flight(owner, copy_stream))
		copy_stream = copy_stream->next;
	return copy_stream;
}

static void staging_copy_lose(const struct stream_copy *copy)
{
	struct op *op = copy->owner;

	if (copy->step == STAGING_OF_MESSAGE) {
		message_copy_abandoned(copy->owner);
		return;
	}
	op->staging = (struct staging){.memory = NULL};
	staging_copy_begin(op);
	error_set(COLL_ERR_DEVICE, "a device does not end its copies");
	staging_copy_failed(op->comm, COLL_ERR_DEVICE);
}

/*
 * The device does not end its copies: memory that it may still touch is never freed, and every other
 * operation with copies on the copy stream fails too.
 */
static void staging_copy_abandon(const struct comm *comm, struct copy_stream *copy_stream)
{
	struct context *context = comm->context;

	log_error("rank %d: a device has not ended its copies within %d s of the failure of their "
		  "communicator; it may still read and write buffers of calls that were under way",
		  comm->rank, STAGING_CANCEL_US / 1000000);
	context->copies_pending -= copy_stream->count;
	copy_stream_abandon(&context->copy_streams, copy_stream);
	for (int k = 0; k < copy_stream->count; k++)
		staging_copy_lose(&copy_stream->copy[(copy_stream->first + k) % COPY_STREAM_DEPTH]);
}

void staging_copy_await(struct comm *comm, const void *owner)
{
	int64_t deadline = clock_now_us() + STAGING_CANCEL_US;
	struct copy_stream *copy_stream;

	while ((copy_stream = staging_copy_stream(comm->context, owner))) {
		if (staging_copy_reap(comm->context))
			continue;
		if (clock_now_us() < deadline)
			clock_nap(STAGING_POLL_US);
		else
			staging_copy_abandon(comm, copy_stream);
	}
}

void staging_copy_cancel(struct op *op)
{
	staging_copy_begin(op);
	staging_copy_await(op->comm, op);
	staging_copy_begin(op);
}
