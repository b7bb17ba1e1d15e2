/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall.h - operations that wait for ranks from which nothing comes.  After `stall_after` without progress a
 * waiting rank asks all other ranks where they are.  Calls that cannot meet fail the communicator; else a
 * warning names the ranks that are behind, and after `timeout` the communicator fails.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_WATCH_STALL_H
#define CORE_WATCH_STALL_H

#include "watch/watch.h"

struct op;

/* Changes when this rank calls something, or when an operation of it moves or ends. */
static inline uint64_t stall_moves(const struct lane *lane)
{
	return lane->issued + lane_own_moves(lane);
}
/* A wait or poll of a communicator with a slot in the page notes in the slot so often for which ranks it waits. */
enum { STALL_NOTED_US = 200000 };
/* How long the wait may last until stall_step is called, whatever moves meanwhile. */
int64_t stall_slice(struct stall *stall, const struct lane *lane);
/*
 * Nothing has moved for idle_us, as far as the caller knows.  Asks, warns, or fails the communicator after its
 * timeout.  Returns 1 if the communicator has failed.
 */
int stall_step(struct stall *stall, struct lane *lane, int64_t idle_us);
/* The same from time to time, for calls that poll, and for an operation for which a stream of the program waits. */
void stall_poll(struct lane *lane);
/* May operations be incomplete?  A backend without a transport knows nothing of operations on streams of the program. */
int stall_is_busy(const struct lane *lane);
/* Does a thread or a stream of the program wait or poll, and has nothing moved since the other ranks were asked for it? */
int stall_waits(const struct lane *lane);

/*
 * For a program that is in no wait: asks the other ranks now and then while operations are not known to be complete,
 * since the program may wait for the operations elsewhere.  Returns 1 while they are not known to be complete
 * (stall_outside.c).
 */
int stall_ask_outside(struct lane *lane);
/* Has stall_ask_outside asked the other ranks, and has this rank called nothing since? */
int stall_is_outside(const struct lane *lane);

/*
 * May the thing that moves on the endpoint be a message of the communicator, or a message before it?  The transport
 * does not tell which message of which communicator has moved (stall_flow.c).
 */
int stall_flows(const struct lane *lane);

/*
 * Writes whom the rank waits for: "; not heard from: rank 1; still needs data from: rank 0; rank 1 ...", of all ranks
 * if they were asked a moment ago (asked), else only of the ranks that its operations need.
 */
void stall_describe_missing(struct lane *lane, int asked, char *text, size_t size);
/*
 * A call into the backend has timed out: asks the other ranks, awaits their answers for a moment, and writes "; behind:
 * rank 2; rank 2 last called ...", or "" if nobody can be asked.
 */
void stall_name_behind(struct lane *lane, char *text, size_t size);

/*
 * Asks the other ranks where they are, awaits their answers for a second, and writes "; not heard from: rank 2" about the
 * ranks that do not answer, or "".
 */
void stall_name_silent(struct lane *lane, char *text, size_t size);

/* Fails the communicator if the backend's functions wait for a rank that has left. */
void stall_check_left_native(struct lane *lane);
/* Fails the communicator if a running operation needs data from a rank that has left. */
void stall_check_left(struct lane *lane);

#endif
