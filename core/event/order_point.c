/* SPDX-License-Identifier: BSD-3-Clause */
/* order_point.c - waits for a point in the issue order of a lane. */
#include "event/order_point.h"
#include "base/clock.h"
#include "base/handle.h"
#include "comm/comm_wait.h"
#include "comm/lane.h"
#include "compose/stream_order.h"

enum { ORDER_POINT_NAP_US = 100 };

/* The handle is not valid any more.  Between the end of the handle and the end of the lane lies a moment. */
static int order_point_of_ended(const struct order_point *point, int wait)
{
	int code = point->number ? outcome_result(point->outcome, point->lane_index, point->number)
				 : COLL_SUCCESS;

	while (wait && code == COLL_IN_PROGRESS) {
		clock_nap(ORDER_POINT_NAP_US);
		code = outcome_result(point->outcome, point->lane_index, point->number);
	}
	return code;
}

/*
 * Enters the lane of the point, pinned once more unless it is a lane of `pinned`.  Returns NULL if the handle is not
 * valid any more.
 */
static struct lane *order_point_enter(const struct order_point *point, struct lane *pinned)
{
	struct lane *lane;

	if (!pinned || pinned->comm->outcome != point->outcome)
		lane = comm_pin_lane(point->outcome->comm, point->lane_index);
	else
		lane = pinned->comm->lane[point->lane_index];
	if (!lane)
		return NULL;
	context_enter(lane->context);
	return lane;
}

static void order_point_leave(struct lane *lane, const struct lane *pinned)
{
	if (pinned && pinned->comm->outcome == lane->comm->outcome)
		context_leave(lane->context);
	else
		comm_leave(lane);
}

/* The program asks again and again. */
static void order_point_poll(struct lane *lane)
{
	lane_help_other(lane);
	lane->client->poll(lane);
}

int order_point_result(const struct order_point *point, struct lane *pinned, int wait)
{
	struct lane *lane = order_point_enter(point, pinned);
	int code = COLL_IN_PROGRESS;

	if (!lane)
		return order_point_of_ended(point, wait);
	context_progress(lane->context);
	if (lane->finished < point->number && wait)
		code = lane_wait(lane, point->number, 0);
	else if (lane->finished < point->number)
		order_point_poll(lane);
	if (lane->finished >= point->number)
		code = COLL_SUCCESS;
	else if (lane->error)
		code = comm_error(lane);
	order_point_leave(lane, pinned);
	return code;
}

int order_point_hold(const struct order_point *point, struct lane *pinned,
		     const struct caller_stream *stream)
{
	struct lane *lane = order_point_enter(point, pinned);
	int code = COLL_SUCCESS;

	if (!lane)
		return order_point_of_ended(point, 1);
	lane_check_aborted(lane, point->number);
	if (lane->finished < point->number)
		code = comm_error(lane);
	if (lane->finished < point->number && !code)
		code = stream_order_wait(lane, "coll_stream_wait_event", stream, point->number);
	if (lane->finished < point->number && !code)
		lane_note_stream_wait(lane, point->number);
	order_point_leave(lane, pinned);
	return code;
}
