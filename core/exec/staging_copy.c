/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_copy.c - runs the copies between staged buffers and what stands in for them, beside everything
 * else that a schedule does: started in the order in which they became ready, as far as their lane
 * has room, and asked whether they are done whenever the operation is moved on.
 */
#include "exec/engine.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <time.h>

enum {
	FERRY_PATIENCE_US = 1000000, /* an abort is to be over within about a second */
	FERRY_NAP_US = 20
};

static int ferry_way(const struct op *op, int step)
{
	return op->sched.step[step].kind == STEP_COPY_IN ? LANE_IN : LANE_OUT;
}

void ferry_begin(struct op *op)
{
	op->stage.first[LANE_IN] = op->stage.first[LANE_OUT] = -1;
}

void ferry_ready(struct op *op, int step)
{
	int way = ferry_way(op, step), *first = op->stage.first, *last = op->stage.last;

	op->run[step].u.next = -1;
	if (first[way] < 0)
		first[way] = step;
	else
		op->run[last[way]].u.next = step;
	last[way] = step;
}

/* With these words the communicator soon fails. */
static void ferry_failed(struct comm *comm, int code)
{
	char text[640];

	snprintf(text, sizeof(text), "rank %d: %s", comm->rank, error_text());
	comm_set_pending(comm, code, text);
}

/* ------------------------------------------------------------------- starting -- */

static struct lane_copy ferry_copy(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	void *user = (void *)(op->stage.user[step->dst.buf] + step->dst.off);
	char *own = op->stage.memory + step->dst.off;
	int in = step->kind == STEP_COPY_IN;

	return (struct lane_copy){.owner = op,
				  .step = i,
				  .dst = in ? own : user,
				  .src = in ? user : own,
				  .n = step->len};
}

static int ferry_start(struct op *op, int way)
{
	struct lane *lane = op->stage.lane[way];
	struct comm *comm = op->comm;
	int i, code, moved = 0;

	while (!comm->pending_code && (i = op->stage.first[way]) >= 0 && lane->count < LANE_DEEP) {
		struct lane_copy copy = ferry_copy(op, i);

		op->stage.first[way] = op->run[i].u.next;
		code = lane_start(lane, &copy);
		if (code)
			ferry_failed(comm, code);
		else
			comm->link->ferried++;
		moved = 1;
	}
	return moved;
}

/* --------------------------------------------------------------------- landing -- */

/* What is multiplied first is so where it comes in; then its buffer is the only thing in its part. */
static void ferry_scale(struct op *op, const struct step *step)
{
	redop_scale(&op->redop, op->base[SCHED_SEND] + step->dst.off,
		    op->stage.memory + step->dst.off, step->len / op->sched.elem);
}

static void ferry_landed(const struct lane_copy *copy, int code)
{
	struct op *op = copy->owner;
	const struct step *step = &op->sched.step[copy->step];

	if (code) {
		ferry_failed(op->comm, code);
		return;
	}
	if (op->redop.scaled && step->kind == STEP_COPY_IN)
		ferry_scale(op, step);
	engine_complete(op, copy->step);
}

static int ferry_reap_lane(struct link *link, struct lane *lane)
{
	struct lane_copy copy;
	int moved = 0, code = COLL_SUCCESS;

	while (lane->count && code != COLL_IN_PROGRESS) {
		code = lane_poll(lane, &copy);
		if (code == COLL_IN_PROGRESS)
			break;
		link->ferried--;
		ferry_landed(&copy, code);
		moved = 1;
	}
	return moved;
}

/* Lanes are shared: what is done may be another operation's. */
static int ferry_reap(struct link *link)
{
	int moved = 0;

	for (struct lane *lane = link->lanes; lane && link->ferried; lane = lane->next)
		moved |= ferry_reap_lane(link, lane);
	return moved;
}

int ferry_run(struct op *op)
{
	int moved = ferry_reap(op->comm->link);

	for (int way = 0; way < LANES; way++)
		if (op->stage.first[way] >= 0)
			moved |= ferry_start(op, way);
	return moved;
}

/* ------------------------------------------------------------------ giving up -- */

static int ferry_is_under_way(const struct op *op, const struct lane *lane)
{
	for (int k = 0; k < lane->count; k++)
		if (lane->copy[(lane->first + k) % LANE_DEEP].owner == op)
			return 1;
	return 0;
}

/* The first lane on which something of the operation is under way. */
static struct lane *ferry_lane(const struct op *op)
{
	struct lane *lane = op->comm->link->ferried ? op->comm->link->lanes : NULL;

	while (lane && !ferry_is_under_way(op, lane))
		lane = lane->next;
	return lane;
}

/*
 * The device does not end its copies: memory that it may still touch is never given back, and
 * whoever else has copies on the lane fails as well.
 */
static void ferry_abandon(struct op *op, struct lane *lane)
{
	struct link *link = op->comm->link;

	log_error("rank %d: a device has not ended its copies within %d s of the failure of their "
		  "communicator; it may still read and write buffers of calls that were under way",
		  op->comm->rank, FERRY_PATIENCE_US / 1000000);
	link->ferried -= lane->count;
	lane_abandon(&link->lanes, lane);
	for (int k = 0; k < lane->count; k++) {
		struct op *owner = lane->copy[(lane->first + k) % LANE_DEEP].owner;

		owner->stage = (struct stage){.memory = NULL};
		ferry_begin(owner);
		error_set(COLL_ERR_DEVICE, "a device does not end its copies");
		ferry_failed(owner->comm, COLL_ERR_DEVICE);
	}
}

void ferry_cancel(struct op *op)
{
	const struct timespec nap = {.tv_nsec = FERRY_NAP_US * 1000};
	int64_t deadline = link_now() + FERRY_PATIENCE_US;
	struct lane *lane;

	ferry_begin(op);
	while ((lane = ferry_lane(op))) {
		if (ferry_reap(op->comm->link))
			continue;
		if (link_now() < deadline)
			nanosleep(&nap, NULL);
		else
			ferry_abandon(op, lane);
	}
	ferry_begin(op);
}
