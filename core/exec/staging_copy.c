/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_copy.c - runs the copies between device buffers and staging memory beside the other steps of a
 * schedule.  Copies start in the order in which they became ready, as far as their copy stream has room;
 * whenever the engine runs the operation, it polls the copies in flight.
 */
#include "exec/staging.h"
#include "exec/copies.h"
#include "exec/steps.h"
#include "base/error.h"

#include <stdio.h>

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

	comm_set_pending(comm, code, "%s: %s", comm_own_name(comm, &name), error_text());
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
	steps_complete(op, i);
}

static void staging_copy_lost(struct op *op)
{
	op->staging = (struct staging){.memory = NULL};
	staging_copy_begin(op);
	staging_copy_failed(op->comm, COLL_ERR_DEVICE);
}

static void staging_copy_ended(const struct stream_copy *copy, int code)
{
	struct op *op = copy->owner;

	if (code == COPY_LOST)
		staging_copy_lost(op);
	else if (code)
		staging_copy_failed(op->comm, code);
	else
		staging_copy_done(op, copy->step);
}

/* ------------------------------------------------------------------- starting -- */

static struct stream_copy staging_copy_of(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	void *user = (void *)staging_user_at(op, (int)step->dst.buf, step->dst.off);
	char *own = op->staging.start + step->dst.off;
	int in = step->kind == STEP_COPY_IN;

	return (struct stream_copy){.ended = staging_copy_ended,
				    .owner = op,
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
	moved = copies_reap(op->comm->context);

	for (int way = 0; way < COPY_STREAMS; way++)
		if (op->staging.first[way] >= 0)
			moved |= staging_copy_start(op, way);
	return moved;
}

/* ------------------------------------------------------------------ cancelling -- */

void staging_copy_cancel(struct op *op)
{
	staging_copy_begin(op);
	copies_await(op->comm, op);
	staging_copy_begin(op);
}
