/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c - waits for a place in a lane. */
#include "event/place.h"
#include "base/clock.h"
#include "base/handle.h"
#include "comm/comm_wait.h"
#include "compose/stream_order.h"

enum { PLACE_NAP_US = 100 };

/* The handle is not valid any more.  Between the end of the handle and the end of the lane lies a moment. */
static int place_of_ended(const struct place *place, int wait)
{
	int code = place->number ? outcome_result(place->outcome, place->lane_index, place->number)
				 : COLL_SUCCESS;

	while (wait && code == COLL_IN_PROGRESS) {
		clock_nap(PLACE_NAP_US);
		code = outcome_result(place->outcome, place->lane_index, place->number);
	}
	return code;
}

/* Enters the lane of the place, pinned once more unless it is a lane of `pinned`; NULL: the handle is not valid any more. */
static struct lane *place_enter(const struct place *place, struct lane *pinned)
{
	struct lane *lane;

	if (!pinned || pinned->comm->outcome != place->outcome)
		lane = comm_pin_lane(place->outcome->comm, place->lane_index);
	else
		lane = pinned->comm->lane[place->lane_index];
	if (!lane)
		return NULL;
	context_enter(lane->context);
	return lane;
}

static void place_leave(struct lane *lane, const struct lane *pinned)
{
	if (pinned && pinned->comm->outcome == lane->comm->outcome)
		context_leave(lane->context);
	else
		comm_leave(lane);
}

int place_result(const struct place *place, struct lane *pinned, int wait)
{
	struct lane *lane = place_enter(place, pinned);
	int code = COLL_IN_PROGRESS;

	if (!lane)
		return place_of_ended(place, wait);
	context_progress(lane->context);
	if (lane->finished < place->number && wait)
		code = lane_wait(lane, place->number, 0);
	else if (lane->finished < place->number)
		lane->client->poll(lane);
	if (lane->finished >= place->number)
		code = COLL_SUCCESS;
	else if (lane->error)
		code = comm_error(lane);
	place_leave(lane, pinned);
	return code;
}

int place_hold(const struct place *place, struct lane *pinned, const struct caller_stream *stream)
{
	struct lane *lane = place_enter(place, pinned);
	int code = COLL_SUCCESS;

	if (!lane)
		return place_of_ended(place, 1);
	lane_check_aborted(lane, place->number);
	if (lane->finished < place->number)
		code = comm_error(lane);
	if (lane->finished < place->number && !code)
		code = stream_order_wait(lane, "coll_stream_wait_event", stream, place->number);
	if (lane->finished < place->number && !code)
		lane_note_stream_wait(lane, place->number);
	place_leave(lane, pinned);
	return code;
}
