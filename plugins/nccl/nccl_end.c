/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_end.c - aborts, revokes and ends communicators of NCCL, and frees device memory.  Each of these calls may wait
 * for the whole device.
 */
#include "nccl.h"
#include "base/thread.h"

#include <stdlib.h>

/*
 * Runs one call to NCCL that ends a communicator, or its work, in a thread of its own, because such a call waits
 * for work that others put on the streams before this communicator's work, or for the whole device.  It frees memory
 * in the same way.
 */
struct nccl_ender {
	int (*end)(struct nccl_ender *e);
	nccl_comm_t comm;
	struct nccl_scratch *memory;
	void *context;
	int result;
	atomic_int done, state; /* NCCL_ENDER_* */
	atomic_int refs;        /* of the thread, and of the caller that waits for it */
};
enum { NCCL_ENDER_FINALIZES, NCCL_ENDER_DESTROYS, NCCL_ENDER_CANCELLED };

static void nccl_ender_unref(struct nccl_ender *e)
{
	if (e && atomic_fetch_sub(&e->refs, 1) == 1)
		free(e);
}

static void *nccl_ender_run(void *arg)
{
	struct nccl_ender *e = arg;
	int pushed = 0;

	nccl_enter(e->context, &pushed, NULL);
	e->result = e->end(e);
	nccl_leave(pushed);
	atomic_store(&e->done, 1);
	nccl_ender_unref(e);
	return NULL;
}

static struct nccl_ender *nccl_ender_new(void *context, nccl_comm_t comm,
					 int (*end)(struct nccl_ender *e))
{
	struct nccl_ender *e = calloc(1, sizeof(*e));

	if (e)
		*e = (struct nccl_ender){.end = end, .comm = comm, .context = context, .refs = 2};
	return e;
}

static void nccl_ender_wait(const struct nccl_ender *e, int64_t deadline)
{
	for (unsigned i = 0; !atomic_load(&e->done) && clock_now_ms() < deadline; i++)
		nccl_backoff(i);
}

/* Waits for the call until the time `deadline`.  Without a thread the call is made here. */
static void nccl_ender_run_until(struct nccl_ender *e, int64_t deadline)
{
	pthread_t thread;

	if (thread_start(&thread, nccl_ender_run, e)) {
		nccl_ender_run(e);
		return;
	}
	nccl_ender_wait(e, deadline);
	if (atomic_load(&e->done))
		pthread_join(thread, NULL); /* it ends now */
	else
		pthread_detach(thread);
}

/* NULL: there is no memory for that. */
static struct nccl_ender *nccl_ender_start(void *context, nccl_comm_t comm,
					   int (*end)(struct nccl_ender *e), int64_t deadline)
{
	struct nccl_ender *e = nccl_ender_new(context, comm, end);

	if (e)
		nccl_ender_run_until(e, deadline);
	return e;
}

/* The end of the non-blocking parent of a communicator goes on after the call. */
static int nccl_ender_settle(const struct nccl_ender *e, int result)
{
	for (unsigned i = 0; result == NCCL_IN_PROGRESS; i++) {
		if (atomic_load(&e->state) == NCCL_ENDER_CANCELLED ||
		    nccl_lib.ncclCommGetAsyncError(e->comm, &result))
			return NCCL_INTERNAL_ERROR;
		if (result == NCCL_IN_PROGRESS)
			nccl_backoff(i);
	}
	return result;
}

static int nccl_ender_abort(struct nccl_ender *e)
{
	return nccl_lib.ncclCommAbort(e->comm);
}

static int nccl_ender_revoke(struct nccl_ender *e)
{
	return nccl_ender_settle(e, nccl_lib.ncclCommRevoke(e->comm, 0));
}

static int nccl_ender_finish(struct nccl_ender *e)
{
	int state = NCCL_ENDER_FINALIZES;
	int result = nccl_ender_settle(e, nccl_lib.ncclCommFinalize(e->comm));

	if (!result && !atomic_compare_exchange_strong(&e->state, &state, NCCL_ENDER_DESTROYS))
		result = NCCL_INTERNAL_ERROR;
	return result ? result : nccl_lib.ncclCommDestroy(e->comm);
}

static int nccl_ender_free(struct nccl_ender *e)
{
	struct nccl_scratch *s;

	while ((s = e->memory)) {
		e->memory = s->next;
		cuda_driver.cuMemFree(s->ptr);
		free(s);
	}
	return NCCL_SUCCESS;
}

void nccl_free_memory(struct nccl *n, struct nccl_scratch *memory, int64_t deadline)
{
	struct nccl_ender *e = memory ? nccl_ender_new(n->context, NULL, nccl_ender_free) : NULL;

	if (!e)
		return;
	e->memory = memory;
	nccl_ender_run_until(e, deadline);
	if (!atomic_load(&e->done))
		kit_log(n->host, COLL_LOG_INFO,
			"rank %u: other work keeps CUDA device %d busy, so CUDA has not freed "
			"memory of the communicator: that goes on in the background",
			n->rank, n->device);
	nccl_ender_unref(e);
}

/* Returns 1 if NCCL has aborted it. */
static int nccl_abort_one(struct nccl *n, nccl_comm_t comm, int64_t deadline)
{
	struct nccl_ender *e = nccl_ender_start(n->context, comm, nccl_ender_abort, deadline);
	int done = !e || atomic_load(&e->done);
	const int result = !e ? nccl_lib.ncclCommAbort(comm) : done ? e->result : NCCL_SUCCESS;

	if (!done)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL's abort has not returned within %d ms and goes on in the "
			"background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
	else if (result)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL has refused to abort its communicator (%s): do not reuse "
			"the "
			"buffers of pending calls",
			n->rank, nccl_lib.ncclGetErrorString(result));
	nccl_ender_unref(e);
	return done && !result;
}

enum nccl_ended nccl_finish_comm(struct nccl *n, nccl_comm_t comm, int64_t deadline,
				 int abort_if_late)
{
	struct nccl_ender *e = nccl_ender_start(n->context, comm, nccl_ender_finish, deadline);
	enum nccl_ended ended = NCCL_ENDED;
	int state = NCCL_ENDER_FINALIZES;

	if (!e) {
		nccl_abort_one(n, comm, deadline);
		return NCCL_END_ABORTED;
	}
	if (!atomic_load(&e->done) || e->result)
		ended = NCCL_END_GOES_ON;
	if (ended == NCCL_END_GOES_ON && abort_if_late &&
	    atomic_compare_exchange_strong(&e->state, &state, NCCL_ENDER_CANCELLED)) {
		nccl_abort_one(n, comm, clock_now_ms() + NCCL_ABORT_MS);
		ended = NCCL_END_ABORTED;
	}
	nccl_ender_unref(e);
	return ended;
}

/* Aborts a communicator that has had no call: if it takes long, nobody needs to know. */
static void nccl_abort_made(struct nccl *n, nccl_comm_t comm, int64_t deadline)
{
	struct nccl_ender *e = nccl_ender_start(n->context, comm, nccl_ender_abort, deadline);

	if (!e)
		nccl_lib.ncclCommAbort(comm);
	nccl_ender_unref(e);
}

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
					       : !nccl_abort_one(n, base, deadline);
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

void nccl_abort_comm(struct nccl *n, int64_t deadline)
{
	const nccl_comm_t comm = n->comm, base = n->base;
	struct nccl_job *job = n->job;
	nccl_comm_t made;

	n->comm = n->base = NULL;
	n->call_pending = 0;
	n->job = NULL;
	if (job)
		nccl_job_cancel(job);
	if (base)
		nccl_abort_making(n, base, deadline);
	if (comm)
		nccl_abort_one(n, comm, deadline);
	if (!job)
		return;
	for (unsigned i = 0; atomic_load(&job->state) == NCCL_JOB_RUNS && clock_now_ms() < deadline;
	     i++)
		nccl_backoff(i);
	if (atomic_load(&job->state) == NCCL_JOB_RUNS)
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: a call into NCCL has not returned within %d ms of an abort and "
			"goes on in the background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
	made = nccl_job_drop(job);
	if (made)
		nccl_abort_made(n, made, deadline);
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

/* Takes over the revoke that nccl_interrupt has begun; NULL if there is none, or if it has failed. */
static struct nccl_ender *nccl_interrupted(struct nccl *n, int64_t deadline)
{
	struct nccl_ender *e = atomic_exchange(&n->interrupt, NULL);

	if (!e)
		return NULL;
	nccl_ender_wait(e, deadline);
	if (!atomic_load(&e->done) || !e->result)
		return e;
	nccl_ender_unref(e);
	return NULL;
}

/* Begins a revoke, and waits for it; NULL if the communicator must be aborted instead. */
static struct nccl_ender *nccl_revoke_now(struct nccl *n, int64_t deadline)
{
	/* A communicator that is still connecting cannot be revoked, only aborted. */
	if (nccl_poll_shortly(n) || !nccl_lib.ncclCommRevoke || !nccl_lib.ncclCommShrink)
		return NULL;
	return nccl_ender_start(n->context, n->comm, nccl_ender_revoke, deadline);
}

/* Ends all work but keeps the communicator for a shrink.  Returns 0 if the caller must abort it instead. */
static int nccl_revoke(struct nccl *n, int64_t deadline)
{
	struct nccl_ender *e = nccl_interrupted(n, deadline);
	int state;

	if (!e)
		e = nccl_revoke_now(n, deadline);
	if (!e)
		return 0;
	state = atomic_load(&e->done) ? e->result : NCCL_IN_PROGRESS;
	nccl_ender_unref(e);
	if (state == NCCL_IN_PROGRESS) {
		kit_log(n->host, COLL_LOG_ERROR,
			"rank %u: NCCL has not ended its work within %d ms of an abort and goes "
			"on in the background: do not reuse the buffers of pending calls",
			n->rank, NCCL_ABORT_MS);
		n->comm = NULL; /* never freed: a thread of NCCL's still uses it */
		return 1;
	}
	n->revoked = state == NCCL_SUCCESS;
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

/* The revoke does not begin. */
static void nccl_withdraw(struct nccl *n, struct nccl_ender *e)
{
	struct nccl_ender *own = e;

	e->result = NCCL_INTERNAL_ERROR;
	atomic_store(&e->done, 1);
	if (atomic_compare_exchange_strong(&n->interrupt, &own, NULL))
		nccl_ender_unref(e);
	nccl_ender_unref(e); /* of the thread */
}

/*
 * A thread is in a call that returns only when a stream has room for its work, behind kernels that wait for a peer.  Begins
 * to end those, without the lock; a revoked communicator stays valid for the call.
 */
static void nccl_interrupt(struct nccl *n)
{
	const nccl_comm_t grouping = atomic_load(&n->grouping);
	const nccl_comm_t comm = grouping ? grouping : atomic_load(&n->calling);
	struct nccl_ender *e, *none = NULL;

	if (!comm || !nccl_lib.ncclCommRevoke)
		return;
	e = nccl_ender_new(n->context, comm, nccl_ender_revoke);
	if (!e)
		return;
	atomic_fetch_add(&e->refs, 1); /* of the endpoint */
	if (!atomic_compare_exchange_strong(&n->interrupt, &none, e)) {
		free(e); /* another abort has begun it */
		return;
	}
	/* Who takes the lock after the call finds the revoke.  If the call is over, a thread may have taken the lock before. */
	if (atomic_load(&n->calling) == comm || atomic_load(&n->grouping) == comm)
		nccl_ender_run_until(e, 0);
	else
		nccl_withdraw(n, e);
	nccl_ender_unref(e);
}

enum nccl_reached { NCCL_REACHED, NCCL_IN_CALL, NCCL_IN_GROUP };

/*
 * Takes the lock once no other thread has the endpoint in a group.  At the time `deadline` the function gives up, without
 * the lock, and returns what the other thread is in.
 */
static enum nccl_reached nccl_reach(struct nccl *n, int64_t deadline)
{
	for (;;) {
		if (!clock_lock_within(&n->lock, (int)clock_remaining(deadline)))
			return NCCL_IN_CALL;
		if (!n->in_group || nccl_group_has(n))
			return NCCL_REACHED;
		pthread_mutex_unlock(&n->lock);
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
	pthread_mutex_unlock(&n->lock);
}
