/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * task.h - what completes: an operation, a message outside the order of the operations (message/message.h), or a split
 * (api/derive.h).  A request of the program is a handle that holds a reference to a task.
 *
 * An operation is complete once lane->finished has reached its number.  So the queue knows no tasks: only a request makes a
 * task for an operation.  Every other task is the head of the struct of a message or split, and ends with task_end.
 *
 * A communicator has two lists of tasks, which are NULL and cost nothing for most programs:
 *
 *     lane->tasks.awaited   tasks that end with an operation, and that have a callback, a limit or a split to make: task_check
 *                           ends them, in the order of their operations
 *     lane->tasks.limited   tasks with a limit of time: task_check_limits sees to tasks whose time is over
 *
 * The lock is held in all functions but task_new, task_init and task_unref.
 */
#ifndef CORE_COMM_TASK_H
#define CORE_COMM_TASK_H

#include "comm/comm.h"

#include <stdarg.h>

struct callback;

/* The differences between the kinds of tasks.  A function that a kind does not need is NULL. */
struct task_kind {
	/* 1: an operation.  It is done once lane->finished has reached the task's number, without a task_end. */
	int by_number;
	/* Nobody reports the end of such a task: ends the task if it is complete. */
	void (*look)(struct task *task);
	/* The awaited operation is complete (code 0), or the communicator has failed: goes on with the task, and ends it. */
	void (*reached)(struct task *task, int code);
	/* The limit of the task is over: ends the task, or fails the communicator.  NULL: the communicator fails. */
	void (*late)(struct task *task);
	/* The last reference to the task has gone: frees what the task owns, but not the task. */
	void (*close)(struct task *task);
	/*
	 * Describes a task without an operation, for which a thread waits, and marks in `from` the rank that has to
	 * act.  Returns 1 if there is one.
	 */
	void (*describe)(const struct task *task, char *text, size_t size);
	int (*awaits)(const struct task *task, uint8_t *from);
};

struct task {
	const struct task_kind *kind;
	_Atomic int refs;
	coll_comm_t handle; /* of the communicator, which may end before the task */
	int lane_index;     /* LANE_*: its lane */
	struct lane *lane;  /* that lane, valid while the handle is pinned */
	uint64_t number;    /* the operation that completes the task; 0: none */
	int row;      /* number 0: the row that counts the waits for the task (PAGE_ISEND, ...) */
	int deferred; /* the end of a group will do all of it */
	int done;     /* task_end has ended it */
	int code;     /* once done: the result */
	char *text;   /* of the code; NULL: the communicator's failure has the text */
	struct callback *callbacks; /* the last callback of a ring; NULL: none */

	/* --- in lane->tasks.limited */
	struct task *next_limited, *prev_limited;
	int64_t timeout_us, end_us; /* end_us 0: no limit */
	int asked;                  /* the other ranks were asked, or need not be */

	/* --- in lane->tasks.awaited */
	int awaited;
	uint64_t order; /* of tasks with the same number the task that came first is first */
	struct task *child, *sibling;
};

/* A task for an operation, which its number alone identifies. */
extern const struct task_kind operation_kind;

/* Returns a task for an operation, with one reference, or NULL with an error: memory has run out. */
struct task *task_new(struct lane *lane, uint64_t number);
/* The task is for this operation from now on.  It is not awaited. */
void task_assign(struct task *task, struct lane *lane, uint64_t number);
/* Begins a task of another kind, with one reference, at the begin of a struct that malloc has given. */
void task_init(struct task *task, const struct task_kind *kind, struct lane *lane);
/* Accepts NULL.  Any thread may call it. */
void task_unref(struct task *task);

/* A failure of the communicator does not make an operation done, but it ends every other task. */
static inline int task_is_done(struct task *task)
{
	if (task->kind->by_number)
		return task->lane->finished >= task->number;
	if (!task->done && task->kind->look)
		task->kind->look(task);
	return task->done;
}
/* For waits (comm_wait.h): is the task done, or has the communicator failed or was aborted? */
int task_is_over(void *task);
/* The result of a task that is done; task_failure is for a task with an error. */
int task_failure(const struct task *task);
static inline int task_result(const struct task *task)
{
	return task->code ? task_failure(task) : COLL_SUCCESS;
}

/* Sets the text of a task that will end with an error.  The first text stays.  Without memory there is none. */
void task_set_text(struct task *task, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void task_set_text_va(struct task *task, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
/* The task is over: drops its limit and calls its callbacks. */
void task_end(struct task *task, int code);

/* Calls fn once the task is over; during this call if it is over already. */
int task_call_back(struct task *task, coll_request_fn fn, void *user);
/*
 * Limits the time from now on.  A task that fails its communicator keeps the limit that ends first.  A task with a
 * function `late` keeps the new limit only.
 */
void task_set_limit(struct task *task, int64_t timeout_us);

/* Has task_check end the task when its operation is complete or the communicator has failed. */
void task_await(struct task *task);
void task_end_reached(struct lane *lane);
/* Operations are complete, or the communicator has failed: ends the tasks that wait for this, in the order of their numbers. */
static inline void task_check(struct lane *lane)
{
	if (lane->tasks.awaited)
		task_end_reached(lane);
}

int task_end_late(struct lane *lane);
/* Sees to the limits that are over.  Returns 1 if it has ended a task. */
static inline int task_check_limits(struct lane *lane)
{
	return lane->tasks.limited ? task_end_late(lane) : 0;
}

#endif
