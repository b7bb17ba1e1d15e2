/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - groups: they belong to a thread, whose only other state is its last error. */
#include "api/group.h"
#include "comm/engines.h"
#include "comm/lane.h"
#include "comm/queue.h"
#include "comm/moving.h"
#include "base/array.h"
#include "base/error.h"
#include "base/handle.h"
#include "api/derive.h"
#include "api/overlap.h"

#include <stdlib.h>

struct member {
	coll_comm_t handle;
	int lane_index;
	struct lane *lane;           /* while the group begins: its handle is pinned */
	struct order_group *streams; /* its calls that have streams; or NULL */
};

static _Atomic uint64_t group_numbers;
/* A lane is a member twice if another thread has used it in a group of its own meanwhile: it is begun twice then. */
static _Thread_local struct {
	int depth;
	int n, cap;
	int natives; /* members whose backend has functions of its own */
	struct member *members;
	struct split *splits, **last_split;
	int (*end_splits)(struct split *list);
} group;

int group_join(struct lane *lane)
{
	const uint64_t number = group_current();
	struct member *members;
	uint64_t before;

	if (!number || lane->joined == number)
		return COLL_SUCCESS;
	if (lane_host(lane) && lane_has_one_order(lane) && lane_before_group(lane, number, &before))
		return COLL_ERR_NO_MEMORY;
	members = array_grow(group.members, group.n, &group.cap, sizeof(*members));
	if (!members)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a group");
	group.members = members;
	group.members[group.n++] =
		(struct member){.handle = lane->comm->handle, .lane_index = lane->index};
	group.natives += lane_native(lane) != NULL;
	lane->joined = number;
	return COLL_SUCCESS;
}

void group_add_split(struct split *split, int (*end_all)(struct split *list))
{
	group.end_splits = end_all;
	split->next = NULL;
	*group.last_split = split;
	group.last_split = &split->next;
}

coll_result_t coll_group_start(void)
{
	if (!group.depth++) {
		group_set_current(atomic_fetch_add(&group_numbers, 1) + 1);
		group.splits = NULL;
		group.last_split = &group.splits;
	}
	return COLL_SUCCESS;
}

/* The handle stays pinned until all operations of the group have begun: coll_comm_destroy waits so long. */
static int group_enter(struct member *m, uint64_t number)
{
	m->lane = comm_enter_lane(m->handle, m->lane_index, "coll_group_end");
	if (!m->lane)
		return error_code();
	m->streams = m->lane->client->group ? m->lane->client->group(m->lane, number) : NULL;
	m->lane->deferred++;
	return COLL_SUCCESS;
}

/*
 * Puts the first half of every communicator's work on the streams before any second half, since communicators may share
 * a stream.  From now on no member is polled: the first group of the backend's own that begins belongs to the thread, and
 * the operations of one member may move those of another on the same connections.  A communicator that cannot be entered
 * is tried again in its turn: the group reports the first error in the order of its calls.
 */
static void group_enter_all(uint64_t number)
{
	for (int i = 0; i < group.n; i++)
		if (!group_enter(&group.members[i], number))
			context_leave(group.members[i].lane->context);
}

/* Starts the group's operations on one communicator, inside a group of the backend's own if it has groups. */
static int group_begin(struct member *m, uint64_t number)
{
	struct lane *lane;
	int code;

	if (m->lane)
		context_enter(m->lane->context);
	else if (group_enter(m, number))
		return error_code();
	lane = m->lane;
	if (lane->client->group_end)
		lane->client->group_end(lane, number, m->streams);
	engines_group_begin(lane);
	op_release(lane, number);
	queue_issued(lane);
	code = comm_error(lane);
	context_leave(lane->context);
	return code;
}

static int group_finish(struct lane *lane, int alone)
{
	int code;

	if (!lane)
		return COLL_SUCCESS;
	context_enter(lane->context);
	engines_group_end(lane);
	if (alone)
		lane->deferred--;
	code = comm_error(lane);
	context_leave(lane->context);
	return code;
}

/*
 * A backend may merge all groups of one thread: then their operations have begun when the last group has
 * ended, and only now may the backend be polled.
 */
static void group_unpin(struct lane *lane, int alone)
{
	if (!lane)
		return;
	if (!alone) {
		context_enter(lane->context);
		lane->deferred--;
		context_leave(lane->context);
	}
	handle_unpin(lane->comm->handle);
}

/* Later calls of the native lane have their order with the group's calls of the host lane. */
static int group_follow(struct lane *host)
{
	struct lane *native;
	uint64_t number;
	int code;

	if (!host || host->index != LANE_HOST || !lane_has_one_order(lane_other(host)))
		return COLL_SUCCESS;
	context_enter(host->context);
	number = host->issued;
	native = lane_go_native(host);
	code = native->client->lanes->follow(native, number);
	context_leave(native->context);
	return code;
}

coll_result_t coll_group_end(void)
{
	struct error_first first = {0};
	uint64_t number = group_current();
	int alone = group.natives < 2;

	if (!group.depth)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "coll_group_end without a coll_group_start in this thread");
	if (--group.depth)
		return COLL_SUCCESS;
	group_set_current(0);
	if (group.n > 1)
		group_enter_all(number);
	for (int i = 0; i < group.n; i++)
		error_note(&first, group_begin(&group.members[i], number));
	for (int i = 0; i < group.n; i++)
		error_note(&first, group_finish(group.members[i].lane, alone));
	for (int i = 0; i < group.n; i++)
		error_note(&first, group_follow(group.members[i].lane));
	for (int i = 0; i < group.n; i++)
		group_unpin(group.members[i].lane, alone);
	if (group.splits)
		error_note(&first, group.end_splits(group.splits));
	free(group.members);
	group.members = NULL;
	group.n = group.cap = group.natives = 0;
	overlap_forget();
	lane_forget_group();
	return error_raise(&first);
}
