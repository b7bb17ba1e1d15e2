/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_state.c - what has been begun: is it over, has it failed, and its end by force. */
#include "nccl.h"

#include <stdlib.h>
#include <time.h>

/* ---------------------------------------------------------------------- settling -- */

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
	/* A failure stays for all who ask. */
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
					  "NCCL has not connected this rank with the others within "
					  "%.3g s (NCCL_DEBUG=INFO shows how far it came)",
					  (double)timeout_ms / 1000);
		pthread_mutex_unlock(&n->lock); /* an abort may come in */
		nccl_nap(i);
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
		/* An abort may have come in meanwhile. */
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

/* What the own stream says, once NCCL has put everything on it. */
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
		nccl_nap(i);
		code = nccl_query(n, err);
	}
	if (code == COLL_IN_PROGRESS)
		return error_fill(err, COLL_ERR_TIMEOUT, "work is still under way after %.3g s",
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

/* ncclCommAbort in a thread of its own: it waits for work that others put on streams before ours. */
struct nccl_ending {
	nccl_comm_t comm;
	void *context;
	atomic_int over;
	atomic_int users; /* the thread, and who waits for it */
};

static void nccl_ending_leave(struct nccl_ending *e)
{
	if (atomic_fetch_sub(&e->users, 1) == 1)
		free(e);
}

static void *nccl_ending_run(void *arg)
{
	struct nccl_ending *e = arg;
	int pushed = 0;

	nccl_enter(e->context, &pushed, NULL);
	nccl_lib.ncclCommAbort(e->comm);
	nccl_leave(pushed);
	atomic_store(&e->over, 1);
	nccl_ending_leave(e);
	return NULL;
}

void nccl_abort_comm(struct nccl *n, int64_t deadline)
{
	struct nccl_ending *e = calloc(1, sizeof(*e));
	nccl_comm_t comm = n->comm;
	pthread_t thread;

	n->comm = NULL;
	n->call_pending = 0;
	if (e) {
		*e = (struct nccl_ending){.comm = comm, .context = n->context};
		atomic_store(&e->users, 2);
	}
	if (!e || pthread_create(&thread, NULL, nccl_ending_run, e)) {
		free(e);
		nccl_lib.ncclCommAbort(comm);
		return;
	}
	pthread_detach(thread);
	for (unsigned i = 0; !atomic_load(&e->over) && clock_now_ms() < deadline; i++)
		nccl_nap(i);
	if (!atomic_load(&e->over))
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL's abort has not returned within %d ms and goes on by "
			"itself: "
			"its work may still use buffers",
			n->rank, NCCL_ABORT_MS);
	nccl_ending_leave(e);
}

/* What has just been begun is over at once, unless a peer is waited for. */
static int32_t nccl_poll_shortly(struct nccl *n)
{
	int64_t deadline = clock_now_ms() + NCCL_ABORT_MS / 4;
	int32_t code = nccl_poll_async_error(n, NULL);

	for (unsigned i = 0; code == COLL_IN_PROGRESS && clock_now_ms() < deadline; i++) {
		nccl_nap(i);
		code = nccl_poll_async_error(n, NULL);
	}
	return code;
}

/* Ends what is under way but keeps the communicator for a shrink; 0: it could not be tried. */
static int nccl_revoke(struct nccl *n, int64_t deadline)
{
	int state = NCCL_IN_PROGRESS, result;

	/* What is still being connected NCCL can end with the communicator only. */
	if (!nccl_lib.ncclCommRevoke || !nccl_lib.ncclCommShrink || nccl_poll_shortly(n))
		return 0;
	result = nccl_lib.ncclCommRevoke(n->comm, 0);
	if (nccl_failed(result))
		return 0;
	for (unsigned i = 0; state == NCCL_IN_PROGRESS && clock_now_ms() < deadline; i++) {
		if (nccl_lib.ncclCommGetAsyncError(n->comm, &state))
			state = NCCL_INTERNAL_ERROR;
		if (state == NCCL_IN_PROGRESS)
			nccl_nap(i);
	}
	n->revoked = state == NCCL_SUCCESS;
	if (state != NCCL_IN_PROGRESS)
		return n->revoked;
	kit_log(n->host, COLL_LOG_ERROR,
		"rank %u: NCCL has not ended its work within %d ms of an abort: it is left to "
		"itself, and may still use buffers",
		n->rank, NCCL_ABORT_MS);
	n->comm = NULL; /* a thread of NCCL's still uses it */
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
			"rank %u: work on CUDA device %d did not end within %d ms of an abort: it "
			"may still use buffers",
			n->rank, n->device, NCCL_ABORT_MS);
}

void nccl_abort(void *ep)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	struct nccl *n = ep;
	struct timespec until;
	int pushed;

	atomic_store(&n->aborted, 1);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += NCCL_ABORT_MS / 1000;
	/* With `blocking = yes` a call may hold it for as long as NCCL waits for a peer. */
	if (pthread_mutex_timedlock(&n->lock, &until)) {
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a call into NCCL has not returned within %d ms and cannot be "
			"aborted (nccl.blocking = no makes calls that can)",
			n->rank, NCCL_ABORT_MS);
		return;
	}
	/* The end of a group does it, which comes at once: in this thread later, else now. */
	for (unsigned i = 0; n->in_group && !nccl_group_has(n) && i < NCCL_ABORT_MS; i++) {
		pthread_mutex_unlock(&n->lock);
		nanosleep(&moment, NULL);
		pthread_mutex_lock(&n->lock);
	}
	if (!n->in_group && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_stop(n);
		nccl_leave(pushed);
	}
	pthread_mutex_unlock(&n->lock);
}
