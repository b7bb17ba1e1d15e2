/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_state.c - waits for pending calls and for completion, reports failures, and aborts. */
#include "nccl.h"

#include <stdlib.h>
#include <time.h>

/* ----------------------------------------------------------------- pending calls -- */

static int32_t nccl_aborted(coll_error_t *err)
{
	return error_fill(err, COLL_ERR_ABORTED, "the communicator was aborted");
}

int32_t nccl_poll_async_error(struct nccl *n, coll_error_t *err)
{
	int state = NCCL_SUCCESS, result;

	if (!n->comm)
		return nccl_aborted(err);
	if (!n->call_pending)
		return COLL_SUCCESS;
	result = nccl_lib.ncclCommGetAsyncError(n->comm, &state);
	if (!result && state == NCCL_IN_PROGRESS)
		return COLL_IN_PROGRESS;
	/* call_pending stays 1, so that every later call sees the failure too. */
	if (result || state)
		return nccl_refused(err, result ? result : state, "a call that NCCL had begun",
				    n->comm);
	n->call_pending = 0;
	return COLL_SUCCESS;
}

int32_t nccl_wait_comm_ready(struct nccl *n, const coll_host_t *host, int64_t timeout_ms,
			     coll_error_t *err)
{
	int32_t code = nccl_poll_async_error(n, err);
	int64_t deadline;

	if (code != COLL_IN_PROGRESS)
		return code;
	deadline = clock_now_ms() + timeout_ms;
	for (unsigned i = 0; code == COLL_IN_PROGRESS; i++) {
		if (atomic_load(&n->aborted) || host->aborted(host))
			return nccl_aborted(err);
		if (clock_now_ms() > deadline)
			return error_fill(err, COLL_ERR_TIMEOUT,
					  "timed out: NCCL has not connected this rank with the "
					  "others within "
					  "%.3g s (NCCL_DEBUG=INFO shows how far it came)",
					  (double)timeout_ms / 1000);
		pthread_mutex_unlock(&n->lock); /* an abort may take it */
		nccl_backoff(i);
		pthread_mutex_lock(&n->lock);
		code = nccl_poll_async_error(n, err);
	}
	return code;
}

int32_t nccl_record_result(struct nccl *n, int result, const char *what, coll_error_t *err)
{
	if (result == NCCL_IN_PROGRESS)
		n->call_pending = 1;
	return nccl_failed(result) ? nccl_refused(err, result, what, n->comm) : COLL_SUCCESS;
}

int32_t nccl_begin(struct nccl *n, int *pushed, coll_error_t *err)
{
	int32_t code;

	pthread_mutex_lock(&n->lock);
	code = n->revoked ? nccl_aborted(err) : nccl_enter(n->context, pushed, err);
	if (!code) {
		code = nccl_wait_comm_ready(n, n->host, n->host->timeout_ms, err);
		/* The wait releases the lock, so an abort may have revoked the endpoint. */
		if (!code && n->revoked)
			code = nccl_aborted(err);
		if (code)
			nccl_leave(*pushed);
	}
	if (code)
		pthread_mutex_unlock(&n->lock);
	return code;
}

void nccl_end(struct nccl *n, int pushed)
{
	nccl_leave(pushed);
	pthread_mutex_unlock(&n->lock);
}

/* -------------------------------------------------------------------- completion -- */

/* The state of the own stream, once NCCL has put all work on it. */
static int32_t nccl_stream_state(struct nccl *n, coll_error_t *err)
{
	int32_t code = n->revoked ? nccl_aborted(err) : nccl_poll_async_error(n, err);
	int pushed, result;

	if (code)
		return code;
	code = nccl_enter(n->context, &pushed, err);
	if (code)
		return code;
	result = cuda_driver.cuStreamQuery(n->stream);
	nccl_leave(pushed);
	if (result == CUDA_NOT_READY)
		return COLL_IN_PROGRESS;
	return result ? nccl_cuda_refused(err, result, "work on the communicator's stream")
		      : COLL_SUCCESS;
}

int32_t nccl_query(void *ep, coll_error_t *err)
{
	struct nccl *n = ep;
	int32_t code;

	pthread_mutex_lock(&n->lock);
	code = nccl_stream_state(n, err);
	pthread_mutex_unlock(&n->lock);
	return code;
}

int32_t nccl_sync(void *ep, int64_t timeout_ms, coll_error_t *err)
{
	struct nccl *n = ep;
	int64_t deadline = clock_now_ms() + timeout_ms;
	int32_t code = nccl_query(n, err);

	for (unsigned i = 0; code == COLL_IN_PROGRESS && clock_now_ms() < deadline; i++) {
		nccl_backoff(i);
		code = nccl_query(n, err);
	}
	if (code == COLL_IN_PROGRESS)
		return error_fill(
			err, COLL_ERR_TIMEOUT,
			"timed out: work on the communicator's stream has not ended after %.3g s",
			(double)timeout_ms / 1000);
	return code;
}

int32_t nccl_async_error(void *ep, coll_error_t *err)
{
	struct nccl *n = ep;
	int state = NCCL_SUCCESS, result = NCCL_SUCCESS;
	int32_t code = COLL_SUCCESS;

	pthread_mutex_lock(&n->lock);
	if (n->comm && !n->revoked)
		result = nccl_lib.ncclCommGetAsyncError(n->comm, &state);
	if (!result && state != NCCL_IN_PROGRESS)
		result = state;
	if (result)
		code = nccl_refused(err, result, "the communicator has failed", n->comm);
	pthread_mutex_unlock(&n->lock);
	return code;
}

/* ------------------------------------------------------------------------- abort -- */

/*
 * Runs ncclCommAbort in a thread of its own, because ncclCommAbort waits for work that others put on the
 * streams before this communicator's work.
 */
struct nccl_aborter {
	nccl_comm_t comm;
	void *context;
	atomic_int done;
	atomic_int refs; /* of the thread, and of the caller that waits for it */
};

static void nccl_aborter_unref(struct nccl_aborter *e)
{
	if (atomic_fetch_sub(&e->refs, 1) == 1)
		free(e);
}

static void *nccl_aborter_run(void *arg)
{
	struct nccl_aborter *e = arg;
	int pushed = 0;

	nccl_enter(e->context, &pushed, NULL);
	nccl_lib.ncclCommAbort(e->comm);
	nccl_leave(pushed);
	atomic_store(&e->done, 1);
	nccl_aborter_unref(e);
	return NULL;
}

void nccl_abort_comm(struct nccl *n, int64_t deadline)
{
	struct nccl_aborter *e = calloc(1, sizeof(*e));
	nccl_comm_t comm = n->comm;
	pthread_t thread;

	n->comm = NULL;
	n->call_pending = 0;
	if (e) {
		*e = (struct nccl_aborter){.comm = comm, .context = n->context};
		atomic_store(&e->refs, 2);
	}
	if (!e || pthread_create(&thread, NULL, nccl_aborter_run, e)) {
		free(e);
		nccl_lib.ncclCommAbort(comm);
		return;
	}
	pthread_detach(thread);
	for (unsigned i = 0; !atomic_load(&e->done) && clock_now_ms() < deadline; i++)
		nccl_backoff(i);
	if (!atomic_load(&e->done))
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL's abort has not returned within %d ms and goes on in the "
			"background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
	nccl_aborter_unref(e);
}

/* Polls the last call for a moment: it completes soon unless it waits for a peer. */
static int32_t nccl_poll_shortly(struct nccl *n)
{
	int64_t deadline = clock_now_ms() + NCCL_ABORT_MS / 4;
	int32_t code = nccl_poll_async_error(n, NULL);

	for (unsigned i = 0; code == COLL_IN_PROGRESS && clock_now_ms() < deadline; i++) {
		nccl_backoff(i);
		code = nccl_poll_async_error(n, NULL);
	}
	return code;
}

/* Ends all work but keeps the communicator for a shrink.  Returns 0 if the caller must abort it instead. */
static int nccl_revoke(struct nccl *n, int64_t deadline)
{
	int state = NCCL_IN_PROGRESS, result;

	/* A communicator that is still connecting cannot be revoked, only aborted. */
	if (!nccl_lib.ncclCommRevoke || !nccl_lib.ncclCommShrink || nccl_poll_shortly(n))
		return 0;
	result = nccl_lib.ncclCommRevoke(n->comm, 0);
	if (nccl_failed(result))
		return 0;
	for (unsigned i = 0; state == NCCL_IN_PROGRESS && clock_now_ms() < deadline; i++) {
		if (nccl_lib.ncclCommGetAsyncError(n->comm, &state))
			state = NCCL_INTERNAL_ERROR;
		if (state == NCCL_IN_PROGRESS)
			nccl_backoff(i);
	}
	n->revoked = state == NCCL_SUCCESS;
	if (state != NCCL_IN_PROGRESS)
		return n->revoked;
	kit_log(n->host, COLL_LOG_ERROR,
		"rank %u: NCCL has not ended its work within %d ms of an abort and goes on in the "
		"background: do not reuse the buffers of pending calls",
		n->rank, NCCL_ABORT_MS);
	n->comm = NULL; /* never freed: a thread of NCCL's still uses it */
	return 1;
}

void nccl_stop(struct nccl *n)
{
	int64_t deadline = clock_now_ms() + NCCL_ABORT_MS;

	if (!n->comm || n->revoked)
		return;
	if (!nccl_revoke(n, deadline))
		nccl_abort_comm(n, deadline);
	n->call_pending = 0;
	if (!nccl_device_wait(n, deadline - clock_now_ms()))
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: work on CUDA device %d did not end within %d ms of an abort: "
			"do not reuse the buffers of pending calls",
			n->rank, n->device, NCCL_ABORT_MS);
}

void nccl_abort(void *ep)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct nccl *n = ep;
	struct timespec until;
	int pushed;

	atomic_store(&n->aborted, 1);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += NCCL_ABORT_MS / 1000;
	/* With `blocking = yes` a call holds the lock for as long as NCCL waits for a peer. */
	if (pthread_mutex_timedlock(&n->lock, &until)) {
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a call into NCCL has not returned within %d ms and cannot be "
			"aborted (with nccl.blocking = no calls can be aborted)",
			n->rank, NCCL_ABORT_MS);
		return;
	}
	/* The end of an open group aborts the endpoint.  A group of another thread ends soon: waits for it. */
	for (unsigned i = 0; n->in_group && !nccl_group_has(n) && i < NCCL_ABORT_MS; i++) {
		pthread_mutex_unlock(&n->lock);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&n->lock);
	}
	if (!n->in_group && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_stop(n);
		nccl_leave(pushed);
	}
	pthread_mutex_unlock(&n->lock);
}
