/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl.h - types and functions that the files of the nccl backend share.  One endpoint is one NCCL
 * communicator with a stream of its own on one CUDA device.
 *
 * A file calls only files that stand after it here: nccl; derive; comm; event; launch; job; device; call;
 * grouped_p2p; links; library; built, real; error.
 */
#ifndef PLUGINS_NCCL_H
#define PLUGINS_NCCL_H

#include <coll/backend.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/plugin_kit.h"
#include "device/driver.h"
#include <pthread.h>
#include <stdatomic.h>

#include "nccl_api.h"

/* Longest time that an abort, or the end of an aborted endpoint, waits for work to leave streams. */
enum { NCCL_ABORT_MS = 1000 };
/* Time for which an abort waits for a call to return before it ends the work that the call waits for. */
enum { NCCL_CALL_MS = 100 };
/* Bytes of nccl.barrier_scratch. */
enum { NCCL_SCRATCH = 2 };

/* ---------------------------------------------------------------- nccl_library.c -- */

typedef int (*nccl_all_fn)(const void *send, void *recv, size_t count, int type, nccl_comm_t comm,
			   void *stream);
typedef int (*nccl_root_fn)(const void *send, void *recv, size_t count, int type, int root,
			    nccl_comm_t comm, void *stream);

/* NCCL's functions.  Those that came after 2.18 are NULL if the library lacks them. */
struct nccl_lib {
	int (*ncclGetVersion)(int *version);
	int (*ncclGetUniqueId)(nccl_unique_id_t *id);
	const char *(*ncclGetErrorString)(int result);
	const char *(*ncclGetLastError)(nccl_comm_t comm);
	int (*ncclCommInitRankConfig)(nccl_comm_t *comm, int nranks, nccl_unique_id_t id, int rank,
				      nccl_config_t *config);
	int (*ncclCommInitAll)(nccl_comm_t *comms, int ndev, const int *devices);
	int (*ncclCommFinalize)(nccl_comm_t comm);
	int (*ncclCommDestroy)(nccl_comm_t comm);
	int (*ncclCommAbort)(nccl_comm_t comm);
	int (*ncclCommGetAsyncError)(nccl_comm_t comm, int *result);
	int (*ncclCommSplit)(nccl_comm_t comm, int color, int key, nccl_comm_t *newcomm,
			     nccl_config_t *config);
	int (*ncclRedOpCreatePreMulSum)(int *op, void *scalar, int type, int residence,
					nccl_comm_t comm);
	int (*ncclRedOpDestroy)(int op, nccl_comm_t comm);
	int (*ncclAllReduce)(const void *send, void *recv, size_t count, int type, int op,
			     nccl_comm_t comm, void *stream);
	nccl_root_fn ncclBroadcast;
	int (*ncclReduce)(const void *send, void *recv, size_t count, int type, int op, int root,
			  nccl_comm_t comm, void *stream);
	nccl_all_fn ncclAllGather;
	int (*ncclReduceScatter)(const void *send, void *recv, size_t count, int type, int op,
				 nccl_comm_t comm, void *stream);
	int (*ncclSend)(const void *send, size_t count, int type, int peer, nccl_comm_t comm,
			void *stream);
	int (*ncclRecv)(void *recv, size_t count, int type, int peer, nccl_comm_t comm,
			void *stream);
	int (*ncclGroupStart)(void);
	int (*ncclGroupEnd)(void);
	/* NULL in a library that is too old. */
	int (*ncclCommRegister)(nccl_comm_t comm, void *ptr, size_t bytes, void **handle);
	int (*ncclCommDeregister)(nccl_comm_t comm, void *handle);
	int (*ncclMemAlloc)(void **ptr, size_t bytes);
	int (*ncclMemFree)(void *ptr);
	int (*ncclCommShrink)(nccl_comm_t comm, int *exclude, int n, nccl_comm_t *newcomm,
			      nccl_config_t *config, int flags);
	int (*ncclCommRevoke)(nccl_comm_t comm, int flags);
	nccl_all_fn ncclAlltoAll;
	nccl_root_fn ncclGather;
	nccl_root_fn ncclScatter;
	int version;
	int cuda;       /* the version of CUDA for which it was built, as 13000; 0: unknown */
	char path[256]; /* the file of the library */
};

extern struct nccl_lib nccl_lib;

/* Opens NCCL and the CUDA driver; an error if one is missing or too old, or if there is no device. */
int32_t nccl_library_open(const coll_host_t *host, coll_error_t *err);
/* Refuses an environment that makes all communicators non-blocking.  NCCL's init adds its files to the environment. */
int32_t nccl_check_environment(coll_error_t *err);
/*
 * Checks that the CUDA runtime inside NCCL can use the driver.  The device's context is current: the runtime would
 * otherwise make that of some device.
 */
int32_t nccl_check_runtime(coll_error_t *err);
/*
 * Does that runtime refuse the driver?  From NCCL 2.23 on; before, the answer is no.  The device's context is current.
 */
int nccl_runtime_refuses(void);
/* The version of CUDA for which a library of NCCL was built, as 13000 for CUDA 13.0; 0: unknown.  nccl_built.c */
int nccl_built_for(const char *path);
/* Fills *err with the text of a failed call, `what`, to NCCL; comm may be NULL. */
int32_t nccl_refused(coll_error_t *err, int result, const char *what, nccl_comm_t comm);
/* "2.28.9" */
void nccl_version_text(int version, char *text, size_t size);

/* ------------------------------------------------------------------ nccl_error.c -- */

/* Fills *err with the text of a failed call, `what`, to the driver. */
int32_t nccl_cuda_refused(coll_error_t *err, int result, const char *what);
/* COLL_ERR_ABORTED. */
int32_t nccl_aborted(coll_error_t *err);
/*
 * Yields or sleeps between two polls, longer with each round.  *round begins at 0.  Returns 0, without a pause, if the time
 * `deadline` has come.
 */
int nccl_backoff(unsigned *round, int64_t deadline);

/* --------------------------------------------------------------------- endpoint -- */

/* The connections that an endpoint's calls have made, and the connections that its next launch needs. */
struct nccl_links {
	uint64_t colls[256]; /* hashes of the collectives that have run; 0: none */
	/* The hash of the collectives of the next launch; 0: the launch has none that connects ranks. */
	uint64_t coll;
	/* For each rank NCCL_LINK_*; << WANTED: the next launch connects it; << EMPTY: NCCL may connect it then. */
	uint8_t *pairs;
	uint32_t first,
		end; /* the ranks that the next launch needs are from `first` to before `end` */
};
enum { NCCL_LINK_SEND = 1, NCCL_LINK_RECV = 2, NCCL_LINK_BOTH = 3 };
enum { NCCL_LINK_WANTED = 2, NCCL_LINK_EMPTY = 4 }; /* shifts of these bits */

struct nccl_job;

/* Device memory for copies of buffers.  The operations that use it follow one another in the order of its stream. */
struct nccl_scratch {
	struct nccl_scratch *next;
	cuda_ptr_t ptr;
	size_t bytes;
	void *stream;
	int in_group; /* an operation of the open group uses it */
	int captured; /* the work of a graph uses it */
};

/* The place for a communicator that NCCL makes.  It is never freed if NCCL has not ended that after an abort. */
struct nccl_making {
	nccl_comm_t comm;
	struct nccl_making *next;
};

struct nccl_result; /* of a reduction, not yet copied to the caller's buffer */

struct nccl;

/* One operation.  The functions that run it read no member of *n, which may have ended meanwhile. */
struct nccl_call {
	struct nccl_call *next;
	struct nccl *n;
	nccl_comm_t comm;
	uint32_t rank, nranks;
	const coll_args_t *args;
	const void *send; /* args->sendbuf, or a copy of what was there */
	void *recv;       /* args->recvbuf, or where the result lies until nccl_copy_results */
	void *stream;
	void *barrier_scratch;
	int type;      /* ncclDataType_t */
	int op;        /* ncclRedOp_t */
	size_t factor; /* elements of `type` in one element of the caller's */
	size_t size;   /* bytes of one element of the caller's */
};

/* The last call that went to NCCL as it was, in the calling thread: a call with other buffers needs no more work. */
struct nccl_again {
	struct nccl_call call;         /* its args are of the call under way */
	int32_t kind, dtype, op, root; /* as in coll_args_t; kind 0: there is no such call */
	uint64_t count;
	void *stream;
	uintptr_t odd; /* the bits that are 0 in the addresses of aligned buffers */
};

struct nccl {
	const coll_host_t *host;
	uint32_t rank, nranks;
	int blocking;
	int fp8; /* NCCL and the devices of all ranks reduce float8 */
	int device;
	void *context;              /* the device's primary context */
	void *stream;               /* the endpoint's own stream */
	cuda_ptr_t barrier_scratch; /* NCCL_SCRATCH bytes on the device: a barrier sums the first */
	atomic_int aborted;         /* an abort sets it before it takes the lock */

	/* The communicator, while a thread makes calls that the driver may block: see nccl_enqueue_begin; else NULL. */
	_Atomic(nccl_comm_t) calling;
	/* The same for a thread that runs a group with the endpoint: it does not hold the lock, so other threads may set `calling`. */
	_Atomic(nccl_comm_t) grouping;
	/* The revoke that an abort has begun without the lock, until nccl_stop takes it over; else NULL. */
	_Atomic(struct nccl_job *) interrupt;

	/* Protects the members below, and calls into NCCL for comm. */
	struct lock lock;
	nccl_comm_t comm; /* NULL: not made yet, or aborted */
	nccl_comm_t base; /* while the endpoint is made: the non-blocking parent of comm */
	struct nccl_making *making; /* where NCCL puts comm; or NULL */
	int call_pending;     /* NCCL may not have completed the last call on base, else on comm */
	struct nccl_job *job; /* the last call, while it is a job; else NULL */
	int failed;           /* the result with which a job has failed, or 0 */
	const char *failed_what;
	int revoked; /* aborted, but usable for a shrink */
	struct nccl_links links;

	/* The open group of a thread that has the endpoint. */
	int in_group;
	pthread_t group_thread;
	struct nccl *next;    /* the next endpoint of the group */
	int on_caller_stream; /* the group has work on a stream of the caller's */

	struct nccl_again again; /* see nccl_launch.c */

	/* The order of streams, see nccl_launch.c. */
	void *last_stream;  /* of the last operation that is work for NCCL; NULL: there was none */
	int last_unknown;   /* later ones, of other streams, may have been work too */
	int copied;         /* a copy of a result is behind an operation on the own stream */
	int depends_on_own; /* at the group's end the per-thread stream waits for `stream` */
	void *dependency;   /* the event of nccl_stream_dependency; NULL: not made yet */
	struct nccl_scratch *scratch;
	struct nccl_result *results;
};

struct nccl_event {
	void *event;
	void *context; /* of `event`: only there it can be recorded */
};

/* ----------------------------------------------------------------- nccl_device.c -- */

/* What nccl_enter has done, in *pushed.  NCCL_MODE is times 1 more than the mode before, or 0: the mode is as it was. */
enum { NCCL_PUSHED = 1, NCCL_MODE = 2 };

/*
 * Makes a context current.  Until nccl_leave(), which gets *pushed, the thread may make calls that CUDA forbids while
 * some thread captures a stream: without that, they would fail and end the application's capture.
 */
static inline int32_t nccl_enter(void *context, int *pushed, coll_error_t *err)
{
	int mode = CUDA_CAPTURE_RELAXED, result;
	void *current = NULL;

	*pushed = 0;
	/* In a thread without a context the driver returns success and NULL. */
	if (cuda_driver.cuCtxGetCurrent(&current) || current != context) {
		result = cuda_driver.cuCtxPushCurrent(context);
		if (result)
			return nccl_cuda_refused(err, result, "cuCtxPushCurrent");
		*pushed = NCCL_PUSHED;
	}
	if (cuda_driver.cuThreadExchangeStreamCaptureMode &&
	    !cuda_driver.cuThreadExchangeStreamCaptureMode(&mode))
		*pushed |= (mode + 1) * NCCL_MODE;
	return COLL_SUCCESS;
}

static inline void nccl_leave(int pushed)
{
	int mode = (int)((unsigned)pushed / NCCL_MODE) - 1;
	void *context;

	if (mode >= 0)
		cuda_driver.cuThreadExchangeStreamCaptureMode(&mode);
	if (pushed & NCCL_PUSHED)
		cuda_driver.cuCtxPopCurrent(&context);
}

/* Is the stream being captured? */
int nccl_is_captured(void *stream);
/* cuStreamQuery: CUDA_OK, CUDA_NOT_READY (also if it is captured), or an error. */
int nccl_stream_query(void *stream);
/* Chooses the endpoint's device; makes its context, stream and barrier_scratch. */
int32_t nccl_device_open(struct nccl *n, coll_error_t *err);
/*
 * Waits at most timeout_ms until the own stream is idle.  Returns CUDA_OK, CUDA_NOT_READY if the stream is not idle, or
 * the error with which its work ended.
 */
int nccl_device_wait(const struct nccl *n, int64_t timeout_ms);
/* Keeps barrier_scratch for later endpoints, or adds it to the endpoint's other memory. */
void nccl_barrier_scratch_close(struct nccl *n);
/* Ends the endpoint's stream.  Its memory is closed: nccl_scratch_close. */
void nccl_device_close(struct nccl *n);

/* ------------------------------------------------------------------- nccl_comm.c -- */

int32_t nccl_open(const coll_host_t *host, void **ep, coll_error_t *err);
int32_t nccl_open_all(const coll_host_t *const *hosts, uint32_t n, void **eps, coll_error_t *err);
void nccl_close(void *ep, int64_t timeout_ms);
/* Makes an endpoint without NCCL's communicator.  On an error *out may be half-made. */
int32_t nccl_new(const coll_host_t *host, struct nccl **out, coll_error_t *err);
nccl_config_t nccl_config(int blocking);

/* ----------------------------------------------------------------- nccl_derive.c -- */

int32_t nccl_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		   coll_error_t *err);
int32_t nccl_shrink(void *ep, const int32_t *exclude, int32_t count, const coll_host_t *newhost,
		    void **newep, coll_error_t *err);

/* --------------------------------------------------- nccl_call.c nccl_grouped_p2p.c -- */

/* Elements of the part of rank r: the call's count, or in the v-forms that of its array. */
static inline size_t nccl_part_count(const coll_args_t *a, const size_t *counts, uint32_t r)
{
	return counts ? counts[r] : a->count;
}

/* An allreduce of nccl_run_call, as a part of its caller. */
static inline int nccl_run_allreduce(const struct nccl_call *c, const char **what)
{
	*what = "ncclAllReduce";
	return nccl_lib.ncclAllReduce(c->send, c->recv, c->args->count * c->factor, c->type, c->op,
				      c->comm, c->stream);
}
/* Calls NCCL and returns its result; *what becomes the name of the called function. */
int nccl_run_call(const struct nccl_call *c, const char **what);
/* The same for a group of several operations. */
int nccl_run_group(const struct nccl_call *calls, const char **what);
/* The same for the calls of a job. */
int nccl_run_calls(struct nccl_job *job);
/* Describes an operation of the endpoint for NCCL. */
void nccl_call_init(struct nccl_call *c, struct nccl *n, const coll_args_t *args);
/* Copies a call with the arrays of its args; NULL: no memory. */
struct nccl_call *nccl_call_copy(const struct nccl_call *c);
void nccl_calls_free(struct nccl_call *calls);
int32_t nccl_takes(void *ep, const coll_args_t *args, coll_error_t *err);
int nccl_reduces(int32_t kind);

static inline int nccl_is_float8(int32_t dtype)
{
	return dtype == COLL_FLOAT8E4M3 || dtype == COLL_FLOAT8E5M2;
}

/* Is the number that of an operation of coll.h which NCCL lacks, and so one that NCCL may give to another? */
int nccl_lacks_op(int32_t op);
/* COLL_ERR_UNSUPPORTED with a message if NCCL does not reduce the type or lacks the operation. */
int32_t nccl_check_reduction(const struct nccl *n, int32_t dtype, int32_t op, coll_error_t *err);

/*
 * Operations made of several calls in one NCCL group; they return NCCL's result.  The first three also serve
 * the v-forms, whose args have arrays of counts.
 */
int nccl_gather_grouped_p2p(const struct nccl_call *c);
int nccl_scatter_grouped_p2p(const struct nccl_call *c);
int nccl_alltoall_grouped_p2p(const struct nccl_call *c);
int nccl_allgatherv_grouped_p2p(const struct nccl_call *c);
int nccl_reduce_scatterv_grouped_p2p(const struct nccl_call *c);
/* Bytes from the beginning of sendbuf to the end of the last part of an alltoall or alltoallv. */
size_t nccl_alltoall_span(const struct nccl_call *c);

/* ------------------------------------------------ nccl_job.c: calls that may block -- */

/*
 * NCCL's communicators are blocking: a call returns when its work is on the stream.  But NCCL connects ranks when a call
 * first needs the connection, and such a call waits for its peers, as splits and shrinks do.  Calls that end something
 * (abort, revoke, finalize and destroy, cuMemFree) wait for work of the device.  Each of these calls is a job: a thread of
 * its own makes the call, and another thread waits for the job until a deadline or an abort.  With `blocking = yes` only
 * splits, shrinks and the calls that end something are jobs.
 *
 *     NEW ----> RUNS -------------> DONE      the call has begun; it has returned
 *      |        |  \                ^
 *      |        |   `----> ENDS ----'         NCCL has finalized a communicator, and destroys it now
 *      |        v
 *      `-----> LEFT                           nobody waits for the job any longer
 *
 * Who leaves a NEW job prevents its call.  Who leaves a job that RUNS leaves its end to the job's thread, which aborts a
 * communicator that the call makes, and does not destroy a communicator that it has finalized: the leaving thread aborts
 * that.  A job that ENDS or is DONE cannot be left.
 *
 * An endpoint makes no call before NCCL has completed its last one, whose work may not be on its stream yet.  So every call
 * that relies on the order of streams comes after nccl_begin or nccl_wait_call.  The last call is
 *
 *     in a thread's hand       `calling` or `grouping` is set: the driver may block the thread
 *     in a job                 `job` is set: nccl_poll_call takes the result when the job is DONE
 *     begun by NCCL            `call_pending` is 1, while the endpoint is made: NCCL's threads connect the ranks
 *     failed                   `failed` is set, or `call_pending` stays: every later call fails in the same way
 *     complete                 none of these is set
 *
 * An abort ends a call in each of these states.  Then the endpoint is `revoked`, and can shrink, or has no communicator.
 */
struct nccl_job {
	atomic_int refs, state; /* NCCL_JOB_* */
	int (*run)(struct nccl_job *job);
	int result;
	const char *what;            /* the name of the function that returned the result */
	void *context;               /* current while the call runs */
	nccl_comm_t comm;            /* the communicator of the call; NULL: destroyed, or none */
	struct nccl_call *calls;     /* operations */
	struct nccl_scratch *memory; /* to free */
	/* Of a split or a shrink. */
	nccl_comm_t newcomm;
	nccl_config_t config;
	int color, key, exclude_count, flags, *exclude;
};
enum { NCCL_JOB_NEW, NCCL_JOB_RUNS, NCCL_JOB_ENDS, NCCL_JOB_DONE, NCCL_JOB_LEFT };

/* NULL: no memory.  The caller has a reference, so has the thread, and so has each endpoint whose last call it is. */
struct nccl_job *nccl_job_new(int (*run)(struct nccl_job *job), void *context, nccl_comm_t comm);
struct nccl_job *nccl_job_ref(struct nccl_job *job);
void nccl_job_unref(struct nccl_job *job);
/* Starts the thread; an error if there can be none. */
int32_t nccl_job_start(struct nccl_job *job, coll_error_t *err);

/*
 * Ends a communicator that has no work.  If NCCL does not do so before the time `deadline`, the communicator is
 * aborted, or its end goes on in the background.
 */
enum nccl_ended { NCCL_ENDED, NCCL_END_ABORTED, NCCL_END_GOES_ON };
enum nccl_ended nccl_finish_comm(struct nccl *n, nccl_comm_t comm, int64_t deadline,
				 int abort_if_late);
/* Frees device memory that no work uses; after the time `deadline` that goes on in the background. */
void nccl_free_memory(struct nccl *n, struct nccl_scratch *memory, int64_t deadline);

/* COLL_SUCCESS if NCCL has completed the last call, COLL_IN_PROGRESS, or its failure.  The lock is held. */
int32_t nccl_poll_call(struct nccl *n, coll_error_t *err);
/*
 * Waits until NCCL has completed the last call, at most timeout_ms; an abort of the endpoint or of host's communicator
 * ends the wait, and an endpoint that an abort has revoked meanwhile is COLL_ERR_ABORTED too.  The lock is held; the
 * function releases it while it waits.
 */
int32_t nccl_wait_call(struct nccl *n, const coll_host_t *host, int64_t timeout_ms,
		       coll_error_t *err);
/* Records the result of a call to NCCL; `what` is the name of the call.  The lock is held. */
int32_t nccl_record_result(struct nccl *n, int result, const char *what, coll_error_t *err);
int32_t nccl_query(void *ep, coll_error_t *err);
int32_t nccl_sync(void *ep, int64_t timeout_ms, coll_error_t *err);
int32_t nccl_async_error(void *ep, coll_error_t *err);

void nccl_abort(void *ep);
/* Aborts the endpoint.  The lock is held, the context is current, no group is open. */
void nccl_stop(struct nccl *n);
/* Aborts NCCL's communicators and sets n->comm to NULL; waits for the abort until the time `deadline`. */
void nccl_abort_comm(struct nccl *n, int64_t deadline);

/* Is there anything about the last call that nccl_poll_call has to look at?  The lock is held. */
static inline int nccl_call_is_open(const struct nccl *n)
{
	return n->job || n->failed || n->call_pending || n->base || !n->comm;
}

static inline int nccl_failed(int result)
{
	return result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS;
}

/* Has an abort begun?  It may have ended the work while it still waits for the lock.  The lock is held. */
static inline int nccl_is_aborted(const struct nccl *n)
{
	return n->revoked | atomic_load(&n->aborted);
}

/*
 * Makes the context current and waits for NCCL.  The lock is held.  On an error it releases the lock and restores the
 * context.
 */
static inline int32_t nccl_begin_locked(struct nccl *n, int *pushed, coll_error_t *err)
{
	int32_t code;

	/* An abort may end the work of the communicator without the lock: see nccl_abort. */
	code = nccl_is_aborted(n) ? nccl_aborted(err) : nccl_enter(n->context, pushed, err);
	if (!code && nccl_call_is_open(n)) {
		code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
		if (code)
			nccl_leave(*pushed);
	}
	if (code)
		lock_release(&n->lock);
	return code;
}

/* The same, but takes the lock. */
static inline int32_t nccl_begin(struct nccl *n, int *pushed, coll_error_t *err)
{
	lock_acquire(&n->lock);
	return nccl_begin_locked(n, pushed, err);
}

static inline void nccl_end(struct nccl *n, int pushed)
{
	nccl_leave(pushed);
	lock_release(&n->lock);
}

/*
 * Calls that put work on streams come between nccl_enqueue_begin and nccl_enqueue_end.  The driver blocks the thread in them
 * while a stream is full, and an abort then ends NCCL's work there without the lock: see nccl_abort.  nccl_enqueue_begin
 * refuses an endpoint that was aborted.  The lock is held.  For a group see nccl_group_run_here.
 */
static inline void nccl_enqueue_end(struct nccl *n)
{
	atomic_store(&n->calling, NULL);
}

static inline int32_t nccl_enqueue_begin(struct nccl *n, coll_error_t *err)
{
	/* With `blocking = yes` the ranks may still connect in the calls: then NCCL cannot revoke. */
	if (!n->blocking)
		atomic_store_explicit(&n->calling, n->comm, memory_order_relaxed);
	/* An abort sets `aborted`, and reads `calling` later: this thread sees the abort, or the abort sees this call. */
	if (!nccl_is_aborted(n))
		return COLL_SUCCESS;
	nccl_enqueue_end(n);
	return nccl_aborted(err);
}

/* ---------------------------------------------------------------- nccl_launch.c -- */

/* The function in each slot of coll_native_t that is an operation. */
int32_t nccl_call(void *ep, const coll_args_t *args, coll_error_t *err);
int32_t nccl_group_begin(void *ep, coll_error_t *err);
int32_t nccl_group_end(void *ep, coll_error_t *err);
int32_t nccl_take_place(void *ep, coll_stream_t stream, coll_error_t *err);
/*
 * Puts the copies of results to the caller's buffers on their streams, once NCCL has put the reductions there, or with a
 * `code` forgets them.  Returns the code, or its own.  The lock is held.
 */
int32_t nccl_copy_results(struct nccl *n, int32_t code, coll_error_t *err);
/*
 * Frees the endpoint's device memory if its stream is idle.  CUDA frees memory when the device is idle: the function waits
 * for CUDA until the time `deadline`.
 */
void nccl_scratch_close(struct nccl *n, int64_t deadline);

/* ----------------------------------------------------------------- nccl_links.c -- */

int32_t nccl_links_open(struct nccl *n, coll_error_t *err);
void nccl_links_close(struct nccl *n);
/* Notes the connections that the calls of this endpoint need: 1 if all of them exist. */
int nccl_links_exist(struct nccl *n, const struct nccl_call *calls);
/* The connections that nccl_links_exist has noted exist now. */
void nccl_links_made(struct nccl *n);

/* ------------------------------------------------------------------ nccl_event.c -- */

int32_t nccl_event_create(void *ep, void **event, coll_error_t *err);
void nccl_event_destroy(void *ep, void *event);
int32_t nccl_event_record(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
int32_t nccl_event_wait(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
int32_t nccl_event_query(void *ep, void *event, coll_error_t *err);
int32_t nccl_event_synchronize(void *ep, void *event, int64_t timeout_ms, coll_error_t *err);

#endif
