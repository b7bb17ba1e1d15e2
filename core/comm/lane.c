/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.c - what the two lanes of a communicator know of each other: failures, order, waits. */
#include "comm/lane.h"
#include "base/array.h"
#include "base/error.h"
#include "comm/comm_wait.h"

#include <stdlib.h>

/* A thread that waits for the backend holds the lock for a millisecond at a time. */
enum { LANE_LOOK_MS = 5 };

struct lane *lane_part(struct lane *native)
{
	struct lane *host = lane_host(native);

	if (!host)
		return NULL;
	context_lock(native->context);
	native->comm->lane[LANE_HOST] = NULL;
	context_leave(native->context);
	return host;
}

/* ------------------------------------------------------------------------- failures -- */

void lane_wake_other(const struct lane *lane)
{
	const struct lane *other = lane_other(lane);

	if (other && other->index == LANE_FIRST)
		context_failed(other->context);
	else if (other)
		context_notify(other->context);
}

void lane_check_other(struct lane *lane)
{
	if (!lane->error && lane_other(lane) && atomic_load(&lane->comm->outcome->code))
		lane_end(lane, 0);
}

/* -------------------------------------------------------------------- the other lane -- */

struct lane *lane_lock_other(const struct lane *lane)
{
	struct lane *other = lane_other(lane);

	if (!other || lane->leaving)
		return NULL;
	if (!wait_holds(other->context) && !context_lock_within(other->context, LANE_LOOK_MS))
		return NULL;
	return other;
}

void lane_unlock_other(struct lane *other)
{
	if (!wait_holds(other->context))
		lock_release(&other->context->lock);
}

/*
 * For the other lane's lock beside the own.  Returns 0 if a thread keeps it: that thread computes in a function of the program, or has
 * left the library by a jump, and a wait without a limit for it would be one for the own lane too.
 */
static int lane_lock_briefly(struct context *context)
{
	return lock_try(&context->lock) || context_lock_within(context, LANE_LOOK_MS);
}

static uint64_t lane_host_moves(struct lane *host)
{
	const uint64_t staged = atomic_load(&host->comm->staged);
	struct comm *comm = host->comm;

	if (lane_lock_briefly(host->context)) {
		/* The calls behind the staged one do not count. */
		comm->host_moves = host->finished > staged ? staged : lane_own_moves(host);
		context_leave(host->context);
	}
	return comm->host_moves;
}

uint64_t lane_moves(const struct lane *lane)
{
	struct comm *comm = lane->comm;
	struct lane *other = lane_other(lane);

	if (!other || !atomic_load(&comm->staged))
		return 0;
	if (other->index == LANE_HOST)
		return lane_host_moves(other);
	if (lane->finished < atomic_load(&comm->staged) && lock_try(&other->context->lock)) {
		comm->first_moves = lane_own_moves(other);
		lock_release(&other->context->lock);
	}
	return comm->first_moves;
}

/* ------------------------------------------------------------ between the two locks -- */

struct lane *lane_go_host(struct lane *native)
{
	struct lane *host = native->comm->lane[LANE_HOST];

	context_leave(native->context);
	context_enter(host->context);
	return host;
}

struct lane *lane_switch(struct lane *lane)
{
	return lane_host(lane) ? lane_go_host(lane) : lane;
}

struct lane *lane_go_native(struct lane *host)
{
	struct lane *native = host->comm->lane[LANE_FIRST];

	context_leave(host->context);
	context_enter(native->context);
	lane_check_other(native);
	return native;
}

/* What lane_before_group has found for the open group of the calling thread. */
struct lane_before {
	coll_comm_t comm;
	uint64_t number;
};

static _Thread_local struct {
	uint64_t group;
	int n, cap;
	struct lane_before *all;
} lane_group;

static struct lane_before *lane_find_before(const struct comm *comm, uint64_t group)
{
	if (lane_group.group != group)
		lane_group.n = 0;
	lane_group.group = group;
	for (int i = lane_group.n - 1; i >= 0; i--)
		if (lane_group.all[i].comm == comm->handle)
			return &lane_group.all[i];
	return NULL;
}

int lane_before_group(const struct lane *native, uint64_t group, uint64_t *number)
{
	const struct lane_before *found = lane_find_before(native->comm, group);
	struct lane_before *all;

	*number = found ? found->number : native->issued;
	if (found)
		return COLL_SUCCESS;
	all = array_grow(lane_group.all, lane_group.n, &lane_group.cap, sizeof(*all));
	if (!all)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a group");
	lane_group.all = all;
	lane_group.all[lane_group.n++] = (struct lane_before){native->comm->handle, *number};
	return COLL_SUCCESS;
}

void lane_forget_group(void)
{
	free(lane_group.all);
	lane_group.all = NULL;
	lane_group.n = lane_group.cap = 0;
}

void lane_note_issued(struct lane *native, uint64_t number)
{
	struct comm *comm = native->comm;

	if (number <= comm->host_number) /* another thread has noted a later operation */
		return;
	comm->host_issued = native->issued + 1;
	comm->host_number = number;
}

struct issued lane_newest(const struct lane *lane)
{
	const struct comm *comm = lane->comm;

	if (!comm->host_issued || comm->host_issued != lane->issued + 1)
		return (struct issued){LANE_FIRST, lane->issued};
	return (struct issued){LANE_HOST, comm->host_number};
}

int lane_wait_host(struct lane *native, uint64_t number)
{
	struct lane *host;
	int code;

	if (!native->comm->host_issued)
		return COLL_SUCCESS;
	host = lane_go_host(native);
	code = lane_wait(host, number ? number : host->issued, 0);
	(void)lane_go_native(host);
	return code;
}

/* ----------------------------------------------------------------------- the host lane -- */

/* Another thread may have noted a later number. */
static void lane_raise(_Atomic uint64_t *noted, uint64_t number)
{
	if (number > atomic_load(noted))
		atomic_store(noted, number);
}

void lane_note_staged(const struct lane *native, uint64_t number)
{
	lane_raise(&native->comm->staged, number);
}

void lane_note_stream_wait(const struct lane *host, uint64_t number)
{
	lane_raise(&host->comm->stream_wait, number);
}

uint64_t lane_streams_wait(const struct lane *lane)
{
	uint64_t staged, stream_wait;

	if (!lane_host(lane))
		return 0;
	staged = atomic_load(&lane->comm->staged);
	stream_wait = atomic_load(&lane->comm->stream_wait);
	return staged > stream_wait ? staged : stream_wait;
}

int lane_wait_staged(struct lane *native)
{
	struct comm *comm = native->comm;
	const uint64_t number = comm->staged_number;
	int code = lane_wait(native, comm->staged_after, 0);

	if (!code)
		code = lane_wait_host(native, number);
	if (comm->staged_number == number) /* another thread may have issued one */
		comm->staged_number = 0;
	return code;
}

void lane_release_streams(const struct lane *lane)
{
	const uint64_t number = lane_streams_wait(lane);
	struct lane *host = number ? lane->comm->lane[LANE_HOST] : NULL;

	if (host && host->order)
		host->client->release(host, number);
}

void lane_drive(struct lane *lane)
{
	struct context *const own = lane->context, *const other = lane_other(lane)->context;
	struct context *const before = own->driven_with; /* drives `own` */

	other->now_is_recent = 0;
	own->driven_with = other;
	other->driven_with = own;
	context_progress(other);
	other->driven_with = NULL;
	own->driven_with = before;
}

void lane_help(struct context *native, struct lane *lane)
{
	struct context *host = native->host_context;

	if (!host || !lane_lock_briefly(host))
		return;
	context_entered(host);
	if ((host->busy || host->resting) && lane && lane_host(lane))
		lane_drive(lane);
	else if (host->busy || host->resting)
		context_progress(host);
	context_leave(host);
	if (lane)
		lane_check_other(lane);
}

void lane_help_other(struct lane *lane)
{
	struct lane *other = lane_other(lane);

	if (!other)
		return;
	if (lane->index == LANE_FIRST) {
		lane_help(lane->context, lane);
	} else if (lane_has_one_order(other) && lock_try(&other->context->lock)) {
		lane_drive(lane);
		lock_release(&other->context->lock);
		lane_check_other(lane);
	}
}

void lane_progress(struct lane *lane)
{
	struct lane *host = lane_host(lane);

	if (!host || !lane_lock_briefly(host->context))
		return;
	context_entered(host->context);
	lane_drive(lane);
	(void)host->client->ask_outside(host);
	context_leave(host->context);
	lane_check_other(lane);
}

int lane_is_driven(const struct lane *lane, const struct lane *other)
{
	return lane->context->driven_with == other->context;
}
