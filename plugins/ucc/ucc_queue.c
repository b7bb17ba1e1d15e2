/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_queue.c - the operations of an endpoint: their order, their progress, their ends.
 *
 * UCC moves data only in ucc_context_progress.  Nothing of an operation under way can be cancelled: after an abort or a
 * failure nobody calls that function for the context again, and the memory of the operations stays.
 */
#include "ucc.h"
#include "base/cancel.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
	QUEUE_POLLS = 32,        /* between two reads of the clock */
	QUEUE_BUSY_US = 1000000, /* a waiting thread yields for so long, and naps afterwards */
	QUEUE_NAP_US = 100
};

/* --------------------------------------------------------------------------- ends -- */

static int32_t queue_failed(struct ucc *u, coll_error_t *err)
{
	return error_fill(err, u->failure.code, "%s", u->failure.text);
}

static int32_t queue_fail(struct ucc *u, ucc_status_t status, const char *what)
{
	error_clear(&u->failure);
	return ucc_refused(&u->failure, status, what);
}

/* The process ends: UCC's exit handlers may run at any moment, so nobody calls UCC any more. */
static atomic_int queue_stopped;

void ucc_queue_stop(void)
{
	atomic_store(&queue_stopped, 1);
}

int ucc_queue_is_stopped(void)
{
	return atomic_load_explicit(&queue_stopped, memory_order_relaxed);
}

/* COLL_SUCCESS while the endpoint works. */
static int32_t queue_check(struct ucc *u, coll_error_t *err)
{
	if (u->failure.code)
		return queue_failed(u, err);
	if (ucc_queue_is_stopped())
		return error_fill(err, COLL_ERR_INVALID_USAGE,
				  "the process ends, and UCC with it: make no calls from exit "
				  "handlers");
	if (atomic_load_explicit(&u->aborted, memory_order_relaxed))
		return error_fill(err, COLL_ERR_ABORTED, "the communicator was aborted");
	return COLL_SUCCESS;
}

void ucc_abort(void *ep)
{
	struct ucc *u = ep;

	atomic_store(&u->aborted, 1);
}

int ucc_queue_is_at_rest(struct ucc *u)
{
	return !u->first && !u->failure.code && !atomic_load(&u->aborted);
}

void ucc_queue_free(struct ucc *u)
{
	struct ucc_op *op;

	while ((op = u->first)) {
		u->first = op->next;
		if (op->req)
			continue;
		ucc_op_clear(op);
		free(op);
	}
	while ((op = u->spare)) {
		u->spare = op->next;
		free(op);
	}
}

/* ----------------------------------------------------------------------- progress -- */

static const char *const queue_posts = "ucc_collective_post";

static void queue_copy(const struct ucc_copy *copy)
{
	if (copy->bytes)
		memcpy(copy->dst, copy->src, copy->bytes);
}

static int32_t queue_post(struct ucc *u, struct ucc_op *op)
{
	ucc_status_t status;

	queue_copy(&op->before);
	status = ucc_library.ucc_collective_init(&op->args, &op->req, u->team);
	if (status) {
		op->req = NULL;
		return queue_fail(u, status, "ucc_collective_init");
	}
	status = ucc_library.ucc_collective_post(op->req);
	u->idle_since = 0;
	return status < 0 ? queue_fail(u, status, queue_posts) : COLL_SUCCESS;
}

/* Posts the batch of the first operation. */
static int32_t queue_post_batch(struct ucc *u)
{
	const uint64_t batch = u->first->batch;
	int32_t code = COLL_SUCCESS;

	for (struct ucc_op *op = u->first; !code && op && op->batch == batch; op = op->next)
		code = queue_post(u, op);
	return code;
}

/* The first operation is complete. */
static int32_t queue_end_first(struct ucc *u)
{
	struct ucc_op *op = u->first;
	const ucc_status_t status = ucc_library.ucc_collective_finalize(op->req);

	queue_copy(&op->after);
	u->first = op->next;
	ucc_op_clear(op);
	op->next = u->spare;
	u->spare = op;
	u->idle_since = 0;
	return status ? queue_fail(u, status, "ucc_collective_finalize") : COLL_SUCCESS;
}

/* Ends operations that are complete and posts those behind: COLL_SUCCESS, COLL_IN_PROGRESS or the failure. */
static int32_t queue_advance(struct ucc *u)
{
	int32_t code = COLL_SUCCESS;
	ucc_status_t status;

	while (u->first && !code) {
		if (!u->first->req) {
			code = u->in_group && u->first->batch == u->batch ? COLL_IN_PROGRESS
									  : queue_post_batch(u);
			continue;
		}
		status = u->first->req->status;
		if (status == UCC_OK)
			code = queue_end_first(u);
		else
			code = status > 0 ? COLL_IN_PROGRESS
					  : queue_fail(u, status, "a collective failed");
	}
	return code;
}

static int32_t queue_move(struct ucc *u)
{
	ucc_status_t status = ucc_library.ucc_context_progress(u->context);

	return status < 0 ? queue_fail(u, status, "ucc_context_progress") : queue_advance(u);
}

/* The last bytes of an operation that is complete here may still be in UCX, and other ranks may wait for them. */
static void queue_rest(struct ucc *u)
{
	if (!ucc_queue_is_stopped() && !atomic_load_explicit(&u->aborted, memory_order_relaxed))
		(void)ucc_library.ucc_context_progress(u->context);
}

int32_t ucc_query(void *ep, coll_error_t *err)
{
	CANCEL_OFF;
	struct ucc *u = ep;
	int32_t code;

	if (!u->first && !u->failure.code) {
		queue_rest(u);
		return COLL_SUCCESS;
	}
	code = queue_check(u, err);
	if (code)
		return code;
	code = queue_move(u);
	return code && code != COLL_IN_PROGRESS ? queue_failed(u, err) : code;
}

/*
 * UCC has no descriptor on which to sleep.  A transfer needs the thread all the time, so the thread yields only, until nothing
 * has ended for a second: then some rank is late.
 */
int32_t ucc_sync(void *ep, int64_t timeout_ms, coll_error_t *err)
{
	struct ucc *u = ep;
	const int64_t end = clock_now_us() + timeout_ms * 1000;
	int32_t code = ucc_query(u, err);
	int64_t now;

	for (unsigned polls = 1; code == COLL_IN_PROGRESS; polls++) {
		if (polls % QUEUE_POLLS == 0) {
			now = clock_now_us();
			if (now >= end)
				return COLL_IN_PROGRESS;
			if (!u->idle_since)
				u->idle_since = now;
			if (now - u->idle_since < QUEUE_BUSY_US)
				sched_yield();
			else
				clock_nap(QUEUE_NAP_US);
		}
		code = ucc_query(u, err);
	}
	return code;
}

/* ------------------------------------------------------------------------- issuing -- */

static struct ucc_op *queue_op(struct ucc *u)
{
	struct ucc_op *op = u->spare;

	if (!op)
		return calloc(1, sizeof(*op));
	u->spare = op->next;
	op->next = NULL;
	return op;
}

int32_t ucc_issue(void *ep, const coll_args_t *args, coll_error_t *err)
{
	CANCEL_OFF;
	struct ucc *u = ep;
	int32_t code = queue_check(u, err);
	struct ucc_op *op = code ? NULL : queue_op(u);

	if (code)
		return code;
	if (!op)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an operation");
	code = ucc_op_fill(op, u, args, err);
	if (code) {
		ucc_op_clear(op);
		free(op);
		return code;
	}
	op->batch = u->in_group ? u->batch : ++u->batch;
	if (u->first)
		u->last->next = op;
	else
		u->first = op;
	u->last = op;
	code = queue_advance(u);
	return code && code != COLL_IN_PROGRESS ? queue_failed(u, err) : COLL_SUCCESS;
}

int32_t ucc_group_begin(void *ep, coll_error_t *err)
{
	struct ucc *u = ep;

	(void)err;
	if (!u->in_group++)
		u->batch++;
	return COLL_SUCCESS;
}

int32_t ucc_group_end(void *ep, coll_error_t *err)
{
	CANCEL_OFF;
	struct ucc *u = ep;
	int32_t code;

	if (--u->in_group || !u->first)
		return COLL_SUCCESS;
	code = queue_check(u, err);
	if (code)
		return code;
	code = queue_advance(u);
	return code && code != COLL_IN_PROGRESS ? queue_failed(u, err) : COLL_SUCCESS;
}
