/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.c - what the two lanes of a communicator know of each other: failures, places, waits. */
#include "comm/lane.h"
#include "base/error.h"
#include "comm/comm_wait.h"

#include <stdlib.h>

/* A thread that waits for the backend holds the lock for a millisecond at a time. */
enum { LANE_LOOK_MS = 5 };

int lane_join(struct comm *native, struct comm *host)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));

	if (!lanes)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	lanes->native = native;
	lanes->host = host;
	native->lanes = lanes;
	outcome_unref(native->outcome);
	native->outcome = outcome_ref(host->outcome);
	context_lock(host->context); /* its progress thread knows the host lane */
	host->lane = LANE_HOST;
	host->lanes = lanes;
	if (host->error) /* another rank has told of a failure meanwhile */
		lane_wake_other(host);
	context_leave(host->context);
	return COLL_SUCCESS;
}

struct comm *lane_part(struct comm *native)
{
	struct comm *host = lane_host(native);

	if (!host)
		return NULL;
	context_lock(native->context);
	native->lanes->host = NULL;
	context_leave(native->context);
	return host;
}

/* ------------------------------------------------------------------------- failures -- */

void lane_wake_other(const struct comm *comm)
{
	struct lanes *lanes = comm->lanes;

	if (!lanes)
		return;
	if (comm->lane == LANE_HOST)
		context_failed(lanes->native->context);
	else if (lanes->host)
		context_notify(lanes->host->context);
}

/* The ranks that the control channel has lost: the host lane's endpoint may not know of it yet. */
static void lane_note_lost(struct comm *host)
{
	const struct context *native = host->lanes->native->context;

	for (int r = 0; r < host->nranks; r++) {
		if (host->peer_state[r] >= PEER_LEFT || !context_has_lost(native, r))
			continue;
		host->peer_state[r] = PEER_FAILED;
		if (!host->leaving)
			comm_send_lost(host, r);
	}
}

/* What the control channel knows of a failure waits for a call on the native lane: this may be the only thread. */
static void lane_help_native(const struct comm *host)
{
	struct context *native = host->lanes->native->context;

	if (!atomic_load(&native->alarm.ended) || atomic_load(&host->outcome->code) ||
	    !lock_try(&native->lock))
		return;
	native->now_is_recent = 0;
	context_check(native);
	lock_release(&native->lock);
}

void lane_check(struct comm *comm)
{
	if (!comm->lanes)
		return;
	if (comm->lane == LANE_HOST) {
		lane_note_lost(comm);
		lane_help_native(comm);
	}
	if (!comm->error && atomic_load(&comm->outcome->code))
		comm_end_lane(comm, 0);
}

/* -------------------------------------------------------------------- the other lane -- */

struct comm *lane_lock_other(const struct comm *comm)
{
	struct comm *other;

	if (!comm->lanes || comm->leaving)
		return NULL;
	other = comm->lane == LANE_FIRST ? comm->lanes->host : comm->lanes->native;
	if (!wait_holds(other->context) && !context_lock_within(other->context, LANE_LOOK_MS))
		return NULL;
	return other;
}

void lane_unlock_other(struct comm *other)
{
	if (!wait_holds(other->context))
		lock_release(&other->context->lock);
}

static uint64_t lane_place(const struct comm *comm)
{
	return comm->steps + comm->finished;
}

static uint64_t lane_host_moves(struct lanes *lanes)
{
	const uint64_t staged = atomic_load(&lanes->staged);
	struct comm *host = lanes->host;
	uint64_t moves;

	context_lock(host->context);
	/* The calls behind the staged one do not count. */
	moves = host->finished > staged ? staged : lane_place(host);
	context_leave(host->context);
	return moves;
}

uint64_t lane_moves(const struct comm *comm)
{
	struct lanes *lanes = comm->lanes;
	struct context *native;

	if (!lanes || !atomic_load(&lanes->staged))
		return 0;
	if (comm->lane == LANE_FIRST)
		return lanes->host ? lane_host_moves(lanes) : 0;
	native = lanes->native->context;
	if (comm->finished < atomic_load(&lanes->staged) && lock_try(&native->lock)) {
		lanes->native_seen = lane_place(lanes->native);
		lock_release(&native->lock);
	}
	return lanes->native_seen;
}

/* ------------------------------------------------------------ between the two locks -- */

struct comm *lane_go_host(struct comm *native)
{
	struct comm *host = native->lanes->host;

	context_leave(native->context);
	context_enter(host->context);
	return host;
}

struct comm *lane_switch(struct comm *comm)
{
	return lane_host(comm) ? lane_go_host(comm) : comm;
}

struct comm *lane_go_native(struct comm *host)
{
	struct comm *native = host->lanes->native;

	context_leave(host->context);
	context_enter(native->context);
	lane_check(native);
	return native;
}

void lane_note_issued(struct comm *native, uint64_t number)
{
	struct lanes *lanes = native->lanes;

	if (number <= lanes->host_number) /* another thread has noted a later one */
		return;
	lanes->host_issued = native->issued + 1;
	lanes->host_number = number;
}

struct issued lane_newest(const struct comm *comm)
{
	const struct lanes *lanes = comm->lanes;

	if (!lanes || !lanes->host_issued || lanes->host_issued != comm->issued + 1)
		return (struct issued){LANE_FIRST, comm->issued};
	return (struct issued){LANE_HOST, lanes->host_number};
}

int lane_wait_host(struct comm *native, uint64_t number)
{
	struct comm *host;
	int code;

	if (!native->lanes->host_issued)
		return COLL_SUCCESS;
	host = lane_go_host(native);
	code = comm_wait(host, number ? number : host->issued);
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

void lane_note_staged(const struct comm *native, uint64_t number)
{
	lane_raise(&native->lanes->staged, number);
}

void lane_note_held(const struct comm *host, uint64_t number)
{
	if (host->lanes)
		lane_raise(&host->lanes->held, number);
}

uint64_t lane_streams_wait(const struct comm *comm)
{
	uint64_t staged, held;

	if (!lane_host(comm))
		return 0;
	staged = atomic_load(&comm->lanes->staged);
	held = atomic_load(&comm->lanes->held);
	return staged > held ? staged : held;
}

int lane_wait_staged(struct comm *native)
{
	struct lanes *lanes = native->lanes;
	const uint64_t number = lanes->staged_number;
	int code = comm_wait(native, lanes->staged_after);

	if (!code)
		code = lane_wait_host(native, number);
	if (lanes->staged_number == number) /* another thread may have issued one */
		lanes->staged_number = 0;
	return code;
}

void lane_release_streams(const struct comm *comm)
{
	const uint64_t number = lane_streams_wait(comm);
	struct comm *host = number ? comm->lanes->host : NULL;

	if (host && host->order)
		host->client->release(host, number);
}

void lane_drive(struct comm *native)
{
	struct context *host = native->lanes->host->context;

	host->now_is_recent = 0;
	native->lanes->driven = 1;
	context_progress(host);
	native->lanes->driven = 0;
}

void lane_help(struct context *native, struct comm *comm)
{
	struct context *host = native->host_context;

	if (!host)
		return;
	context_enter(host);
	if ((host->busy || host->resting) && comm && lane_host(comm))
		lane_drive(comm);
	else if (host->busy || host->resting)
		context_progress(host);
	context_leave(host);
	if (comm)
		lane_check(comm);
}

void lane_progress(struct comm *comm)
{
	struct comm *host = lane_host(comm);

	if (!host)
		return;
	context_enter(host->context);
	lane_drive(comm);
	(void)host->client->ask_outside(host);
	context_leave(host->context);
	lane_check(comm);
}

int lane_is_driven(const struct comm *host, const struct comm *native)
{
	return host->lanes && host->lanes == native->lanes && host->lanes->driven;
}
