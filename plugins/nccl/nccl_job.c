/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_job.c - the life of a call that may block: its thread, the endpoint that waits for it, and the abort that ends it.
 * nccl.h has the states.
 */
#include "nccl.h"
#include "base/thread.h"

#include <stdlib.h>

/* -------------------------------------------------------------------------- jobs -- */

struct nccl_job *nccl_job_new(int (*run)(struct nccl_job *job), void *context, nccl_comm_t comm)
{
	struct nccl_job *job = calloc(1, sizeof(*job));

	if (job)
		*job = (struct nccl_job){.refs = 1, .run = run, .context = context, .comm = comm};
	return job;
}

struct nccl_job *nccl_job_ref(struct nccl_job *job)
{
	atomic_fetch_add(&job->refs, 1);
	return job;
}

void nccl_job_unref(struct nccl_job *job)
{
	if (!job || atomic_fetch_sub(&job->refs, 1) != 1)
		return;
	nccl_calls_free(job->calls);
	free(job->exclude);
	free(job);
}

static int nccl_job_step(struct nccl_job *job, int from, int to)
{
	return atomic_compare_exchange_strong(&job->state, &from, to);
}

static void *nccl_job_main(void *arg)
{
	struct nccl_job *job = arg;
	int pushed = 0;

	/* An abort takes a job that runs to be inside NCCL, so the driver's part comes before. */
	nccl_enter(job->context, &pushed, NULL);
	if (nccl_job_step(job, NCCL_JOB_NEW, NCCL_JOB_RUNS)) {
		job->result = job->run(job);
		/* Nobody waits for a job that was left, so the job aborts the communicator that it has made. */
		if (!nccl_job_step(job, NCCL_JOB_RUNS, NCCL_JOB_DONE) &&
		    !nccl_job_step(job, NCCL_JOB_ENDS, NCCL_JOB_DONE) && job->newcomm)
			nccl_lib.ncclCommAbort(job->newcomm);
	}
	nccl_leave(pushed);
	nccl_job_unref(job);
	return NULL;
}

int32_t nccl_job_start(struct nccl_job *job, coll_error_t *err)
{
	pthread_t thread;

	if (thread_start(&thread, nccl_job_main, nccl_job_ref(job))) {
		nccl_job_unref(job);
		return error_fill(err, COLL_ERR_SYSTEM,
				  "cannot start a thread for a call of NCCL that may wait for "
				  "other ranks: is the limit of threads reached?");
	}
	pthread_detach(thread);
	return COLL_SUCCESS;
}

static int nccl_job_busy(const struct nccl_job *job)
{
	return atomic_load(&job->state) < NCCL_JOB_DONE;
}

/* The result of the call; NCCL_IN_PROGRESS: it has not returned; an error also if nobody will make the call. */
static int nccl_job_result(const struct nccl_job *job)
{
	const int state = atomic_load(&job->state);

	if (state == NCCL_JOB_LEFT)
		return NCCL_INTERNAL_ERROR;
	return state == NCCL_JOB_DONE ? job->result : NCCL_IN_PROGRESS;
}

static void nccl_job_wait(const struct nccl_job *job, int64_t deadline)
{
	unsigned round = 0;

	while (nccl_job_busy(job) && nccl_backoff(&round, deadline))
		;
}

/*
 * Starts the job and waits for it until the time `deadline`; returns nccl_job_result.  Without a thread the calling
 * thread makes the call.
 */
static int nccl_job_run_until(struct nccl_job *job, int64_t deadline)
{
	pthread_t thread;

	if (thread_start(&thread, nccl_job_main, nccl_job_ref(job))) {
		nccl_job_main(job);
		return nccl_job_result(job);
	}
	nccl_job_wait(job, deadline);
	if (nccl_job_busy(job))
		pthread_detach(thread);
	else
		pthread_join(thread, NULL); /* it ends now */
	return nccl_job_result(job);
}

/* Nobody waits for the job any longer.  Returns the state before. */
static int nccl_job_leave(struct nccl_job *job)
{
	int state = atomic_load(&job->state);

	while (state < NCCL_JOB_ENDS &&
	       !atomic_compare_exchange_weak(&job->state, &state, NCCL_JOB_LEFT))
		;
	return state;
}

/* ---------------------------------------------------------- jobs that end something -- */

/* Waits for NCCL's end of a call on the non-blocking parent of a communicator, while somebody waits for the job. */
static int nccl_settle(const struct nccl_job *job, int result)
{
	unsigned round = 0;

	while (result == NCCL_IN_PROGRESS) {
		if (atomic_load(&job->state) == NCCL_JOB_LEFT ||
		    nccl_lib.ncclCommGetAsyncError(job->comm, &result))
			return NCCL_INTERNAL_ERROR;
		if (result == NCCL_IN_PROGRESS)
			nccl_backoff(&round, INT64_MAX);
	}
	return result;
}

static int nccl_run_abort(struct nccl_job *job)
{
	return nccl_lib.ncclCommAbort(job->comm);
}

static int nccl_run_revoke(struct nccl_job *job)
{
	return nccl_settle(job, nccl_lib.ncclCommRevoke(job->comm, 0));
}

static int nccl_run_finish(struct nccl_job *job)
{
	const nccl_comm_t comm = job->comm;
	const int result = nccl_settle(job, nccl_lib.ncclCommFinalize(comm));

	if (result)
		return result;
	if (!nccl_job_step(job, NCCL_JOB_RUNS, NCCL_JOB_ENDS))
		return NCCL_INTERNAL_ERROR;
	job->comm = NULL;
	return nccl_lib.ncclCommDestroy(comm);
}

static int nccl_run_free(struct nccl_job *job)
{
	struct nccl_scratch *s;

	while ((s = job->memory)) {
		job->memory = s->next;
		cuda_driver.cuMemFree(s->ptr);
		free(s);
	}
	return NCCL_SUCCESS;
}

void nccl_free_memory(struct nccl *n, struct nccl_scratch *memory, int64_t deadline)
{
	struct nccl_job *job = memory ? nccl_job_new(nccl_run_free, n->context, NULL) : NULL;

	if (!job)
		return;
	job->memory = memory;
	if (nccl_job_run_until(job, deadline) == NCCL_IN_PROGRESS)
		kit_log(n->host, COLL_LOG_INFO,
			"rank %u: other work keeps CUDA device %d busy, so CUDA has not freed "
			"memory of the communicator: that goes on in the background",
			n->rank, n->device);
	nccl_job_unref(job);
}

/* Returns NCCL's result, or NCCL_IN_PROGRESS if the abort goes on in the background. */
static int nccl_abort_until(const struct nccl *n, nccl_comm_t comm, int64_t deadline)
{
	struct nccl_job *job = nccl_job_new(nccl_run_abort, n->context, comm);
	const int result = job ? nccl_job_run_until(job, deadline) : nccl_lib.ncclCommAbort(comm);

	nccl_job_unref(job);
	return result;
}

/* The same, with a line in the log if NCCL has not aborted it. */
static int nccl_abort_one(const struct nccl *n, nccl_comm_t comm, int64_t deadline)
{
	const int result = nccl_abort_until(n, comm, deadline);

	if (result == NCCL_IN_PROGRESS)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL's abort has not returned within %d ms and goes on in the "
			"background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
	else if (result)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL has refused to abort its communicator (%s): do not reuse "
			"the buffers of pending calls",
			n->rank, nccl_lib.ncclGetErrorString(result));
	return result;
}

/* Gives up the end of a communicator: 1 if NCCL has not begun to destroy it. */
static int nccl_leave_finish(struct nccl_job *job)
{
	const int state = nccl_job_leave(job);

	return state < NCCL_JOB_ENDS || (state == NCCL_JOB_DONE && job->comm);
}

enum nccl_ended nccl_finish_comm(struct nccl *n, nccl_comm_t comm, int64_t deadline,
				 int abort_if_late)
{
	struct nccl_job *job = nccl_job_new(nccl_run_finish, n->context, comm);
	enum nccl_ended ended = NCCL_ENDED;

	if (!job) {
		nccl_abort_one(n, comm, deadline);
		return NCCL_END_ABORTED;
	}
	if (nccl_job_run_until(job, deadline))
		ended = NCCL_END_GOES_ON;
	if (ended == NCCL_END_GOES_ON && abort_if_late && nccl_leave_finish(job)) {
		nccl_abort_one(n, comm, clock_now_ms() + NCCL_ABORT_MS);
		ended = NCCL_END_ABORTED;
	}
	nccl_job_unref(job);
	return ended;
}

/* ----------------------------------------------------------- the endpoint's last call -- */

/* The job is over: the endpoint takes its result. */
static int32_t nccl_take_result(struct nccl *n, coll_error_t *err)
{
	struct nccl_job *job = n->job;
	/* An abort of another endpoint in the group may have left the job. */
	const int ran = atomic_load(&job->state) == NCCL_JOB_DONE;
	const int result = ran ? job->result : NCCL_INTERNAL_ERROR;

	if (job->calls && result == NCCL_SUCCESS)
		nccl_links_made(n);
	n->job = NULL;
	n->failed = result == NCCL_IN_PROGRESS ? NCCL_SUCCESS : result;
	n->failed_what = ran ? job->what : "a group with a communicator that was aborted";
	n->call_pending |= result == NCCL_IN_PROGRESS;
	nccl_job_unref(job);
	return n->failed ? nccl_refused(err, n->failed, n->failed_what, n->comm) : COLL_SUCCESS;
}

int32_t nccl_poll_call(struct nccl *n, coll_error_t *err)
{
	const nccl_comm_t comm = n->base ? n->base : n->comm;
	int state = NCCL_SUCCESS, result;
	int32_t code;

	if (!comm)
		return nccl_aborted(err);
	if (n->job) {
		code = nccl_job_busy(n->job) ? COLL_IN_PROGRESS : nccl_take_result(n, err);
		if (code)
			return code;
	}
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

int32_t nccl_wait_call(struct nccl *n, const coll_host_t *host, int64_t timeout_ms,
		       coll_error_t *err)
{
	int32_t code = nccl_poll_call(n, err), aborted = 0;
	unsigned round = 0;
	int64_t deadline;

	if (code != COLL_IN_PROGRESS)
		return code;
	deadline = clock_now_ms() + timeout_ms;
	while (code == COLL_IN_PROGRESS) {
		if (atomic_load(&n->aborted) || aborted)
			return nccl_aborted(err);
		if (clock_now_ms() > deadline)
			return error_fill(err, COLL_ERR_TIMEOUT,
					  "timed out: NCCL has not connected this rank with the "
					  "others within "
					  "%.3g s (NCCL_DEBUG=INFO shows how far it came)",
					  (double)timeout_ms / 1000);
		/* An abort may take it, and the core, which moves other work in `aborted`. */
		lock_release(&n->lock);
		aborted = host->aborted(host);
		nccl_backoff(&round, deadline);
		lock_acquire(&n->lock);
		code = nccl_poll_call(n, err);
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

/* -------------------------------------------------------------------- completion -- */

static int32_t nccl_stream_state(const struct nccl *n, coll_error_t *err)
{
	int pushed, result;
	int32_t code = nccl_enter(n->context, &pushed, err);

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

	lock_acquire(&n->lock);
	/* Operations that an abort has dropped are not complete, although their work on the stream has ended. */
	code = nccl_is_aborted(n) ? nccl_aborted(err) : nccl_poll_call(n, err);
	/* Now NCCL has put all work on the stream. */
	if (!code)
		code = nccl_stream_state(n, err);
	lock_release(&n->lock);
	return code;
}

int32_t nccl_sync(void *ep, int64_t timeout_ms, coll_error_t *err)
{
	const int64_t deadline = clock_now_ms() + timeout_ms;
	unsigned round = 0;
	int32_t code;

	do
		code = nccl_query(ep, err);
	while (code == COLL_IN_PROGRESS && nccl_backoff(&round, deadline));
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
	int state = NCCL_SUCCESS, result;
	int32_t code = COLL_SUCCESS;

	lock_acquire(&n->lock);
	result = n->failed;
	if (n->comm && !n->revoked && !n->failed)
		result = nccl_lib.ncclCommGetAsyncError(n->comm, &state);
	if (!result && state != NCCL_IN_PROGRESS)
		result = state;
	if (result)
		code = nccl_refused(err, result, "the communicator has failed", n->comm);
	lock_release(&n->lock);
	return code;
}

/* -------------------------------------------------------------- aborts: with the lock -- */

/*
 * Ends the making of a communicator, and that communicator, which NCCL leaves there after a failure too.  If NCCL does not
 * end the making, it may still write to *making, which then stays.
 */
static void nccl_abort_making(struct nccl *n, nccl_comm_t base, int64_t deadline)
{
	static struct nccl_making *_Atomic left;
	struct nccl_making *making = n->making;
	int refused;

	n->making = NULL;
	/* Before 2.27 only the thread that has begun a call can end it; here it is the calling thread. */
	refused = nccl_lib.version < NCCL_2_27 ? nccl_lib.ncclCommAbort(base)
					       : nccl_abort_one(n, base, deadline);
	if (!making)
		return;
	if (refused) {
		making->next = atomic_exchange(&left, making);
		return;
	}
	if (making->comm)
		nccl_abort_one(n, making->comm, deadline);
	free(making);
}

/* The endpoint, whose communicator was aborted, leaves its last call. */
static void nccl_leave_call(const struct nccl *n, struct nccl_job *job, int64_t deadline)
{
	nccl_job_wait(job, deadline);
	if (nccl_job_busy(job))
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a call into NCCL has not returned within %d ms of an abort and "
			"goes on in the background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
	/* A communicator that the call has made has had no call itself: if its abort takes long, nobody needs to know. */
	if (nccl_job_leave(job) == NCCL_JOB_DONE && job->newcomm) {
		nccl_abort_until(n, job->newcomm, deadline);
		job->newcomm = NULL;
	}
	nccl_job_unref(job);
}

void nccl_abort_comm(struct nccl *n, int64_t deadline)
{
	const nccl_comm_t comm = n->comm, base = n->base;
	struct nccl_job *job = n->job;

	n->comm = n->base = NULL;
	n->call_pending = 0;
	n->job = NULL;
	/* A call that has not begun never does, since its communicator ends now. */
	if (job)
		nccl_job_step(job, NCCL_JOB_NEW, NCCL_JOB_LEFT);
	if (base)
		nccl_abort_making(n, base, deadline);
	if (comm)
		nccl_abort_one(n, comm, deadline);
	if (job)
		nccl_leave_call(n, job, deadline);
}

/* Polls the last call for a moment: it completes soon unless it waits for a peer. */
static int32_t nccl_poll_shortly(struct nccl *n)
{
	const int64_t deadline = clock_now_ms() + NCCL_ABORT_MS / 4;
	unsigned round = 0;
	int32_t code;

	do
		code = nccl_poll_call(n, NULL);
	while (code == COLL_IN_PROGRESS && nccl_backoff(&round, deadline));
	return code;
}

/* Takes over the revoke that nccl_interrupt has begun; NULL if there is none, or if it has failed. */
static struct nccl_job *nccl_interrupted(struct nccl *n, int64_t deadline)
{
	struct nccl_job *job = atomic_exchange(&n->interrupt, NULL);

	if (!job)
		return NULL;
	nccl_job_wait(job, deadline);
	if (!nccl_failed(nccl_job_result(job)))
		return job;
	nccl_job_unref(job);
	return NULL;
}

/* Begins a revoke, and waits for it; NULL if the communicator must be aborted instead. */
static struct nccl_job *nccl_revoke_now(struct nccl *n, int64_t deadline)
{
	struct nccl_job *job;

	/* A communicator that is still connecting cannot be revoked, only aborted. */
	if (nccl_poll_shortly(n) || !nccl_lib.ncclCommRevoke || !nccl_lib.ncclCommShrink)
		return NULL;
	job = nccl_job_new(nccl_run_revoke, n->context, n->comm);
	if (job)
		nccl_job_run_until(job, deadline);
	return job;
}

/* Ends all work but keeps the communicator for a shrink.  Returns 0 if the caller must abort it instead. */
static int nccl_revoke(struct nccl *n, int64_t deadline)
{
	struct nccl_job *job = nccl_interrupted(n, deadline);
	int result;

	if (!job)
		job = nccl_revoke_now(n, deadline);
	if (!job)
		return 0;
	result = nccl_job_result(job);
	nccl_job_unref(job);
	if (result == NCCL_IN_PROGRESS) {
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL has not ended its work within %d ms of an abort and goes "
			"on in the background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
		n->comm = NULL; /* never freed: a thread of NCCL's still uses it */
		return 1;
	}
	n->revoked = result == NCCL_SUCCESS;
	return n->revoked;
}

void nccl_stop(struct nccl *n)
{
	int64_t deadline = clock_now_ms() + NCCL_ABORT_MS;

	if ((!n->comm && !n->base) || n->revoked)
		return;
	if (n->base || !nccl_revoke(n, deadline))
		nccl_abort_comm(n, deadline);
	n->call_pending = 0;
	if (nccl_device_wait(n, deadline - clock_now_ms()) == CUDA_NOT_READY)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: work on CUDA device %d did not end within %d ms of an abort: "
			"do not reuse the buffers of pending calls",
			n->rank, n->device, NCCL_ABORT_MS);
}

/* ----------------------------------------------------------- aborts: without the lock -- */

/*
 * A thread may be in a call that returns only when a stream has room for its work, behind kernels that wait for a peer.
 * Begins to end these kernels, without the lock.  A revoked communicator stays valid for the call.
 */
static void nccl_interrupt(struct nccl *n)
{
	const nccl_comm_t grouping = atomic_load(&n->grouping);
	const nccl_comm_t comm = grouping ? grouping : atomic_load(&n->calling);
	struct nccl_job *job, *none = NULL, *own;

	if (!comm || !nccl_lib.ncclCommRevoke)
		return;
	job = own = nccl_job_new(nccl_run_revoke, n->context, comm);
	if (!job)
		return;
	if (!atomic_compare_exchange_strong(&n->interrupt, &none, nccl_job_ref(job))) {
		nccl_job_unref(job); /* another abort has begun it */
	} else if (atomic_load(&n->calling) == comm || atomic_load(&n->grouping) == comm) {
		/* Who takes the lock after the call finds the revoke. */
		nccl_job_run_until(job, 0);
	} else {
		/* The call is over, and a thread may have taken the lock before: the revoke does not begin. */
		nccl_job_leave(job);
		if (atomic_compare_exchange_strong(&n->interrupt, &own, NULL))
			nccl_job_unref(job);
	}
	nccl_job_unref(job);
}

enum nccl_reached { NCCL_REACHED, NCCL_IN_CALL, NCCL_IN_GROUP };

/*
 * Takes the lock once no other thread has the endpoint in a group.  At the time `deadline` the function gives up, without
 * the lock, and returns what the other thread is in.
 */
static enum nccl_reached nccl_reach(struct nccl *n, int64_t deadline)
{
	for (;;) {
		if (!lock_within(&n->lock, 1000 * clock_remaining(deadline)))
			return NCCL_IN_CALL;
		if (!n->in_group || pthread_equal(n->group_thread, pthread_self()))
			return NCCL_REACHED;
		lock_release(&n->lock);
		if (!clock_remaining(deadline))
			return NCCL_IN_GROUP;
		clock_nap(1000);
	}
}

/* The endpoint, which is marked as aborted, ends later. */
static void nccl_log_unreached(const struct nccl *n, enum nccl_reached in)
{
	if (in == NCCL_IN_GROUP)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a thread has not ended its group within %d ms of an abort: the "
			"abort takes effect at the group's end",
			n->rank, NCCL_ABORT_MS);
	else
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a call into NCCL or the driver has not returned within %d ms and "
			"cannot be aborted (%s)",
			n->rank, NCCL_ABORT_MS,
			n->blocking ? "with nccl.blocking = no calls can be aborted"
			: nccl_lib.ncclCommRevoke
				? "other work than NCCL's keeps its stream full"
				: "if NCCL's work keeps its stream full: NCCL 2.28.7 is the first "
				  "that can end it");
}

void nccl_abort(void *ep)
{
	const int64_t begin = clock_now_ms();
	struct nccl *n = ep;
	enum nccl_reached reached;
	int pushed;

	atomic_store(&n->aborted, 1);
	reached = nccl_reach(n, begin + NCCL_CALL_MS);
	if (reached != NCCL_REACHED) {
		nccl_interrupt(n);
		reached = nccl_reach(n, begin + NCCL_ABORT_MS);
	}
	if (reached != NCCL_REACHED) {
		nccl_log_unreached(n, reached);
		return;
	}
	/* The end of an open group of this thread aborts the endpoint. */
	if (!n->in_group && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_stop(n);
		nccl_leave(pushed);
	}
	lock_release(&n->lock);
}
