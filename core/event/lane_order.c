/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_order.c - the order between the two lanes of a communicator. */
#include "event/lane_order.h"
#include "api/host_memory.h"
#include "event/order_point.h"
#include "base/error.h"
#include "base/kind.h"
#include "native/native.h"
#include "comm/comm_wait.h"
#include "comm/queue.h"
#include "compose/await.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* ------------------------------------------------------- what the next host call waits for -- */

struct lane_wait {
	struct lane_wait *next;
	struct order_point point;
	struct stream_event *event; /* of a stream; or NULL */
};

static struct lane_wait *lane_wait_new(const struct order_point *point, struct stream_event *event)
{
	struct stream_event *own = event ? stream_event_ref(event) : NULL;
	struct lane_wait *wait = event && !own ? NULL : malloc(sizeof(*wait));

	if (wait)
		*wait = (struct lane_wait){NULL, order_point_copy(point), own};
	else
		stream_event_unref(own);
	return wait;
}

static void lane_wait_free(struct lane_wait *wait)
{
	outcome_unref(wait->point.outcome);
	stream_event_unref(wait->event);
	free(wait);
}

void lane_order_free(struct lane *native)
{
	struct comm *comm = native->comm;
	struct lane_wait *wait;

	while ((wait = comm->waits)) {
		comm->waits = wait->next;
		lane_wait_free(wait);
	}
	if (comm->order_stream)
		caller_stream_free(native->context->device, comm->order_stream);
	comm->order_stream = NULL;
}

/* Is it over, as far as is known without another lock? */
static int lane_wait_is_over(const struct lane *native, const struct lane_wait *wait)
{
	const struct order_point *point = &wait->point;

	if (wait->event)
		return stream_event_query(wait->event) != COLL_IN_PROGRESS;
	if (point->outcome == native->comm->outcome && point->lane_index == LANE_FIRST)
		return native->finished >= point->number;
	return !outcome_result(point->outcome, point->lane_index, point->number);
}

/* Drops the waits that are over, and one for an earlier point of the same lane. */
static void lane_order_drop(struct lane *native, const struct order_point *point)
{
	struct lane_wait **at = &native->comm->waits, *wait;

	while ((wait = *at)) {
		if ((point->outcome && wait->point.outcome == point->outcome &&
		     wait->point.lane_index == point->lane_index &&
		     wait->point.number <= point->number) ||
		    lane_wait_is_over(native, wait)) {
			*at = wait->next;
			lane_wait_free(wait);
		} else {
			at = &wait->next;
		}
	}
}

/* Does the host lane wait for its own operations and for what an operation there awaits anyway? */
static int lane_order_waits_anyway(const struct comm *comm, const struct order_point *point)
{
	if (!point->outcome || !point->number)
		return 1;
	return point->outcome == comm->outcome &&
	       (point->lane_index == LANE_HOST || point->number <= comm->awaited);
}

int lane_order_add(struct lane *native, const struct order_point *point, struct stream_event *event)
{
	struct lane_wait *wait;

	if (!event && lane_order_waits_anyway(native->comm, point))
		return COLL_SUCCESS;
	wait = lane_wait_new(point, event);
	if (!wait)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for an event");
	lane_order_drop(native, point);
	wait->next = native->comm->waits;
	native->comm->waits = wait;
	return COLL_SUCCESS;
}

/* The next call of the host lane waits for the native lane's calls before it and before its group. */
static int lane_order_add_before(struct lane *native)
{
	const uint64_t group = group_current();
	struct order_point before = {native->comm->outcome, LANE_FIRST, native->issued};
	const int code = group ? lane_before_group(native, group, &before.number) : COLL_SUCCESS;

	return code || native->finished >= before.number ? code
							 : lane_order_add(native, &before, NULL);
}

/*
 * An operation of the host lane waits for the point, and so do all later operations.  Between two calls of a group no
 * second operation may wait for the same point, since it would begin after the first call, and hold the second.
 */
static int lane_order_issue(struct lane *host, const struct lane_wait *wait)
{
	struct comm *comm = host->comm;
	const uint64_t number = wait->point.outcome == comm->outcome ? wait->point.number : 0;
	const int code = await_issue(host, &wait->point, wait->event);

	if (!code && wait->point.lane_index == LANE_FIRST && number > comm->awaited)
		comm->awaited = number;
	return code;
}

int lane_order_begin(struct lane *native)
{
	struct comm *comm = native->comm;
	struct lane *host = comm->lane[LANE_HOST];
	struct lane_wait *wait;
	int code = lane_has_one_order(native) ? lane_order_add_before(native) : COLL_SUCCESS;

	if (code || !comm->waits)
		return code;
	context_enter(host->context);
	while (!code && (wait = comm->waits)) {
		comm->waits = wait->next;
		code = lane_order_issue(host, wait);
		if (!code) {
			free(wait);
		} else {
			wait->next = comm->waits;
			comm->waits = wait;
		}
	}
	context_leave(host->context);
	return code;
}

/* ------------------------------------------------------------------- the order stream -- */

static int lane_order_has_streams(const struct lane *native)
{
	return native->context->plugin->backend.native->event_record != NULL;
}

static int lane_order_make_stream(struct lane *native)
{
	struct comm *comm = native->comm;

	if (!native->context->devices)
		return error_set(COLL_ERR_UNSUPPORTED, "this process has no CUDA driver");
	return comm->order_stream
		       ? COLL_SUCCESS
		       : caller_stream_make(native->context->device, &comm->order_stream);
}

/* The backend's own stream waits for the order stream, which waits for the host lane. */
static int lane_order_join(struct lane *native, const struct order_point *point)
{
	struct caller_stream found;
	int code = lane_order_make_stream(native);

	if (!code)
		code = caller_stream_find("coll_stream_wait_event", native->comm->order_stream,
					  &traffic_of(native->context)->home, NULL, &found);
	if (!code)
		code = order_point_hold(point, native, &found);
	/* Calls on host memory, also the call for which the order stream waits, may wait for the operations before it. */
	if (!code)
		code = native_mark_wanted(native);
	return code ? code : native_join(native, NULL, native->comm->order_stream);
}

int lane_order_hold(struct lane *native, const struct order_point *point)
{
	int code = order_point_result(point, native, 0);

	/* The host lane's calls may wait for operations of the native lane, so the thread leaves that to wait. */
	if (code == COLL_IN_PROGRESS && lane_order_join(native, point)) {
		context_leave(native->context);
		code = order_point_result(point, native, 1);
		context_enter(native->context);
	}
	if (!code || code == COLL_IN_PROGRESS)
		return COLL_SUCCESS;
	comm_fail(native, 0, code, "rank %d waits for an event of a communicator that failed: %s",
		  native->comm->rank, error_text());
	return comm_error(native);
}

/* ---------------------------------------------------------------------- staged calls -- */

/* All issued operations are in the hands of the backend; an error if an open group defers some. */
static int lane_order_flush(struct lane *native)
{
	queue_run(native);
	if (native->queue.head)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "another thread has a group with operations of the communicator "
				 "open: call coll_group_end there first");
	return comm_error(native);
}

/* The order stream waits for the operations before the call, and for the work on the call's stream. */
static int lane_order_stage_stream(struct lane *native, coll_args_t *args)
{
	const char *what = kind_name(args->kind);
	struct caller_stream found;
	void *stream;
	int code = lane_order_flush(native);

	if (!code && args->stream)
		code = caller_stream_find(what, args->stream, &traffic_of(native->context)->home,
					  NULL, &found);
	if (!code && args->stream)
		code = caller_stream_check(what, &found);
	if (!code)
		code = lane_order_make_stream(native);
	stream = native->comm->order_stream;
	/* Marks the backend's own stream as busy: it is not empty again before the staged call ends. */
	if (!code)
		code = native_mark(native);
	if (!code)
		code = native_order_stream(native, stream);
	if (!code)
		code = native_join(native, stream, NULL);
	if (!code && args->stream)
		code = native_join(native, stream, args->stream);
	args->stream = stream;
	return code;
}

int lane_order_stage(struct lane *native, coll_args_t *args)
{
	const struct order_point here = {native->comm->outcome, LANE_FIRST, native->issued};

	if (group_current())
		return host_memory_refuse(args, "in a group: call it before or after the group");
	return lane_order_has_streams(native) ? lane_order_stage_stream(native, args)
					      : lane_order_add(native, &here, NULL);
}

/* An issued call of the host lane cannot get its order.  Its caller is told, so the host lane ends its operations before that. */
static int lane_order_lost(struct lane *native, int code)
{
	struct rank_name name;
	struct lane *host;

	comm_fail(native, 0, code, "%s: %s", comm_own_name(native, &name), error_text());
	host = lane_go_host(native);
	lane_check_other(host);
	(void)lane_go_native(host);
	return comm_error(native);
}

/* Later calls of the native lane wait for an operation of the host lane. */
static int lane_order_await(struct lane *native, uint64_t number)
{
	const struct order_point there = {outcome_ref(native->comm->outcome), LANE_HOST, number};
	const int code = await_issue(native, &there, NULL);

	if (code)
		outcome_unref(there.outcome);
	return code ? lane_order_lost(native, code) : COLL_SUCCESS;
}

int lane_order_follow(struct lane *native, uint64_t number)
{
	if (!lane_has_one_order(native) || !number)
		return COLL_SUCCESS;
	lane_note_staged(native, number);
	return lane_order_await(native, number);
}

int lane_order_staged(struct lane *native, const coll_args_t *args, uint64_t number)
{
	struct comm *comm = native->comm;
	int code;

	if (number > comm->staged_number) { /* else another thread has noted a later operation */
		comm->staged_after = native->issued;
		comm->staged_number = number;
	}
	lane_note_staged(native, number);
	if (!lane_order_has_streams(native))
		return lane_order_await(native, number);
	code = native_order_stream(native, comm->order_stream);
	if (!code)
		code = native_join(native, NULL, comm->order_stream);
	if (!code && args->stream)
		code = native_join(native, args->stream, comm->order_stream);
	return code ? lane_order_lost(native, code) : comm_error(native);
}

const struct lane_client lane_order = {
	.begin = lane_order_begin,
	.stage = lane_order_stage,
	.staged = lane_order_staged,
	.follow = lane_order_follow,
	.free = lane_order_free,
};
