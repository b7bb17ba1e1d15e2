/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_point.h - what waits for a point in the issue order of a lane (struct order_point): the calling thread, or a stream of
 * the program.
 */
#ifndef CORE_EVENT_ORDER_POINT_H
#define CORE_EVENT_ORDER_POINT_H

#include "comm/lane.h"
#include "device/caller_stream.h"

/* Returns a point with a reference of its own, which the caller gives up by outcome_unref. */
static inline struct order_point order_point_copy(const struct order_point *point)
{
	return (struct order_point){outcome_ref(point->outcome), point->lane_index, point->number};
}
/*
 * Returns how the operations before the point ended: COLL_SUCCESS, COLL_IN_PROGRESS or an error.  wait: 1 waits for
 * these operations.  pinned: a communicator whose handle the caller has pinned, or NULL; while another thread destroys
 * it, its handle cannot be pinned again.
 */
int order_point_result(const struct order_point *point, struct lane *pinned, int wait);
/* Later work of a stream of the program waits for the operations before the point. */
int order_point_hold(const struct order_point *point, struct lane *pinned,
		     const struct caller_stream *stream);

#endif
