/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_wait.h - waits for the tasks of a communicator.  The lock is held in all functions. */
#ifndef CORE_COMM_COMM_WAIT_H
#define CORE_COMM_COMM_WAIT_H

#include "comm/task.h"

/*
 * A wait for operations, and the time since they last moved.  While this rank awaits answers (asked_us),
 * messages do not count as movement.
 */
struct stall {
	int64_t since_us, next_us; /* idle since then; the next question after so long */
	int64_t asked_us;          /* when the other ranks were asked; 0: no answers are awaited */
	int counted;               /* in watch->stalled */
	uint64_t steps, finished, moves, other_moves;
	int64_t polled_us; /* for calls that poll: the last look, by clock_tick_us */
};

/* A wait begins: the rest is set when it has lasted for a slice. */
static inline void stall_begin(struct stall *stall)
{
	stall->since_us = 0;
	stall->asked_us = 0;
	stall->counted = 0;
}
/* Changes whenever an operation of the lane moves or ends. */
static inline uint64_t lane_own_moves(const struct lane *lane)
{
	return lane->steps + lane->finished;
}

/* A thread of the program waits on a lane: what other processes, the counters and the observers see of it. */
struct wait_told {
	struct lane *lane; /* NULL: no wait has begun */
	uint64_t number;   /* of the awaited operation; else 0 */
	int row;           /* of counters, if number is 0 */
	int64_t since_ns;  /* for observers */
	uint64_t since;    /* for counters: a stamp */
};

/* Each wait that may last tells of its begin and of its end, also if the thread is cancelled.  The lock is held. */
void wait_tell_begin(struct wait_told *told, struct lane *lane, uint64_t number, int row);
/* Does nothing if no wait has begun. */
void wait_tell_end(struct wait_told *told);
/* Fails the communicator if another thread has aborted it before operation `number` was done. */
void lane_check_aborted(struct lane *lane, uint64_t number);
/* Does the open group of this thread contain one of the operations up to `number`? */
int lane_is_deferred(const struct lane *lane, uint64_t number);
/* A wait of a call that has entered the communicator. */
struct comm_wait {
	struct lane *lane;
	const struct task *task; /* the awaited task, if it has no operation; else NULL */
	uint64_t number;         /* of the awaited operation, for observers and counters; else 0 */
	/*
	 * A context_wait_or_leave.  CONTEXT_LOST: the call returns comm_leave_lost.  A thread that is cancelled leaves the
	 * communicator.
	 */
	int leaves;
	void *handle; /* that the call has pinned too; NULL: none */
};

/* Waits until operation `number` is done.  leaves: see struct comm_wait. */
int lane_wait(struct lane *lane, uint64_t number, int leaves);
/* Waits until the task is done, and returns its result, or the communicator's failure.  Leaves, and unpins `handle` too. */
int task_wait(struct task *task, void *handle);
/* Does the task wait for the end of a group: of one that the calling thread has open, or of its own? */
int task_is_deferred(const struct task *task);
/*
 * Waits until done(arg), which includes that the communicator has failed or was aborted.  The other ranks are asked,
 * and the communicator fails after its timeout, as in lane_wait.  The lock is held.  Returns 0 or CONTEXT_LOST.
 */
int comm_wait_until(const struct comm_wait *wait, int (*done)(void *arg), void *arg);

/*
 * Waits, for a bounded time, until the control messages about a failure have been sent.  The second is a
 * context_wait_or_leave, and returns 0 or CONTEXT_LOST.
 */
void lane_flush(struct lane *lane);
int lane_flush_or_leave(struct lane *lane);

#endif
