/* SPDX-License-Identifier: BSD-3-Clause */
/* request_wait.c - waits for some of several requests, which may belong to different communicators. */
#include "api/request.h"
#include "exec/message.h"
#include "exec/op.h"
#include "exec/stall.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>

enum {
	WAITS_FEW = 16, /* more requests need memory */
	/* Between two slices stall_poll sees to the deadline, and has the other ranks asked where they are. */
	WAITS_SLICE_US = 50000,
	/* Of several contexts: no descriptor tells this thread that another thread has completed an operation. */
	WAITS_SHORT_US = 2000
};

/* An entry of the program's array; both objects are pinned.  request is NULL where the entry is NULL. */
struct waited {
	struct request *request;
	struct comm *comm;
	int over; /* complete, or its communicator has failed */
};

struct waits {
	const char *what; /* the public function */
	const coll_request_t *requests;
	int n;
	struct waited *item; /* one for each of the n requests */
	int pinned;
	int unlimited;  /* only the communicators limit the time */
	int64_t end_us; /* of the caller's limit, by clock_now_us; INT64_MAX: none */
	int64_t slice_us;
	struct context *locked; /* whose lock this thread holds, or NULL */
	struct waited few[WAITS_FEW];
};

/* ---------------------------------------------------------------- the entries -- */

static int waits_pin(struct waits *w, int i)
{
	struct request *request = handle_pin(HANDLE_REQUEST, w->requests[i]);
	struct comm *comm = request ? handle_pin(HANDLE_COMM, request->comm) : NULL;

	if (!comm) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: requests[%d] is %s", w->what, i,
			  request ? "of a communicator that was destroyed"
				  : handle_trouble(w->requests[i]));
		if (request)
			handle_unpin(w->requests[i]);
		return COLL_ERR_INVALID_ARGUMENT;
	}
	w->item[i] = (struct waited){request, comm, 0};
	w->pinned++;
	return COLL_SUCCESS;
}

static void waits_close(struct waits *w)
{
	for (int i = 0; i < w->n; i++) {
		if (!w->item[i].request)
			continue;
		handle_unpin(w->item[i].comm->handle);
		handle_unpin(w->requests[i]);
	}
	if (w->item != w->few)
		free(w->item);
}

/* Pins all; an error leaves nothing to close. */
static int waits_open(struct waits *w)
{
	const struct context *first = NULL;
	int code = COLL_SUCCESS;

	w->item = w->n > WAITS_FEW ? calloc((size_t)w->n, sizeof(*w->item)) : w->few;
	w->slice_us = WAITS_SLICE_US;
	if (!w->item)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory for %d requests", w->what,
				 w->n);
	for (int i = 0; !code && i < w->n; i++) {
		if (!w->requests[i])
			continue;
		code = waits_pin(w, i);
		if (!code && first && first != w->item[i].comm->context)
			w->slice_us = WAITS_SHORT_US;
		if (!code)
			first = w->item[i].comm->context;
	}
	if (code)
		waits_close(w);
	return code;
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
	if (w->locked)
		context_leave(w->locked);
	w->locked = NULL;
}

/* Gives up the lock and takes that of `context`, which this thread drives from now on.  0: it is not free in time. */
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
static int waits_lost(struct waits *w, const struct comm *comm)
{
	w->locked = NULL;
	return clock_now_us() >= w->end_us ? 0 : -comm_lost(comm);
}

static int waited_is_over(const struct waited *item)
{
	const struct comm *comm = item->comm;

	return comm->error || atomic_load(&comm->aborted) || request_is_over(item->request, comm);
}

/* Only a wait without a limit of its own ends after the communicator's timeout for want of a message. */
static void waits_poll(const struct waits *w, const struct waited *item)
{
	item->comm->waited = w->unlimited ? item->request->message : NULL;
	stall_poll(item->comm);
	item->comm->waited = NULL;
}

/* Returns the number of entries that are over, or the negative of an error. */
static int waits_look(struct waits *w, int waits)
{
	int over = 0;

	for (int i = 0; i < w->n; i++) {
		struct waited *item = &w->item[i];

		if (!item->request)
			continue;
		if (!waits_lock(w, item->comm->context))
			return waits_lost(w, item->comm);
		item->over = waited_is_over(item);
		over += item->over;
		if (item->over)
			continue;
		if (waits && request_is_deferred(item->request, item->comm))
			return -error_set(
				COLL_ERR_INVALID_USAGE,
				"%s: requests[%d] is of a group that is open, so the wait "
				"would never end: call coll_group_end first",
				w->what, i);
		waits_poll(w, item);
	}
	return over;
}

/* Is an entry over?  An entry whose context another thread has locked is looked at in the next round. */
static int waits_done(void *arg)
{
	const struct waits *w = arg;

	for (int i = 0; i < w->n; i++) {
		const struct waited *item = &w->item[i];
		struct context *context;
		int over;

		if (!item->request)
			continue;
		context = item->comm->context;
		if (context != w->locked && !lock_try(&context->lock))
			continue;
		over = waited_is_over(item);
		if (context != w->locked)
			lock_release(&context->lock);
		if (over)
			return 1;
	}
	return 0;
}

/* The thread is cancelled in its wait: its call ends as if it returned. */
static void waits_cancelled(struct waits *const *waits)
{
	if (!*waits || !wait_is_cancelled())
		return;
	waits_unlock(*waits);
	waits_close(*waits);
}

/* One wait: CONTEXT_LOST, or 0 whether the time is over or not. */
static int waits_wait(struct waits *w, int64_t left)
{
	__attribute__((cleanup(waits_cancelled))) struct waits *waits = w;
	int code;

	code = context_wait_or_leave(w->locked, waits_done, w,
				     left < w->slice_us ? left : w->slice_us,
				     waits_patience(w, w->locked));
	waits = NULL;
	return code == CONTEXT_LOST ? code : COLL_SUCCESS;
}

/* A communicator of the context whose lock this thread had. */
static const struct comm *waits_comm(const struct waits *w)
{
	int i = 0;

	while (!w->item[i].request || w->item[i].comm->context != w->locked)
		i++;
	return w->item[i].comm;
}

/* timeout_ms: -1: none.  Returns as waits_look; 0: the time is over. */
static int waits_run(struct waits *w, int64_t timeout_ms)
{
	const int64_t now = timeout_ms ? clock_now_us() : 0;
	int64_t left;
	int over;

	if (timeout_ms > 0 && timeout_ms <= (INT64_MAX - now) / 1000)
		w->end_us = now + timeout_ms * 1000;
	w->unlimited = timeout_ms < 0;
	while (!(over = waits_look(w, timeout_ms != 0)) && timeout_ms) {
		left = w->end_us - clock_now_us();
		if (left <= 0)
			break;
		if (waits_wait(w, left)) {
			over = waits_lost(w, waits_comm(w));
			break;
		}
	}
	return over;
}

/* The result of an operation that is over. */
static int waits_result(struct waits *w, const struct waited *item)
{
	struct comm *comm = item->comm;
	const struct request *request = item->request;

	if (!waits_lock(w, comm->context))
		return comm_lost(comm);
	if (!request_is_over(request, comm)) {
		comm_check_aborted(comm, request->message ? UINT64_MAX : request->number);
		comm_flush(comm);
	}
	return request_is_over(request, comm) || request->message ? request_result(request)
								  : comm_error(comm);
}

/* ------------------------------------------------------------ public functions -- */

/* Writes the entries that are over to indices[], `most` at most; the result is that of the first that failed. */
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
	if (code)
		return code;
	over = w->pinned ? waits_run(w, timeout_ms) : 0;
	if (over < 0)
		code = -over;
	else if (!over && w->pinned)
		code = COLL_IN_PROGRESS;
	for (int i = 0; i < w->n && over > 0 && *count < most; i++) {
		if (!w->item[i].over)
			continue;
		indices[(*count)++] = i;
		if (!code)
			code = waits_result(w, &w->item[i]);
	}
	waits_unlock(w);
	waits_close(w);
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
