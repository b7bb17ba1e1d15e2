/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.h - the two lanes of a communicator of a backend without a transport.
 *
 * A lane is a queue of operations on one endpoint, under the lock of the endpoint's context; a struct comm is one lane.
 * Most communicators have one lane for all memory.  A communicator of a backend without a transport has two:
 *
 *     the native lane (LANE_FIRST)   the backend executes its calls; the handle leads to this lane
 *     the host lane (LANE_HOST)      over context->host_context: calls on host memory, and calls that the library stages
 *                                    through host memory since the backend lacks them
 *
 * Both lanes have one handle, which pins both, and one outcome (comm/outcome.h), which holds the one failure.  The lane
 * that fails first ends its own operations and wakes the other lane, which ends its operations, under its own lock, when
 * it moves next.
 *
 * A thread takes the native lane's lock before the host lane's.  A thread that has the host lane's lock only tries to take
 * the native lane's, for a moment.
 */
#ifndef CORE_COMM_LANE_H
#define CORE_COMM_LANE_H

#include "comm/comm.h"

struct lane_wait;

/*
 * The order of calls between the two lanes, for which streams may wait: event/lane_order.h says what each function does.  The
 * native lane is entered in all but `free`.
 */
struct lane_client {
	int (*begin)(struct comm *native);
	int (*stage)(struct comm *native, coll_args_t *args);
	int (*staged)(struct comm *native, const coll_args_t *args, uint64_t number);
	void (*free)(struct comm *native);
};

/* What the two lanes know of each other. */
struct lanes {
	struct comm *native, *host;
	/*
	 * The native lane's lock guards these: the last operation of the host lane, 0: none; and 1 more than `issued` of the
	 * native lane when that operation was issued, so that the host lane has the newest operation of both if
	 * host_issued == native->issued + 1.
	 */
	uint64_t host_number, host_issued;
	/* The last operation of the host lane that stages device memory, 0: none; and `issued` of the native lane before it. */
	uint64_t staged_number, staged_after;
	/* What the next operation of the host lane waits for, and the stream that is ordered with it: see event/lane_order.h. */
	struct lane_wait *waits;
	void *order_stream;
	/* The last operation of the host lane that has a place in both lanes, and the last for which a stream waits; 0: none. */
	_Atomic uint64_t staged, held;
	/* The host lane's lock guards these. */
	uint64_t native_seen; /* of lane_moves(host) */
	int driven;           /* see lane_drive */
};

/* Makes `host`, which is new, the host lane of `native`, which takes it over.  Nobody else knows either lane. */
int lane_join(struct comm *native, struct comm *host);
/*
 * The native lane forgets the host lane, which is freed next, and which it returns; NULL: there is none.  No lock is held,
 * and the handle is not valid any more.
 */
struct comm *lane_part(struct comm *native);
/* The host lane of a native lane, or NULL. */
static inline struct comm *lane_host(const struct comm *comm)
{
	return comm->lanes && comm->lane == LANE_FIRST ? comm->lanes->host : NULL;
}
/* The lane of a communicator with this index; `first` is the lane to which the handle leads. */
static inline struct comm *lane_at(struct comm *first, int lane)
{
	return lane == LANE_FIRST ? first : first->lanes->host;
}

/* --- failures.  The lock of the lane is held. */

/* The lane has failed: wakes the other lane.  Accepts a communicator of one lane, as the next function does. */
void lane_wake_other(const struct comm *comm);
/* Ends the lane if the other lane has failed. */
void lane_check(struct comm *comm);

/* --- the other lane.  The lock of the lane is held. */

/*
 * Takes the lock of the other lane too, to read it: NULL without another lane, or if the lock is not free soon.
 */
struct comm *lane_lock_other(const struct comm *comm);
void lane_unlock_other(struct comm *other);
/*
 * For waits: how far the other lane has come, while a call with a place in both is under way; else it does not change.
 */
uint64_t lane_moves(const struct comm *comm);

/* --- between the lanes.  The functions leave the lane that is entered, enter its other lane, and return that lane. */

/* The place of an issued operation: its lane, and its number there. */
struct issued {
	int lane; /* LANE_* */
	uint64_t number;
};

struct comm *lane_go_host(struct comm *native);
/* The native lane learns of a failure of the host lane. */
struct comm *lane_go_native(struct comm *host);
/* lane_go_host for a native lane of two; returns any other lane as it is. */
struct comm *lane_switch(struct comm *comm);

/* --- the host lane of a native lane, whose lock is held */

/* Operation `number` of the host lane is the newest one of both, unless a later one of the host lane is noted. */
void lane_note_issued(struct comm *native, uint64_t number);
/* The newest operation of both.  Accepts a communicator of one lane. */
struct issued lane_newest(const struct comm *comm);
/* Waits for operation `number` of the host lane; 0: for all of them.  The thread leaves the native lane's lock while it waits. */
int lane_wait_host(struct comm *native, uint64_t number);

/* Operation `number` of the host lane has a place in both (event/lane_order.h). */
void lane_note_staged(const struct comm *native, uint64_t number);
/* A stream waits for operation `number` of a lane, whose lock is held.  Accepts any lane. */
void lane_note_held(const struct comm *host, uint64_t number);
/*
 * The last operation of the host lane for which a stream may wait, or 0.  The lock is held, or the handle pinned.  Accepts
 * any lane: 0.
 */
uint64_t lane_streams_wait(const struct comm *comm);
/* lanes->staged_number is not 0: waits for that staged call. */
int lane_wait_staged(struct comm *native);
/*
 * The backend will be aborted, which would wait for streams that wait for calls of the host lane: these streams wait no
 * longer.  The lock is held, or the handle pinned.  Accepts any lane.
 */
void lane_release_streams(const struct comm *comm);
/*
 * A thread that has both locks drives the host lane: operations there that wait for operations of the native lane read its
 * state, for which they cannot take the lock.
 */
void lane_drive(struct comm *native);
/*
 * A program that only asks, again and again, is the one that moves calls on host memory, for which a late rank may wait.
 * Moves the calls that are under way on all host lanes beside a native context.  comm: it is entered; NULL: no communicator is.
 */
void lane_help(struct context *native, struct comm *comm);
/* Moves the host lane, and asks the other ranks where they are.  Accepts any lane. */
void lane_progress(struct comm *comm);
/* Is the thread that has the lock of the host lane in lane_drive of the native one? */
int lane_is_driven(const struct comm *host, const struct comm *native);

#endif
