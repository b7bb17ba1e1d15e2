/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - what waits for a place in a lane (comm/outcome.h): the calling thread, or a stream of the program. */
#ifndef CORE_EVENT_PLACE_H
#define CORE_EVENT_PLACE_H

#include "comm/lane.h"
#include "device/caller_stream.h"

/* With a reference of its own, which the caller gives up by outcome_unref. */
static inline struct place place_copy(const struct place *place)
{
	return (struct place){outcome_ref(place->outcome), place->lane_index, place->number};
}
/*
 * How the operations before the place ended: COLL_SUCCESS, COLL_IN_PROGRESS or an error; `wait`: waits for them.  pinned: a
 * communicator whose handle the caller has pinned, or NULL; while another thread destroys it, its handle cannot be
 * pinned again.
 */
int place_result(const struct place *place, struct lane *pinned, int wait);
/* Later work of a stream of the program waits for the operations before the place. */
int place_hold(const struct place *place, struct lane *pinned, const struct caller_stream *stream);

#endif
