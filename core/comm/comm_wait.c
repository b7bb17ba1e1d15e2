/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_wait.c - waits for the tasks of a communicator, and for its control messages about a failure. */
#include "comm/comm_wait.h"
#include "comm/op.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/thread.h"

/*
 * The longest wait for the control messages about a failure: the process may not call again for long.
 * An abort must be over within a second.
 */
enum { COMM_FLUSH_US = 500000 };

/*
 * A wait looks so many times before all preparations: the message that a small call waits for comes soon, unless the rank that sends
 * it needs this processor.
 */
enum { COMM_LOOKS = 8 };

static int comm_controls_sent(void *arg)
{
	const struct lane *lane = arg;

	return !lane->context->ep || !context_controls_pending(lane->context);
}

static int lane_flush_within(struct lane *lane, int64_t patience_us)
{
	if (!lane->error || !lane->context->ep)
		return COLL_SUCCESS;
	return context_wait_or_leave(lane->context, comm_controls_sent, lane, COMM_FLUSH_US,
				     patience_us);
}

void lane_flush(struct lane *lane)
{
	(void)lane_flush_within(lane, 0);
}

/* The callers have nothing that would undo their work for a thread that is cancelled in this wait. */
int lane_flush_or_leave(struct lane *lane)
{
	CANCEL_OFF;

	return lane_flush_within(lane, COMM_FLUSH_US) == CONTEXT_LOST ? CONTEXT_LOST : COLL_SUCCESS;
}

int lane_is_deferred(const struct lane *lane, uint64_t number)
{
	const uint64_t group = group_current();

	for (const struct op *op = lane->queue.deferred; group && op && op->number <= number;
	     op = op->next)
		if (op->state == OP_DEFERRED && op->group == group)
			return 1;
	return 0;
}

int task_is_deferred(const struct task *task)
{
	return !task->done && (task->deferred || lane_is_deferred(task->lane, task->number));
}

void lane_check_aborted(struct lane *lane, uint64_t number)
{
	struct rank_name name;

	if (atomic_load(&lane->comm->aborted) && lane->finished < number)
		comm_fail(lane, lane->leaving, COLL_ERR_ABORTED, "%s aborted the communicator",
			  comm_own_name(lane, &name));
}

void wait_tell_begin(struct wait_told *told, struct lane *lane, uint64_t number, int row)
{
	told->lane = lane;
	told->number = number;
	told->row = row;
	lane->seen->waiting++;
	if (lane->counts)
		told->since = stamp_now();
	if (LANE_OBSERVED(lane, COLL_OBSERVE_WAIT))
		observed_wait(lane, number, COLL_OBSERVED_BEGIN, &told->since_ns);
}

void wait_tell_end(struct wait_told *told)
{
	struct lane *lane = told->lane;

	if (!lane)
		return;
	told->lane = NULL;
	if (lane->counts)
		counts_waited(lane, told->number, told->row, told->since);
	lane->seen->waiting--;
	lane->seen->since_us = 0;
	if (LANE_OBSERVED(lane, COLL_OBSERVE_WAIT))
		observed_wait(lane, told->number, COLL_OBSERVED_END, &told->since_ns);
}

/* What a cancelled thread has to undo; wait NULL: nothing. */
struct comm_waiting {
	const struct comm_wait *wait;
	struct stall stall;
	struct wait_told told;
};

static inline void comm_wait_end(struct comm_waiting *waiting, const struct comm_wait *wait)
{
	if (waiting->stall.counted)
		wait->lane->client->unstall(&waiting->stall, wait->lane);
	wait_tell_end(&waiting->told);
}

/* The thread is cancelled in its sleep: its call ends as if it returned. */
static void comm_wait_cancelled(struct comm_waiting *waiting)
{
	const struct comm_wait *wait = waiting->wait;

	if (!wait || !wait_is_cancelled())
		return;
	comm_wait_end(waiting, wait);
	comm_leave(wait->lane);
	if (wait->handle)
		handle_unpin(wait->handle);
}

/* The other ranks are asked where they are, and the communicator fails after its timeout. */
static int comm_wait_stalls(const struct comm_wait *wait, struct stall *stall)
{
	struct lane *lane = wait->lane;
	int over;

	lane->waited = wait->task;
	if (lane->client->note)
		lane->client->note(lane, lane->context->idle_us);
	over = lane->client->step(stall, lane, lane->context->idle_us);
	lane->waited = NULL;
	return over;
}

int comm_wait_until(const struct comm_wait *wait, int (*done)(void *arg), void *arg)
{
	__attribute__((cleanup(comm_wait_cancelled))) struct comm_waiting waiting = {.wait = wait};
	struct lane *lane = wait->lane;
	int64_t slice;
	int code;

	stall_begin(&waiting.stall);
	wait_tell_begin(&waiting.told, lane, wait->number, wait->task ? wait->task->row : 0);
	do {
		slice = lane->client->slice(&waiting.stall, lane);
		code = context_wait_or_leave(lane->context, done, arg, slice,
					     wait->leaves ? lane->comm->timeout_us : 0);
	} while (code > 0 && !comm_wait_stalls(wait, &waiting.stall));
	waiting.wait = NULL;
	if (code == CONTEXT_LOST)
		return code;
	comm_wait_end(&waiting, wait);
	return COLL_SUCCESS;
}

/* The task is not done at the first look. */
static int comm_wait_long(struct task *task, int leaves, void *handle)
{
	struct lane *lane = task->lane;
	const struct comm_wait wait = {.lane = lane,
				       .task = task->kind->describe ? task : NULL,
				       .number = task->number,
				       .leaves = leaves,
				       .handle = handle};

	if (task_is_deferred(task))
		return error_set(
			COLL_ERR_INVALID_USAGE,
			"a wait inside a group would never end: call coll_group_end first");
	if (comm_wait_until(&wait, task_is_over, task))
		return CONTEXT_LOST;
	if (!task_is_done(task))
		lane_check_aborted(lane, UINT64_MAX);
	if (leaves)
		return lane_flush_or_leave(lane);
	lane_flush(lane);
	return COLL_SUCCESS;
}

/* One look where the option `poll` is 0, ranks outnumber processors, or another rank runs on this processor. */
static int comm_looks(const struct context *context)
{
	const int64_t poll_us = context->waits.poll_us;

	return poll_us && context->waits.polls_us == poll_us ? COMM_LOOKS : 1;
}

/* One of the first looks of a wait. */
static void comm_look(struct context *context)
{
	thread_pause();
	if (!context->client->poll(context))
		context_progress(context);
}

static int lane_wait_task(struct lane *lane, uint64_t number, int leaves)
{
	struct task task = {.kind = &operation_kind, .lane = lane, .number = number};
	const int code = comm_wait_long(&task, leaves, NULL);

	return code ? code : comm_error(lane);
}

__attribute__((noinline)) static int lane_wait_long(struct lane *lane, uint64_t number, int leaves)
{
	for (int looks = comm_looks(lane->context); looks > 1 && lane->finished < number; looks--)
		comm_look(lane->context);
	return lane->finished >= number && !lane->error ? COLL_SUCCESS
							: lane_wait_task(lane, number, leaves);
}

int lane_wait(struct lane *lane, uint64_t number, int leaves)
{
	/* One look before all preparations: the message that a small call waits for may be there. */
	if (lane->finished < number)
		lane->context->client->poll(lane->context);
	return lane->finished >= number && !lane->error ? COLL_SUCCESS
							: lane_wait_long(lane, number, leaves);
}

int task_wait(struct task *task, void *handle)
{
	int code;

	for (int looks = comm_looks(task->lane->context); looks && !task_is_done(task); looks--)
		comm_look(task->lane->context);
	if (task_is_done(task) && !task->code && !task->lane->error)
		return COLL_SUCCESS;
	code = comm_wait_long(task, 1, handle);
	if (code)
		return code;
	return task_is_done(task) ? task_result(task) : comm_error(task->lane);
}
