/* SPDX-License-Identifier: BSD-3-Clause */
/* task.c - what completes: references, results, callbacks and limits of time. */
#include "comm/task.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdio.h>
#include <stdlib.h>

/* The other ranks are asked where they are so long before the end of a limit, or a quarter of the limit. */
enum { TASK_ANSWER_US = 250000 };

/* A function of the program. */
struct callback {
	struct callback *next;
	coll_request_fn fn;
	void *user;
};

/* ------------------------------------------------------------------- making, freeing -- */

const struct task_kind operation_kind = {.by_number = 1};

void task_init(struct task *task, const struct task_kind *kind, struct lane *lane)
{
	*task = (struct task){.kind = kind,
			      .refs = 1,
			      .handle = lane->comm->handle,
			      .lane_index = lane->index,
			      .lane = lane};
}

void task_assign(struct task *task, struct lane *lane, uint64_t number)
{
	task->lane = lane;
	task->handle = lane->comm->handle;
	task->lane_index = lane->index;
	task->number = number;
}

struct task *task_new(struct lane *lane, uint64_t number)
{
	struct task *task = malloc(sizeof(*task)); /* calloc takes the C library's slow way */

	if (!task) {
		handle_none("a request");
		return NULL;
	}
	task_init(task, &operation_kind, lane);
	task->number = number;
	return task;
}

void task_unref(struct task *task)
{
	if (!task || atomic_fetch_sub(&task->refs, 1) > 1)
		return;
	if (task->kind->close)
		task->kind->close(task);
	free(task->text);
	free(task);
}

/* -------------------------------------------------------------------------- results -- */

int task_is_over(void *arg)
{
	struct task *task = arg;

	return task_is_done(task) || task->lane->error || atomic_load(&task->lane->comm->aborted);
}

int task_failure(const struct task *task)
{
	const struct lane *lane = task->lane;

	return error_set(task->code, "%s",
			 task->text    ? task->text
			 : lane->error ? comm_failure(lane)
				       : coll_error_string(task->code));
}

/* -------------------------------------------------------------------------- the end -- */

void task_set_text_va(struct task *task, const char *fmt, va_list ap)
{
	if (!task->text && vasprintf(&task->text, fmt, ap) < 0)
		task->text = NULL;
}

void task_set_text(struct task *task, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	task_set_text_va(task, fmt, ap);
	va_end(ap);
}

static void task_unlimit(struct task *task)
{
	struct tasks *tasks = &task->lane->tasks;

	if (!task->end_us)
		return;
	*(task->prev_limited ? &task->prev_limited->next_limited : &tasks->limited) =
		task->next_limited;
	*(task->next_limited ? &task->next_limited->prev_limited : &tasks->last_limited) =
		task->prev_limited;
	task->end_us = 0;
}

/* Drops the limit, and calls the functions of the program in the order in which they were set. */
static void task_tell(struct task *task, int code)
{
	struct callback *last, *first;

	task_unlimit(task);
	while ((last = task->callbacks)) {
		first = last->next;
		last->next = first->next;
		if (first == last)
			task->callbacks = NULL;
		handle_bar();
		first->fn(first->user, code);
		handle_unbar();
		free(first);
	}
}

void task_end(struct task *task, int code)
{
	task->done = 1;
	task->code = code;
	task_tell(task, code);
}

/* ------------------------------------------------------------------- awaited numbers -- */

/*
 * The awaited tasks of a communicator are a pairing heap, since a program may set thousands of callbacks in any order: the
 * first task is in front, and each task is before its children.
 */
static int task_is_before(const struct task *a, const struct task *b)
{
	return a->number != b->number ? a->number < b->number : a->order < b->order;
}

/* Both are heaps, or NULL. */
static struct task *task_merge(struct task *a, struct task *b)
{
	if (!a || !b)
		return a ? a : b;
	if (task_is_before(b, a))
		return task_merge(b, a);
	b->sibling = a->child;
	a->child = b;
	return a;
}

/* The children of a task that is taken: in pairs, and then the pairs from the last to the first. */
static struct task *task_merge_children(struct task *child)
{
	struct task *pairs = NULL, *all = NULL, *a, *b;

	while ((a = child)) {
		b = a->sibling;
		child = b ? b->sibling : NULL;
		a = task_merge(a, b);
		a->sibling = pairs;
		pairs = a;
	}
	while ((a = pairs)) {
		pairs = a->sibling;
		all = task_merge(all, a);
	}
	return all;
}

void task_await(struct task *task)
{
	struct tasks *tasks = &task->lane->tasks;

	if (task->awaited)
		return;
	task->awaited = 1;
	task->order = tasks->ever_awaited++;
	task->child = NULL;
	atomic_fetch_add(&task->refs, 1);
	tasks->awaited = task_merge(tasks->awaited, task);
}

void task_end_reached(struct lane *lane)
{
	struct task *first;
	int code;

	while ((first = lane->tasks.awaited) && (first->number <= lane->finished || lane->error)) {
		code = first->number <= lane->finished ? COLL_SUCCESS : lane->error;
		lane->tasks.awaited = task_merge_children(first->child);
		first->awaited = 0;
		if (first->kind->reached)
			first->kind->reached(first, code);
		else
			task_tell(first, code);
		task_unref(first);
	}
}

/* -------------------------------------------------------------------------- callbacks -- */

int task_call_back(struct task *task, coll_request_fn fn, void *user)
{
	struct callback *callback = malloc(sizeof(*callback)), *last = task->callbacks;

	if (!callback)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a callback");
	*callback = (struct callback){.next = last ? last->next : callback, .fn = fn, .user = user};
	if (last)
		last->next = callback;
	task->callbacks = callback;
	if (task->done) {
		task_tell(task, task->code);
	} else if (task->kind->by_number) {
		task_await(task);
		task_check(task->lane);
	}
	return COLL_SUCCESS;
}

/* ----------------------------------------------------------------------------- limits -- */

/* When is the limit to be looked at next? */
static int64_t task_look_us(const struct task *task)
{
	const int64_t quarter = task->timeout_us / 4;

	return task->asked ? task->end_us
			   : task->end_us - (quarter < TASK_ANSWER_US ? quarter : TASK_ANSWER_US);
}

static void task_list_limited(struct task *task)
{
	struct tasks *tasks = &task->lane->tasks;

	if (!tasks->limited)
		tasks->look_us = INT64_MAX;
	task->next_limited = NULL;
	task->prev_limited = tasks->last_limited;
	*(task->prev_limited ? &task->prev_limited->next_limited : &tasks->limited) = task;
	tasks->last_limited = task;
}

void task_set_limit(struct task *task, int64_t timeout_us)
{
	struct lane *lane = task->lane;
	const int64_t end_us = clock_now_us() + timeout_us;

	if (task_is_done(task) || task->deferred)
		return;
	if (!task->kind->late && task->end_us && task->end_us <= end_us)
		return;
	if (!task->end_us)
		task_list_limited(task);
	task->timeout_us = timeout_us;
	task->end_us = end_us;
	task->asked = task->kind->late != NULL;
	if (task_look_us(task) < lane->tasks.look_us)
		lane->tasks.look_us = task_look_us(task);
	lane_set_busy(lane);
	if (task->number) {
		task_await(task);
		task_check(lane);
	}
}

/* Describes the oldest operation, since the later operations wait for it. */
static void task_fail_late(const struct task *task)
{
	struct lane *lane = task->lane;
	char what[160], missing[512];
	struct rank_name name;

	lane->client->describe_missing(lane, task->asked, missing, sizeof(missing));
	lane->client->describe_own(lane, what, sizeof(what));
	comm_fail(lane, 0, COLL_ERR_TIMEOUT,
		  "%s: operation number %llu timed out: it is not complete %.3g s after the "
		  "program limited its time; the rank is at %s%s",
		  comm_own_name(lane, &name), (unsigned long long)task->number,
		  (double)task->timeout_us / 1e6, what, missing);
}

/* One question serves all limits that end in the time for its answers. */
static void task_ask(struct lane *lane, int64_t now)
{
	lane->client->ask(lane);
	for (struct task *task = lane->tasks.limited; task; task = task->next_limited)
		task->asked |= task->end_us <= now + TASK_ANSWER_US;
}

/* Sees to one limit.  Returns 1 if it is over. */
static int task_look_at_limit(struct task *task, int64_t now)
{
	struct lane *lane = task->lane;

	if (task->end_us <= now) {
		if (task->kind->late)
			task->kind->late(task);
		else
			task_fail_late(task);
		return 1;
	}
	if (task_look_us(task) <= now)
		task_ask(lane, now);
	if (task_look_us(task) < lane->tasks.look_us)
		lane->tasks.look_us = task_look_us(task);
	return 0;
}

int task_end_late(struct lane *lane)
{
	const int64_t now = clock_tick_us();
	struct task *task, *next;
	int ended = 0;

	task_check(lane);
	if (!lane->tasks.limited || now < lane->tasks.look_us)
		return 0;
	lane->tasks.look_us = INT64_MAX;
	for (task = lane->tasks.limited; task && !lane->error; task = next) {
		next = task->next_limited;
		ended |= task_look_at_limit(task, now);
	}
	return ended;
}
