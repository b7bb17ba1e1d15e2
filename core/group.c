/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - groups belong to a thread: their state is the only thread-local state besides errors.
 */
#include "group.h"
#include "engine.h"
#include "error.h"
#include "split.h"

#include <stdlib.h>

static _Atomic uint64_t group_numbers;
static _Thread_local struct {
	uint64_t number; /* 0: none open */
	int depth;
	int n, cap;
	int natives; /* of the communicators, those whose backend has no transport */
	coll_comm_t *comms;
	struct split *splits, **last_split;
} group;

uint64_t group_current(void)
{
	return group.number;
}

int group_join(struct comm *comm)
{
	coll_comm_t *bigger;

	if (!group.number)
		return COLL_SUCCESS;
	for (int i = 0; i < group.n; i++)
		if (group.comms[i] == comm->handle)
			return COLL_SUCCESS;
	if (group.n == group.cap) {
		bigger = realloc(group.comms, (size_t)(group.cap + 16) * sizeof(*bigger));
		if (!bigger)
			return error_set(COLL_ERR_NO_MEMORY, "no memory for a group");
		group.comms = bigger;
		group.cap += 16;
	}
	group.comms[group.n++] = comm->handle;
	group.natives += comm->native != NULL;
	return COLL_SUCCESS;
}

void group_add_split(struct split *split)
{
	*split_next(split) = NULL;
	*group.last_split = split;
	group.last_split = split_next(split);
}

coll_result_t coll_group_start(void)
{
	if (!group.depth++) {
		group.number = atomic_fetch_add(&group_numbers, 1) + 1;
		group.splits = NULL;
		group.last_split = &group.splits;
	}
	return COLL_SUCCESS;
}

/* Starts what the group holds on one communicator; a backend of its own may merge it. */
static int group_begin(coll_comm_t handle, uint64_t number)
{
	struct comm *comm = comm_enter(handle, "coll_group_end");
	int code;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	native_hold(comm);
	queue_native_group(comm, 0);
	op_release(comm, number);
	queue_issued(comm);
	code = comm_error(comm);
	comm_leave(comm);
	return code;
}

static int group_finish(coll_comm_t handle, int settled)
{
	struct comm *comm = comm_enter(handle, "coll_group_end");
	int code;

	if (!comm)
		return COLL_ERR_INVALID_ARGUMENT;
	queue_native_group(comm, 1);
	if (settled)
		native_unhold(comm);
	code = comm_error(comm);
	comm_leave(comm);
	return code;
}

/* The backend's groups of one thread may be one: what they hold has begun when all have ended. */
static void group_settle(coll_comm_t handle)
{
	struct comm *comm = comm_enter(handle, "coll_group_end");

	if (!comm)
		return;
	native_unhold(comm);
	comm_leave(comm);
}

coll_result_t coll_group_end(void)
{
	struct error_first first = {0};
	uint64_t number = group.number;
	int several = group.natives > 1;

	if (!group.depth)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "coll_group_end without a coll_group_start in this thread");
	if (--group.depth)
		return COLL_SUCCESS;
	group.number = 0;
	for (int i = 0; i < group.n; i++)
		error_note(&first, group_begin(group.comms[i], number));
	for (int i = 0; i < group.n; i++)
		error_note(&first, group_finish(group.comms[i], !several));
	for (int i = 0; several && i < group.n; i++)
		group_settle(group.comms[i]);
	if (group.splits)
		error_note(&first, split_end_all(group.splits));
	free(group.comms);
	group.comms = NULL;
	group.n = group.cap = group.natives = 0;
	return error_raise(&first);
}
