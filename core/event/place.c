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
	int code = place->number ? outcome_result(place->outcome, place->lane, place->number)
				 : COLL_SUCCESS;

	while (wait && code == COLL_IN_PROGRESS) {
		clock_nap(PLACE_NAP_US);
		code = outcome_result(place->outcome, place->lane, place->number);
	}
	return code;
}

/* Enters the lane of the place, pinned once more unless it is a lane of `pinned`; NULL: the handle is not valid any more. */
static struct comm *place_enter(const struct place *place, struct comm *pinned)
{
	struct comm *comm = pinned;

	if (!pinned || pinned->outcome != place->outcome)
		comm = handle_pin(HANDLE_COMM, place->outcome->comm);
	else if (pinned->lanes)
		comm = pinned->lanes->native;
	if (!comm)
		return NULL;
	comm = lane_at(comm, place->lane);
	context_enter(comm->context);
	return comm;
}

static void place_leave(struct comm *comm, const struct comm *pinned)
{
	if (pinned && pinned->outcome == comm->outcome)
		context_leave(comm->context);
	else
		comm_leave(comm);
}

int place_result(const struct place *place, struct comm *pinned, int wait)
{
	struct comm *comm = place_enter(place, pinned);
	int code = COLL_IN_PROGRESS;

	if (!comm)
		return place_of_ended(place, wait);
	context_progress(comm->context);
	if (comm->finished < place->number && wait)
		code = comm_wait(comm, place->number);
	else if (comm->finished < place->number)
		comm->client->poll(comm);
	if (comm->finished >= place->number)
		code = COLL_SUCCESS;
	else if (comm->error)
		code = comm_error(comm);
	place_leave(comm, pinned);
	return code;
}

int place_hold(const struct place *place, struct comm *pinned, const struct caller_stream *stream)
{
	struct comm *comm = place_enter(place, pinned);
	int code = COLL_SUCCESS;

	if (!comm)
		return place_of_ended(place, 1);
	comm_check_aborted(comm, place->number);
	if (comm->finished < place->number)
		code = comm_error(comm);
	if (comm->finished < place->number && !code)
		code = stream_order_wait(comm, "coll_stream_wait_event", stream, place->number);
	if (comm->finished < place->number && !code)
		lane_note_held(comm, place->number);
	place_leave(comm, pinned);
	return code;
}
