/* SPDX-License-Identifier: BSD-3-Clause */
/* request_wait.c - waits for some of several requests, which may belong to different communicators. */
#include "api/request.h"
#include "comm/comm_wait.h"
#include "comm/lane.h"
#include "base/error.h"
#include "base/handle.h"

enum {
	/* Between two slices comm_client.poll sees to the deadline, and has the other ranks asked where they are. */
	WAITS_SLICE_US = 50000,
	/* Of several contexts: no descriptor tells this thread that another thread has completed an operation. */
	WAITS_SHORT_US = 2000
};

/*
 * A program may wait for one of thousands of requests, again and again, and may have changed the array, so each call
 * pins all requests.  It pins a communicator only if the request before has another communicator, and keeps nothing of
 * either after the call.
 */
struct waits {
	const char *what; /* the public function */
	const coll_request_t *requests;
	int n;
	int pinned;        /* so many entries are pinned, unless they are NULL */
	struct lane *last; /* the communicator of the last pinned entry; NULL: all are NULL */
	int unlimited;     /* only the communicators limit the time */
	int mixed;         /* the requests have several communicators */
	uint64_t moves;    /* of the communicator, if not mixed, at the last look at all requests */
	int64_t end_us;    /* of the caller's limit, by clock_now_us; INT64_MAX: none */
	int64_t slice_us;
	struct context *locked; /* whose lock this thread holds, or NULL */
	/*
	 * What this thread tells of its wait for an entry of that context.  The wait lasts until the thread gives the lock back, so
	 * entries of several contexts make a wait of each slice.
	 */
	struct wait_told told;
};

/* ---------------------------------------------------------------- the entries -- */

/* Of an entry that is pinned and not NULL.  Its communicator is pinned too. */
static struct task *waits_task(const struct waits *w, int i)
{
	return handle_object(w->requests[i]);
}

static int waits_refuse(const struct waits *w, int i, const struct task *task)
{
	return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: requests[%d] is %s", w->what, i,
			 task ? "of a communicator that was destroyed"
			      : handle_trouble(w->requests[i]));
}

static int waits_pin(struct waits *w, int i)
{
	const struct task *task = handle_pin(HANDLE_REQUEST, w->requests[i]);
	const int pinned = task && w->last && w->last->comm->handle == task->handle;
	int code;

	if (!task || (!pinned && !handle_pin(HANDLE_COMM, task->handle))) {
		code = waits_refuse(w, i, task);
		if (task)
			handle_unpin(w->requests[i]);
		return code;
	}
	if (w->last && w->last->context != task->lane->context)
		w->slice_us = WAITS_SHORT_US;
	w->mixed |= w->last && w->last != task->lane;
	w->last = task->lane;
	return COLL_SUCCESS;
}

/* Pins all, since each must be valid. */
static int waits_open(struct waits *w)
{
	int code = COLL_SUCCESS;

	w->slice_us = WAITS_SLICE_US;
	for (; !code && w->pinned < w->n; w->pinned += !code)
		if (w->requests[w->pinned])
			code = waits_pin(w, w->pinned);
	return code;
}

static void waits_unpin(const struct waits *w)
{
	coll_comm_t before = NULL;

	for (int i = 0; i < w->pinned; i++) {
		coll_comm_t handle;

		if (!w->requests[i])
			continue;
		handle = waits_task(w, i)->handle;
		if (handle != before)
			handle_unpin(handle);
		before = handle;
		handle_unpin(w->requests[i]);
	}
}

/* ----------------------------------------------------------------- the waiting -- */

/* How long a thread that keeps the lock is waited for: as long as for another rank, and not beyond the caller's limit. */
static int64_t waits_patience(const struct waits *w, const struct context *context)
{
	const int64_t left = w->end_us - clock_now_us();

	return left > context->timeout_us ? context->timeout_us : left > 1 ? left : 1;
}

static void waits_unlock(struct waits *w)
{
	if (w->locked) {
		wait_tell_end(&w->told);
		context_leave(w->locked);
	}
	w->locked = NULL;
}

/*
 * Gives up the lock and takes the lock of `context`, which this thread drives from now on.  Returns 0 if it is not free
 * in time.
 */
static int waits_lock(struct waits *w, struct context *context)
{
	if (w->locked == context)
		return 1;
	waits_unlock(w);
	if (!lock_try(&context->lock) && !context_await_lock(context, waits_patience(w, context)))
		return 0;
	w->locked = context;
	context_entered(context);
	context_progress(context);
	return 1;
}

/* Another thread has kept the lock of the communicator until the caller's limit (0), or for as long as a rank may. */
static int waits_lost(struct waits *w, const struct lane *lane)
{
	w->locked = NULL;
	w->told.lane = NULL;
	return clock_now_us() >= w->end_us ? 0 : -comm_lost(lane);
}

/* Only a wait without a limit of its own ends after the communicator's timeout for want of a message. */
static void waits_poll(const struct waits *w, const struct task *task)
{
	struct lane *lane = task->lane;

	lane_help_other(lane);
	lane->waited = w->unlimited && task->kind->describe ? task : NULL;
	lane->client->poll(lane);
	lane->waited = NULL;
}

/*
 * Looks at the entries, in their order, up to `most` that are over, whose indices it writes.  Returns their number, or
 * the negative of an error.
 */
static int waits_look(struct waits *w, int waits, int32_t *indices, int most)
{
	struct lane *lane = NULL, *polled = NULL;
	struct task *task;
	int over = 0;

	for (int i = 0; i < w->n && over < most; i++) {
		if (!w->requests[i])
			continue;
		task = waits_task(w, i);
		lane = task->lane;
		if (w->locked != lane->context && !waits_lock(w, lane->context))
			return waits_lost(w, lane);
		if (task_is_over(task)) {
			indices[over++] = i;
			continue;
		}
		if (waits && task_is_deferred(task))
			return -error_set(
				COLL_ERR_INVALID_USAGE,
				"%s: requests[%d] is of a group that is open, so the wait "
				"would never end: call coll_group_end first",
				w->what, i);
		if (lane != polled)
			waits_poll(w, task);
		polled = lane;
	}
	w->moves = lane ? lane_own_moves(lane) : 0;
	return over;
}

/* Is an entry over?  An entry whose context another thread has locked is looked at in the next round. */
static int waits_any_over(const struct waits *w)
{
	for (int i = 0; i < w->n; i++) {
		struct context *context;
		struct task *task;
		int over;

		if (!w->requests[i])
			continue;
		task = waits_task(w, i);
		context = task->lane->context;
		if (context != w->locked && !lock_try(&context->lock))
			continue;
		over = task_is_over(task);
		if (context != w->locked)
			lock_release(&context->lock);
		if (over)
			return 1;
	}
	return 0;
}

static int waits_done(void *arg)
{
	struct waits *w = arg;
	const struct lane *lane = w->last;

	if (!w->mixed && !lane->error && !atomic_load(&lane->comm->aborted) &&
	    w->moves == lane_own_moves(lane))
		return 0;
	w->moves = lane_own_moves(lane);
	return waits_any_over(w);
}

/* The thread is cancelled in its wait: its call ends as if it returned. */
static void waits_cancelled(struct waits *const *waits)
{
	if (!*waits || !wait_is_cancelled())
		return;
	waits_unlock(*waits);
	waits_unpin(*waits);
}

/* Returns the task of the first entry of the locked context, which has one. */
static struct task *waits_first(const struct waits *w)
{
	struct task *task = NULL;

	for (int i = 0; !task || task->lane->context != w->locked; i++)
		if (w->requests[i])
			task = waits_task(w, i);
	return task;
}

/* Nothing has moved for a slice: notes since when and for whom the thread waits. */
static void waits_note(const struct waits *w)
{
	struct task *task = waits_first(w);
	struct lane *lane = task->lane;

	lane->waited = task->kind->describe ? task : NULL;
	if (lane->client->note)
		lane->client->note(lane, lane->context->idle_us);
	lane->waited = NULL;
}

/* One wait: CONTEXT_LOST, or 0 whether the time is over or not. */
static int waits_wait(struct waits *w, int64_t left)
{
	__attribute__((cleanup(waits_cancelled))) struct waits *waits = w;
	int code;

	if (!w->told.lane) {
		const struct task *task = waits_first(w);

		wait_tell_begin(&w->told, task->lane, task->number, task->row);
	}
	code = context_wait_or_leave(w->locked, waits_done, w,
				     left < w->slice_us ? left : w->slice_us,
				     waits_patience(w, w->locked));
	waits = NULL;
	if (code > 0)
		waits_note(w);
	return code == CONTEXT_LOST ? code : COLL_SUCCESS;
}

/* timeout_ms -1: no limit.  Returns as waits_look, or 0: the time is over, or all entries are NULL. */
static int waits_run(struct waits *w, int64_t timeout_ms, int32_t *indices, int most)
{
	const int64_t now = timeout_ms ? clock_now_us() : 0;
	int64_t left;
	int over;

	if (timeout_ms > 0 && timeout_ms <= (INT64_MAX - now) / 1000)
		w->end_us = now + timeout_ms * 1000;
	w->unlimited = timeout_ms < 0;
	while (!(over = waits_look(w, timeout_ms != 0, indices, most)) && timeout_ms && w->last) {
		left = w->end_us - clock_now_us();
		if (left <= 0)
			break;
		if (waits_wait(w, left)) {
			over = waits_lost(w, waits_first(w)->lane);
			break;
		}
	}
	return over;
}

/* The result of a task that is over. */
static int waits_result(struct waits *w, int i)
{
	struct task *task = waits_task(w, i);
	struct lane *lane = task->lane;

	if (!waits_lock(w, lane->context))
		return comm_lost(lane);
	if (!task_is_done(task)) {
		lane_check_aborted(lane, UINT64_MAX);
		lane_flush(lane);
	}
	return task_is_done(task) ? task_result(task) : comm_error(lane);
}

/* ------------------------------------------------------------ public functions -- */

/* Writes the entries that are over to indices[], `most` at most; returns the result of the first entry that failed. */
static int waits_some(struct waits *w, int64_t timeout_ms, int32_t *indices, int most,
		      int32_t *count)
{
	int over, code = COLL_SUCCESS;

	*count = 0;
	if (w->n < 0 || (w->n && !w->requests) || timeout_ms < -1)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s", w->what,
				 w->n < 0          ? "n is negative"
				 : timeout_ms < -1 ? "timeout_ms is less than -1"
						   : "requests is NULL");
	code = waits_open(w);
	over = code ? 0 : waits_run(w, timeout_ms, indices, most);
	if (over < 0)
		code = -over;
	else if (!over && !code && w->last)
		code = COLL_IN_PROGRESS;
	else
		*count = over;
	for (int k = 0; k < over && !code; k++)
		code = waits_result(w, indices[k]);
	waits_unlock(w);
	waits_unpin(w);
	return code;
}

coll_result_t coll_wait_some(int32_t n, const coll_request_t *requests, int64_t timeout_ms,
			     int32_t *indices, int32_t *count)
{
	struct waits w = {
		.end_us = INT64_MAX, .what = "coll_wait_some", .requests = requests, .n = n};

	if (!count || (n > 0 && !indices))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_wait_some: %s is NULL",
				 count ? "indices" : "count");
	return waits_some(&w, timeout_ms, indices, n, count);
}

coll_result_t coll_wait_any(int32_t n, const coll_request_t *requests, int64_t timeout_ms,
			    int32_t *index)
{
	struct waits w = {
		.end_us = INT64_MAX, .what = "coll_wait_any", .requests = requests, .n = n};
	int32_t count;

	if (!index)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_wait_any: index is NULL");
	*index = -1;
	return waits_some(&w, timeout_ms, index, 1, &count);
}

coll_result_t coll_wait_for(coll_request_t request, int64_t timeout_ms)
{
	struct waits w = {
		.end_us = INT64_MAX, .what = "coll_wait_for", .requests = &request, .n = 1};
	int32_t index, count;

	if (!request)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_wait_for: request is NULL");
	return waits_some(&w, timeout_ms, &index, 1, &count);
}
