/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_polled.c - the engine of a backend that has a transport and does some whole calls by its own functions.  Such
 * operations stay in the queue, and are complete when the backend's stream has passed the last operation.
 */
#include "watch/report.h"
#include "native/native_impl.h"
#include "comm/op.h"
#include "base/error.h"

static enum engine_start polled_start(struct op *op)
{
	coll_args_t args = op->call.args;
	coll_error_t err;
	int code;

	error_clear(&err);
	if (op->call.redop.made)
		args.op = op->call.redop.native;
	args.stream = NULL; /* the queue keeps the order with the stream */
	code = op->call.slot(lane_native_ep(op->lane), &args, &err);
	if (code == COLL_ERR_UNSUPPORTED)
		return ENGINE_DECLINED;
	if (code)
		native_fail(op->lane, code, &err);
	else
		op_begin(op, OP_RUNNING);
	return ENGINE_STARTED;
}

static int polled_is_running(const struct op *op)
{
	return op && op->state == OP_RUNNING && op->engine == &polled_engine;
}

static int polled_progress(struct lane *lane)
{
	const coll_native_t *native = lane_native(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!polled_is_running(lane->queue.head) || lane->deferred)
		return 0;
	code = native->query(lane_native_ep(lane), &err);
	if (code == COLL_IN_PROGRESS)
		code = native->async_error ? native->async_error(lane_native_ep(lane), &err) : 0;
	else
		for (struct op *op = lane->queue.head; !code && polled_is_running(op);
		     op = op->next)
			op_end(op);
	if (code)
		native_fail(lane, code, &err);
	return 0;
}

/* The function waits for ranks that have not called it. */
static int polled_awaits(const struct op *op, uint8_t *ranks)
{
	const struct lane *lane = op->lane;
	int any = 0;

	if (!kind_at(op->call.args.kind)->is_collective)
		return 0;
	for (int r = 0; r < lane->comm->nranks; r++)
		if (report_lacks(lane, r, op->seq))
			any = ranks[r] = 1;
	return any;
}

static void polled_begin(struct lane *lane)
{
	native_group_begin(lane, lane_native_ep(lane));
}

static void polled_end(struct lane *lane)
{
	native_group_end(lane, lane_native_ep(lane));
}

const struct engine polled_engine = {
	.start = polled_start,
	.awaits = polled_awaits,
	.progress = polled_progress,
	.abort = native_abort,
	.check = native_check,
	.group_begin = polled_begin,
	.group_end = polled_end,
	.derive = &derive_polled,
	.keeps_order = 1,
};
