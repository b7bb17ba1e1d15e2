/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_state.c - waits for pending calls and for completion, and reports failures. */
#include "nccl.h"

/* ----------------------------------------------------------------- pending calls -- */

int32_t nccl_aborted(coll_error_t *err)
{
	return error_fill(err, COLL_ERR_ABORTED, "the communicator was aborted");
}

/* The job is done: the endpoint takes its result over. */
static int32_t nccl_job_result(struct nccl *n, coll_error_t *err)
{
	struct nccl_job *job = n->job;
	/* An abort of another endpoint in the group may have dropped the job. */
	const int ran = atomic_load(&job->ran);
	const int result = ran ? job->result : NCCL_INTERNAL_ERROR;
	const int has_called = job->calls && result == NCCL_SUCCESS;

	n->job = NULL;
	n->failed = result == NCCL_IN_PROGRESS ? NCCL_SUCCESS : result;
	n->failed_what = ran ? job->what : "a group with a communicator that was aborted";
	n->call_pending |= result == NCCL_IN_PROGRESS;
	nccl_job_unref(job);
	if (n->failed)
		return nccl_refused(err, n->failed, n->failed_what, n->comm);
	if (has_called)
		nccl_links_made(n);
	return COLL_SUCCESS;
}

int32_t nccl_poll_async_error(struct nccl *n, coll_error_t *err)
{
	const nccl_comm_t comm = n->base ? n->base : n->comm;
	int state = NCCL_SUCCESS, result;
	int32_t code;

	if (!comm)
		return nccl_aborted(err);
	if (n->job && atomic_load(&n->job->state) < NCCL_JOB_DONE)
		return COLL_IN_PROGRESS;
	code = n->job ? nccl_job_result(n, err) : COLL_SUCCESS;
	if (code)
		return code;
	if (n->failed)
		return nccl_refused(err, n->failed, n->failed_what, comm);
	if (!n->call_pending)
		return COLL_SUCCESS;
	result = nccl_lib.ncclCommGetAsyncError(comm, &state);
	if (!result && state == NCCL_IN_PROGRESS)
		return COLL_IN_PROGRESS;
	/* call_pending stays 1, so that every later call sees the failure too. */
	if (result || state)
		return nccl_refused(err, result ? result : state, "a call that NCCL had begun",
				    comm);
	n->call_pending = 0;
	return COLL_SUCCESS;
}

int32_t nccl_wait_comm_ready(struct nccl *n, const coll_host_t *host, int64_t timeout_ms,
			     coll_error_t *err)
{
	int32_t code = nccl_poll_async_error(n, err), aborted = 0;
	int64_t deadline;

	if (code != COLL_IN_PROGRESS)
		return code;
	deadline = clock_now_ms() + timeout_ms;
	for (unsigned i = 0; code == COLL_IN_PROGRESS; i++) {
		if (atomic_load(&n->aborted) || aborted)
			return nccl_aborted(err);
		if (clock_now_ms() > deadline)
			return error_fill(err, COLL_ERR_TIMEOUT,
					  "timed out: NCCL has not connected this rank with the "
					  "others within "
					  "%.3g s (NCCL_DEBUG=INFO shows how far it came)",
					  (double)timeout_ms / 1000);
		/* An abort may take it, and the core, which moves other work in `aborted`. */
		pthread_mutex_unlock(&n->lock);
		aborted = host->aborted(host);
		nccl_backoff(i);
		pthread_mutex_lock(&n->lock);
		code = nccl_poll_async_error(n, err);
	}
	/* An abort that had the lock meanwhile may have revoked the endpoint. */
	return !code && n->revoked ? nccl_aborted(err) : code;
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
	/* An abort may end the work of the communicator without the lock: see nccl_abort. */
	code = nccl_is_aborted(n) ? nccl_aborted(err) : nccl_enter(n->context, pushed, err);
	if (!code) {
		code = nccl_wait_comm_ready(n, n->host, n->host->timeout_ms, err);
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
	/* Operations that an abort has dropped are not complete, although their work on the stream has ended. */
	int32_t code = nccl_is_aborted(n) ? nccl_aborted(err) : nccl_poll_async_error(n, err);
	int pushed, result;

	if (code)
		return code;
	code = nccl_enter(n->context, &pushed, err);
	if (code)
		return code;
	result = nccl_stream_query(n->stream);
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
	if (n->comm && !n->revoked && !n->failed)
		result = nccl_lib.ncclCommGetAsyncError(n->comm, &state);
	if (n->failed)
		result = n->failed;
	if (!result && state != NCCL_IN_PROGRESS)
		result = state;
	if (result)
		code = nccl_refused(err, result, "the communicator has failed", n->comm);
	pthread_mutex_unlock(&n->lock);
	return code;
}
