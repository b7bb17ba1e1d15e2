/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_wait.c - waits for the tasks of a communicator, and for its control messages about a failure. */
#include "comm/comm_wait.h"
#include "comm/op.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"

/*
 * The longest wait for the control messages about a failure: the process may not call again for long.
 * An abort must be over within a second.
 */
enum { COMM_FLUSH_US = 500000 };

static int comm_controls_sent(void *arg)
{
	const struct comm *comm = arg;

	return !comm->context->ep || !context_controls_pending(comm->context);
}

static int comm_flush_within(struct comm *comm, int64_t patience_us)
{
	if (!comm->error || !comm->context->ep)
		return COLL_SUCCESS;
	return context_wait_or_leave(comm->context, comm_controls_sent, comm, COMM_FLUSH_US,
				     patience_us);
}

void comm_flush(struct comm *comm)
{
	(void)comm_flush_within(comm, 0);
}

/* The callers have nothing that would undo their work for a thread that is cancelled in this wait. */
int comm_flush_or_leave(struct comm *comm)
{
	CANCEL_OFF;

	return comm_flush_within(comm, COMM_FLUSH_US) == CONTEXT_LOST ? CONTEXT_LOST : COLL_SUCCESS;
}

int comm_is_deferred(const struct comm *comm, uint64_t number)
{
	const uint64_t group = group_current();

	for (const struct op *op = comm->queue.held; group && op && op->number <= number;
	     op = op->next)
		if (op->state == OP_DEFERRED && op->group == group)
			return 1;
	return 0;
}

int task_is_deferred(const struct task *task)
{
	return !task->done && (task->deferred || comm_is_deferred(task->comm, task->number));
}

void comm_check_aborted(struct comm *comm, uint64_t number)
{
	struct rank_name name;

	if (atomic_load(&comm->aborted) && comm->finished < number)
		comm_fail(comm, comm->leaving, COLL_ERR_ABORTED, "%s aborted the communicator",
			  comm_own_name(comm, &name));
}

static inline void comm_wait_end(struct stall *stall, struct comm *comm)
{
	if (stall->counted)
		comm->client->unstall(stall, comm);
}

/* What a cancelled thread has to undo; wait NULL: nothing. */
struct comm_waiting {
	const struct comm_wait *wait;
	struct stall stall;
};

/* The thread is cancelled in its sleep: its call ends as if it returned. */
static void comm_wait_cancelled(struct comm_waiting *waiting)
{
	const struct comm_wait *wait = waiting->wait;

	if (!wait || !wait_is_cancelled())
		return;
	comm_wait_end(&waiting->stall, wait->comm);
	comm_leave(wait->comm);
	if (wait->handle)
		handle_unpin(wait->handle);
}

/* The other ranks are asked where they are, and the communicator fails after its timeout. */
static int comm_wait_stalls(const struct comm_wait *wait, struct stall *stall)
{
	struct comm *comm = wait->comm;
	int over;

	comm->waited = wait->task;
	over = comm->client->step(stall, comm, comm->context->idle_us);
	comm->waited = NULL;
	return over;
}

int comm_wait_until(const struct comm_wait *wait, int (*done)(void *arg), void *arg)
{
	__attribute__((cleanup(comm_wait_cancelled))) struct comm_waiting waiting = {.wait = wait};
	struct comm *comm = wait->comm;
	int64_t slice;
	int code;

	stall_begin(&waiting.stall);
	do {
		slice = comm->client->slice(&waiting.stall, comm);
		code = context_wait_or_leave(comm->context, done, arg, slice,
					     wait->leaves ? comm->timeout_us : 0);
	} while (code > 0 && !comm_wait_stalls(wait, &waiting.stall));
	waiting.wait = NULL;
	if (code == CONTEXT_LOST)
		return code;
	comm_wait_end(&waiting.stall, comm);
	return COLL_SUCCESS;
}

/* The task is not done at the first look. */
static int comm_wait_long(struct task *task, int leaves, void *handle)
{
	struct comm *comm = task->comm;
	const struct comm_wait wait = {.comm = comm,
				       .task = task->kind->describe ? task : NULL,
				       .leaves = leaves,
				       .handle = handle};

	if (task_is_deferred(task))
		return error_set(
			COLL_ERR_INVALID_USAGE,
			"a wait inside a group would never end: call coll_group_end first");
	if (comm_wait_until(&wait, task_is_over, task))
		return CONTEXT_LOST;
	if (!task_is_done(task))
		comm_check_aborted(comm, UINT64_MAX);
	if (leaves)
		return comm_flush_or_leave(comm);
	comm_flush(comm);
	return COLL_SUCCESS;
}

/* One look before all preparations: the message that a small call waits for may be there. */
static inline int comm_look(struct comm *comm, uint64_t number)
{
	if (comm->finished < number)
		comm->context->client->poll(comm->context);
	return comm->finished >= number && !comm->error;
}

static int comm_wait_number(struct comm *comm, uint64_t number, int leaves)
{
	struct task task = {.kind = &operation_kind, .comm = comm, .number = number};
	const int code = comm_wait_long(&task, leaves, NULL);

	return code ? code : comm_error(comm);
}

int comm_wait(struct comm *comm, uint64_t number)
{
	return comm_look(comm, number) ? COLL_SUCCESS : comm_wait_number(comm, number, 0);
}

int comm_wait_or_leave(struct comm *comm, uint64_t number)
{
	return comm_look(comm, number) ? COLL_SUCCESS : comm_wait_number(comm, number, 1);
}

int task_wait(struct task *task, void *handle)
{
	int code;

	if (!task_is_done(task))
		task->comm->context->client->poll(task->comm->context);
	if (task_is_done(task) && !task->code && !task->comm->error)
		return COLL_SUCCESS;
	code = comm_wait_long(task, 1, handle);
	if (code)
		return code;
	return task_is_done(task) ? task_result(task) : comm_error(task->comm);
}
