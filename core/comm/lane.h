/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.h - the two lanes of a communicator of a backend without a transport.
 *
 * Most communicators have one lane for all memory.  A communicator of a backend without a transport has two:
 *
 *     the native lane (LANE_FIRST)   the backend executes its calls; comm_enter enters this lane
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

/*
 * The order of calls between the two lanes, for which streams may wait: event/lane_order.h says what each function does.  The
 * native lane is entered in all but `free`.
 */
struct lane_client {
	int (*begin)(struct lane *native);
	int (*stage)(struct lane *native, coll_args_t *args);
	int (*staged)(struct lane *native, const coll_args_t *args, uint64_t number);
	int (*follow)(struct lane *native, uint64_t number);
	void (*free)(struct lane *native);
};

/*
 * The native lane forgets the host lane, which is freed next.  Returns the host lane, or NULL: there is none.  No lock
 * is held, and the handle is not valid any more.
 */
struct lane *lane_part(struct lane *native);
/* The other lane of the communicator, or NULL. */
static inline struct lane *lane_other(const struct lane *lane)
{
	return lane->comm->lane[LANE_HOST - lane->index];
}
/* The host lane of a native lane, or NULL. */
static inline struct lane *lane_host(const struct lane *lane)
{
	return lane->index == LANE_FIRST ? lane->comm->lane[LANE_HOST] : NULL;
}

/* Does the backend of a native lane take host memory too?  Then the lanes share buffers, and all calls have one order. */
static inline int lane_has_one_order(const struct lane *native)
{
	return (native->context->memory & COLL_MEM_HOST) != 0;
}

/* --- failures.  The lock of the lane is held. */

/* The lane has failed: wakes the other lane.  Accepts the lane of a communicator of one lane, as the next function does. */
void lane_wake_other(const struct lane *lane);
/* Ends the lane if the other lane has failed. */
void lane_check_other(struct lane *lane);

/* --- the other lane.  The lock of the lane is held. */

/*
 * Takes the lock of the other lane too, to read it.  Returns NULL without another lane, or if the lock is not free
 * soon.
 */
struct lane *lane_lock_other(const struct lane *lane);
void lane_unlock_other(struct lane *other);
/*
 * For waits: how far the other lane has come, while a call in the order of both is under way; else it does not change.
 */
uint64_t lane_moves(const struct lane *lane);

/* --- between the lanes.  The functions leave the lane that is entered, enter its other lane, and return that lane. */

/* An issued operation: its lane, and its number in the issue order of the lane. */
struct issued {
	int lane_index; /* LANE_* */
	uint64_t number;
};

struct lane *lane_go_host(struct lane *native);
/* The native lane learns of a failure of the host lane. */
struct lane *lane_go_native(struct lane *host);
/* lane_go_host for a native lane of two; returns any other lane as it is. */
struct lane *lane_switch(struct lane *lane);

/*
 * *number becomes the last operation of a native lane before the open group of this thread: `issued` at the group's first
 * call of either lane.  The native lane is entered.  COLL_ERR_NO_MEMORY.
 */
int lane_before_group(const struct lane *native, uint64_t group, uint64_t *number);
/* The thread's group has ended. */
void lane_forget_group(void);

/* --- the host lane of a native lane, whose lock is held */

/*
 * Operation `number` of the host lane is the newest operation of both lanes, unless a later operation of the host lane
 * is noted.
 */
void lane_note_issued(struct lane *native, uint64_t number);
/* The newest operation of both lanes.  Accepts the lane of a communicator of one lane. */
struct issued lane_newest(const struct lane *lane);
/*
 * Waits for operation `number` of the host lane; 0: for all its operations.  The thread leaves the native lane's lock
 * while it waits.
 */
int lane_wait_host(struct lane *native, uint64_t number);

/* Operation `number` of the host lane is in the issue order of both (event/lane_order.h). */
void lane_note_staged(const struct lane *native, uint64_t number);
/* A stream waits for operation `number` of a lane, whose lock is held.  Accepts any lane. */
void lane_note_stream_wait(const struct lane *host, uint64_t number);
/*
 * Returns the last operation of the host lane for which a stream may wait, or 0.  The lock is held, or the handle
 * pinned.  Returns 0 for any other lane.
 */
uint64_t lane_streams_wait(const struct lane *lane);
/* comm->staged_number is not 0: waits for that staged call. */
int lane_wait_staged(struct lane *native);
/*
 * The backend will be aborted, which would wait for streams that wait for calls of the host lane: these streams wait no
 * longer.  The lock is held, or the handle pinned.  Accepts any lane.
 */
void lane_release_streams(const struct lane *lane);
/*
 * A thread that has the locks of both lanes moves the other lane's context.  An operation there that waits for an
 * operation of `lane` reads the state of `lane` without taking its lock, which the thread has.
 */
void lane_drive(struct lane *lane);
/*
 * For a function that only asks, since a program that calls nothing else must move its calls on host memory, for which
 * a late rank may wait.  Moves the calls that are under way on all host lanes beside a native context.  lane: it is
 * entered; NULL: no lane is.
 */
void lane_help(struct context *native, struct lane *lane);
/*
 * The program asks again and again for a task of the lane: moves the other lane, for which other ranks may wait before they
 * do their part of the task.  Accepts any lane.
 */
void lane_help_other(struct lane *lane);
/* Moves the host lane, and asks the other ranks where they are.  Accepts any lane. */
void lane_progress(struct lane *lane);
/* Does this thread, which holds the lock of `lane`, hold the lock of `other` too, by lane_drive of either? */
int lane_is_driven(const struct lane *lane, const struct lane *other);

#endif
