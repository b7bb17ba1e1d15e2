/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane_order.h - the order between the two lanes of a communicator (comm/lane.h).
 *
 * The lanes are two sequences, which run at the same time.  Three things order them:
 *
 * An event that the program waits for.  The host lane waits lazily: lane_order_add notes what the next call on host memory
 * waits for, so that programs without such calls pay for a short list.  The native lane waits at once, by its backend's
 * stream.
 *
 * A call on device memory that the host lane stages, since the backend lacks the operation.  It takes part in the issue
 * order of both lanes: it begins when the backend's earlier operations, on all streams, are complete, and the later
 * operations begin when it is complete; its stream of the program waits in the same way.
 *
 * Every call of the host lane, if the backend takes host memory too (lane_has_one_order): the lanes share buffers
 * then.  In a group no call waits for another: the host lane's calls begin when the native lane's calls before the
 * group (lane_before_group) are complete, and the native lane's later calls begin when the group's calls of the host
 * lane are complete.
 *
 * For a staged call over a backend with streams the native lane waits by a stream of the library's own, the order
 * stream, which is ordered with the host lane like a stream of the program (compose/stream_order.h).  The backend
 * orders the order stream with its operations before and after a staged call (take_place), so that the order needs no
 * thread of the program.  Over another backend, and wherever the lanes have one order, each lane's queue waits for the
 * other lane's queue (compose/await.c).
 */
#ifndef CORE_EVENT_LANE_ORDER_H
#define CORE_EVENT_LANE_ORDER_H

#include "comm/lane.h"
#include "device/caller_stream.h"

/* The native lane is entered in all of these but lane_order_free. */

/* Frees what lane_order_add has noted, and the order stream.  Accepts a communicator of one lane. */
void lane_order_free(struct lane *native);
/* The next call of the host lane waits for a point of a lane and for an event of a stream.  Either may be NULL; it is copied. */
int lane_order_add(struct lane *native, const struct order_point *point,
		   struct stream_event *event);
/* Before a call of the host lane is issued: that call waits for what lane_order_add has noted. */
int lane_order_begin(struct lane *native);
/*
 * Device calls wait for a point of a host lane.  If streams cannot wait for memory, the calling thread waits, and does
 * not hold the lock meanwhile.
 */
int lane_order_hold(struct lane *native, const struct order_point *point);

/* Before a staged call is issued in the host lane: *args are the program's arguments, and become the host lane's. */
int lane_order_stage(struct lane *native, coll_args_t *args);
/* The staged call has become operation `number` of the host lane; args are the program's arguments. */
int lane_order_staged(struct lane *native, const coll_args_t *args, uint64_t number);

/*
 * A call of the host lane outside a group, or the last call of a group there, is operation `number`: if the lanes have
 * one order, later calls of the native lane wait for it.  An error is the failure of the communicator.
 */
int lane_order_follow(struct lane *native, uint64_t number);

/* These functions for folders left of this one: see struct lane_client. */
extern const struct lane_client lane_order;

#endif
