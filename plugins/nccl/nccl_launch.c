/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_launch.c - how operations go to NCCL: now, in a job, or at the end of a thread's open group; and their order with
 * copies and other work on streams that is not NCCL's.
 */
#include "nccl.h"
#include "nccl_range.h"

#include <stdlib.h>

/*
 * A thread's open group: its calls go to NCCL at its outermost end, on all endpoints at once.  Only then the plugin
 * knows whether NCCL has to connect ranks for them.
 */
static _Thread_local struct {
	int depth;
	struct nccl *members;
	struct nccl_call *calls, **last;
} nccl_group;

/* Threads with an open group: while there is none, no call looks at memory of its thread, which costs a function call. */
static atomic_int nccl_group_threads;

static int nccl_group_open(void)
{
	return atomic_load_explicit(&nccl_group_threads, memory_order_relaxed) &&
	       nccl_group.depth > 0;
}

/* --------------------------------------------------- work on streams that is not NCCL's -- */

/* Later work on stream `to` waits for the work that is now on stream `from`. */
static int32_t nccl_stream_dependency(struct nccl *n, void *from, void *to, coll_error_t *err)
{
	int32_t code = nccl_enqueue_begin(n, err);
	int result = CUDA_OK;

	if (code)
		return code;
	if (!n->dependency)
		result = cuda_driver.cuEventCreate(&n->dependency, CUDA_EVENT_DISABLE_TIMING);
	if (!result)
		result = cuda_driver.cuEventRecord(n->dependency, from);
	if (!result)
		result = cuda_driver.cuStreamWaitEvent(to, n->dependency, 0);
	nccl_enqueue_end(n);
	return result ? nccl_cuda_refused(err, result, "cuEventRecord") : COLL_SUCCESS;
}

/* Puts a copy of device memory on the stream. */
static int32_t nccl_copy(struct nccl *n, cuda_ptr_t to, cuda_ptr_t from, size_t bytes, void *stream,
			 coll_error_t *err)
{
	int32_t code = nccl_enqueue_begin(n, err);
	int result;

	if (code)
		return code;
	result = cuda_driver.cuMemcpyAsync(to, from, bytes, stream);
	nccl_enqueue_end(n);
	return result ? nccl_cuda_refused(err, result, "cuMemcpyAsync") : COLL_SUCCESS;
}

/* Device memory for work on `stream`, valid in the order of the stream. */
static int32_t nccl_scratch(struct nccl *n, size_t bytes, void *stream, cuda_ptr_t *ptr,
			    coll_error_t *err)
{
	struct nccl_scratch *s = n->scratch;
	int captured = nccl_is_captured(stream), result;

	/*
	 * Later work on a stream may reuse memory of earlier work: it runs after that work.  But captured work runs
	 * whenever the program launches its graph.
	 */
	while (s &&
	       (captured || s->captured || s->stream != stream || s->bytes < bytes || s->in_group))
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return error_fill(err, COLL_ERR_NO_MEMORY,
					  "no memory for a copy of a buffer");
		result = cuda_driver.cuMemAlloc(&s->ptr, bytes);
		if (result) {
			free(s);
			return nccl_cuda_refused(err, result, "cuMemAlloc for a copy of a buffer");
		}
		s->bytes = bytes;
		s->stream = stream;
		s->next = n->scratch;
		n->scratch = s;
	}
	s->captured = captured;
	s->in_group = nccl_group_open();
	*ptr = s->ptr;
	return COLL_SUCCESS;
}

void nccl_scratch_close(struct nccl *n, int64_t deadline)
{
	struct nccl_scratch *s;

	if (!n->stream || nccl_device_wait(n, 0) != CUDA_NOT_READY) {
		nccl_barrier_scratch_close(n);
		nccl_free_memory(n, n->scratch, deadline);
		n->scratch = NULL;
	}
	/* Work that never ends still uses its memory. */
	while ((s = n->scratch)) {
		n->scratch = s->next;
		free(s);
	}
}

/* --------------------------------------------------- its order with NCCL's operations -- */

/* The last operation was on this stream; unknown: as last_unknown.  A call as n->again follows it only on the same stream. */
static void nccl_note_stream(struct nccl *n, void *stream, int unknown)
{
	if (unknown || stream != n->last_stream)
		n->again.kind = 0;
	n->last_stream = stream;
	n->last_unknown = unknown;
}

/*
 * NCCL executes the operations of a communicator one after the other, whatever their streams.  The stream of an earlier
 * operation may be the caller's, who may have destroyed it.  So no event is recorded there later: a fence, an operation of
 * this rank alone, has its place among NCCL's operations instead.  It sends a byte from this rank to itself.
 */
static int32_t nccl_fence(struct nccl *n, void *stream, coll_error_t *err)
{
	void *byte = (void *)(uintptr_t)n->barrier_scratch, *to = (char *)byte + 1;
	int32_t code = nccl_enqueue_begin(n, err);
	int result, end;

	if (code)
		return code;
	result = nccl_lib.ncclGroupStart();
	if (!nccl_failed(result)) {
		result = nccl_lib.ncclSend(byte, 1, COLL_UINT8, (int)n->rank, n->comm, stream);
		if (!nccl_failed(result))
			result =
				nccl_lib.ncclRecv(to, 1, COLL_UINT8, (int)n->rank, n->comm, stream);
		end = nccl_lib.ncclGroupEnd();
		result = nccl_failed(result) ? result : end;
	}
	nccl_enqueue_end(n);
	nccl_note_stream(n, stream, 0);
	return nccl_record_result(n, result, "a send to this rank", err);
}

/* Copies of results on the own stream get their place when another stream comes. */
static int32_t nccl_order_copies(struct nccl *n, const void *stream, coll_error_t *err)
{
	if (!n->copied || stream == n->stream)
		return COLL_SUCCESS;
	n->copied = 0;
	return nccl_fence(n, n->stream, err);
}

/* Later work of `stream` begins after the endpoint's earlier operations, on all streams. */
static int32_t nccl_order_after(struct nccl *n, void *stream, coll_error_t *err)
{
	int32_t code = nccl_order_copies(n, stream, err);
	const int known = !n->last_unknown;

	if (code || !n->last_stream)
		return code;
	/* The handle of the per-thread default stream names another stream in each thread. */
	if (known && n->last_stream == stream && stream != CUDA_PER_THREAD_STREAM)
		return COLL_SUCCESS;
	/* The own stream cannot be captured: a graph has no part in its order. */
	if (known && n->last_stream == n->stream && !nccl_is_captured(stream))
		return nccl_stream_dependency(n, n->stream, stream, err);
	return nccl_fence(n, stream, err);
}

/* Later operations, on all streams, begin after the work that is now on `stream`. */
static int32_t nccl_order_before(struct nccl *n, void *stream, coll_error_t *err)
{
	if (stream != n->stream)
		return nccl_fence(n, stream, err);
	n->copied = 1;
	return COLL_SUCCESS;
}

/* Does the call give this rank work that has a place on the device?  Without elements NCCL does nothing. */
static int nccl_is_work(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	return a->kind == COLL_KIND_BARRIER || (a->count && !a->sendcounts && !a->recvcounts);
}

/*
 * The operation is issued next, on another stream than the last one: it begins after the copies of earlier results.  Notes
 * the stream.
 */
static int32_t nccl_order_call(struct nccl *n, const struct nccl_call *c, coll_error_t *err)
{
	int32_t code = nccl_order_copies(n, c->stream, err);

	/* A group begins later, in an order of its own. */
	nccl_note_stream(n, c->stream, nccl_group_open() || !nccl_is_work(c));
	return code;
}

int32_t nccl_take_place(void *ep, coll_stream_t stream, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	code = nccl_fence(n, stream ? stream : n->stream, err);
	nccl_end(n, pushed);
	return code;
}

/* ------------------------------------------------------------------ buffers of calls -- */

enum { NCCL_ALIGN = 16 };

/* The result of a reduction, which waits in device memory of the endpoint for its copy to the caller's buffer. */
struct nccl_result {
	struct nccl_result *next;
	cuda_ptr_t from, to;
	size_t bytes;
	void *stream;
};

/*
 * Gives the call device memory of the endpoint: with a copy of `in` bytes of its input, and for `out` bytes of its result;
 * 0: the caller's buffer stays.
 */
static int32_t nccl_replace(struct nccl_call *c, size_t in, size_t out, coll_error_t *err)
{
	const size_t out_at = (in + NCCL_ALIGN - 1) / NCCL_ALIGN * NCCL_ALIGN;
	struct nccl_result *copy = NULL;
	cuda_ptr_t memory = 0;
	int32_t code = nccl_order_after(c->n, c->stream, err);

	if (!code)
		code = nccl_scratch(c->n, out_at + out, c->stream, &memory, err);
	if (!code && out && !(copy = calloc(1, sizeof(*copy))))
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	if (code)
		return code;
	if (in) {
		code = nccl_copy(c->n, memory, (uintptr_t)c->send, in, c->stream, err);
		c->send = (const void *)(uintptr_t)memory;
	}
	if (copy) {
		*copy = (struct nccl_result){.next = c->n->results,
					     .from = memory + out_at,
					     .to = (uintptr_t)c->recv,
					     .bytes = out,
					     .stream = c->stream};
		c->n->results = copy;
		c->recv = (void *)(uintptr_t)copy->from;
	}
	return code;
}

/* Bytes of the send buffer of a reduction. */
static size_t nccl_input_bytes(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	size_t elements = a->kind == COLL_KIND_REDUCE_SCATTER ? a->count * c->nranks : a->count;

	if (a->kind == COLL_KIND_REDUCE_SCATTERV) {
		elements = 0;
		for (uint32_t r = 0; r < c->nranks; r++)
			elements += a->recvcounts[r];
	}
	return elements * c->size;
}

/* Bytes of this rank's result. */
static size_t nccl_result_bytes(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	if (a->kind == COLL_KIND_REDUCE && c->rank != (uint32_t)a->root)
		return 0;
	return c->size * (a->kind == COLL_KIND_REDUCE_SCATTERV ? a->recvcounts[c->rank] : a->count);
}

static int nccl_is_aligned(const struct nccl_call *c, const void *buffer)
{
	return !((uintptr_t)buffer & (c->size - 1));
}

/*
 * Replaces buffers that NCCL cannot use.  ncclAlltoAll and pairs of sends and receives need two buffers.  NCCL reduces
 * whole elements, which a device accesses only at multiples of their size: anything else breaks the device's context.
 */
static int32_t nccl_replace_unusable(struct nccl_call *c, coll_error_t *err)
{
	const int32_t kind = c->args->kind;
	size_t in = 0, out = 0;

	if (nccl_reduces(kind)) {
		in = nccl_is_aligned(c, c->send) ? 0 : nccl_input_bytes(c);
		out = nccl_is_aligned(c, c->recv) ? 0 : nccl_result_bytes(c);
	} else if (kind == COLL_KIND_ALLTOALL || kind == COLL_KIND_ALLTOALLV) {
		in = c->send == c->recv ? nccl_alltoall_span(c) : 0;
	}
	return in || out ? nccl_replace(c, in, out, err) : COLL_SUCCESS;
}

int32_t nccl_copy_results(struct nccl *n, int32_t code, coll_error_t *err)
{
	struct nccl_result *copy;

	while ((copy = n->results)) {
		n->results = copy->next;
		if (!code)
			code = nccl_copy(n, copy->to, copy->from, copy->bytes, copy->stream, err);
		if (!code)
			code = nccl_order_before(n, copy->stream, err);
		free(copy);
	}
	return code;
}

/* ------------------------------------------------------------------ one operation -- */

/* Keeps a copy of the call for the end of the open group. */
static int32_t nccl_group_add(const struct nccl_call *c, coll_error_t *err)
{
	struct nccl_call *copy = nccl_call_copy(c);

	c->n->on_caller_stream |= c->stream != c->n->stream;
	if (!copy)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	*nccl_group.last = copy;
	nccl_group.last = &copy->next;
	return COLL_SUCCESS;
}

/* Has a thread of its own make the call, since NCCL may have to connect ranks for it. */
static int32_t nccl_launch_job(struct nccl *n, const struct nccl_call *c, coll_error_t *err)
{
	struct nccl_job *job = nccl_job_new(nccl_run_calls, n->context, NULL);
	int32_t code;

	if (job)
		job->calls = nccl_call_copy(c);
	code = job && job->calls ? nccl_job_start(job, err)
				 : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	if (code)
		nccl_job_unref(job);
	else
		n->job = job;
	return code;
}

/* The compiler makes this a part of nccl_call_again, since most calls of a program come by there. */
__attribute__((always_inline)) static inline int32_t nccl_launch(struct nccl *n,
								 const struct nccl_call *c,
								 coll_error_t *err)
{
	const int32_t kind = c->args->kind;
	const char *what;
	int32_t code = nccl_enqueue_begin(n, err);
	int result;

	if (code)
		return code;
	/* Most calls of most programs are of one kind, which takes no jump through the table of all kinds. */
	result = kind == COLL_KIND_ALLREDUCE ? nccl_run_allreduce(c, &what)
					     : nccl_run_call(c, &what);
	nccl_enqueue_end(n);
	return result == NCCL_SUCCESS ? COLL_SUCCESS : nccl_record_result(n, result, what, err);
}

/* The calling thread makes the call, or, if not `here`, a job.  In an open group the call waits for the group's end. */
static int32_t nccl_issue(struct nccl_call *c, int here, coll_error_t *err)
{
	struct nccl *n = c->n;
	int32_t code = nccl_replace_unusable(c, err);

	if (!code && (n->last_stream != c->stream || n->last_unknown))
		code = nccl_order_call(n, c, err);
	if (nccl_group_open())
		return code ? code : nccl_group_add(c, err);
	if (code)
		return nccl_copy_results(n, code, NULL);
	code = here ? nccl_launch(n, c, err) : nccl_launch_job(n, c, err);
	/* The caller's next work on its own stream must follow this operation, and so must copies of its result. */
	if (!code && (c->stream != n->stream || n->results))
		code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
	return nccl_copy_results(n, code, err);
}

/*
 * Runs a call on the per-thread default stream over the own stream: the per-thread stream of the thread that
 * makes the call is another one.
 */
static int32_t nccl_issue_own_stream(struct nccl_call *c, coll_error_t *err)
{
	struct nccl *n = c->n;
	int32_t code = nccl_stream_dependency(n, CUDA_PER_THREAD_STREAM, n->stream, err);

	c->stream = n->stream;
	if (!code)
		code = nccl_issue(c, 0, err);
	n->depends_on_own = 1;
	if (code || nccl_group_open())
		return code;
	code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
	return code ? code : nccl_stream_dependency(n, n->stream, CUDA_PER_THREAD_STREAM, err);
}

/* ----------------------------------------------------------------- one call as the last -- */

/* May a call with other buffers go the way of this one?  Only if NCCL has taken its buffers, and as one call of its own. */
static int nccl_may_repeat(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	return c->send == a->sendbuf && c->recv == a->recvbuf &&
	       (a->kind == COLL_KIND_ALLGATHER || a->kind == COLL_KIND_BROADCAST ||
		(nccl_reduces(a->kind) && a->kind != COLL_KIND_REDUCE_SCATTERV));
}

static void nccl_note_call(struct nccl *n, const struct nccl_call *c)
{
	const coll_args_t *a = c->args;

	n->again = (struct nccl_again){.call = *c,
				       .kind = nccl_may_repeat(c) && !n->last_unknown ? a->kind : 0,
				       .dtype = a->dtype,
				       .op = a->op,
				       .root = a->root,
				       .count = a->count,
				       .stream = a->stream,
				       .odd = c->size - 1};
	n->again.call.args = NULL;
}

/* Has the endpoint nothing open that a call has to look at or to wait for, but an abort?  As nccl_call_is_open, in one look. */
static int nccl_is_clear(const struct nccl *n)
{
	return !((uintptr_t)n->job | (uintptr_t)n->base | (uintptr_t)n->results |
		 (unsigned)(n->failed | n->call_pending));
}

/*
 * Does the call differ from the last one by its buffers only?  Then NCCL has its connections; and on the same stream, with
 * no result that waits for its copy, it needs no order with other work.
 */
static int nccl_is_again(const struct nccl *n, const coll_args_t *a)
{
	const struct nccl_again *last = &n->again;

	return a->kind == last->kind && a->dtype == last->dtype && a->op == last->op &&
	       a->root == last->root && a->count == last->count && a->stream == last->stream &&
	       !(((uintptr_t)a->sendbuf | (uintptr_t)a->recvbuf) & last->odd) &&
	       n->comm == last->call.comm && nccl_is_clear(n) && !nccl_group_open();
}

/* The lock is held. */
static int32_t nccl_call_again(struct nccl *n, const coll_args_t *args, coll_error_t *err)
{
	struct nccl_call *c = &n->again.call;
	int pushed;
	int32_t code = nccl_enter(n->context, &pushed, err);

	if (code)
		return code;
	c->args = args;
	c->send = args->sendbuf;
	c->recv = args->recvbuf;
	nccl_range_begin(args->kind);
	code = nccl_launch(n, c, err);
	nccl_range_end();
	/* The caller's next work on its own stream must follow this operation. */
	if (!code && n->call_pending && c->stream != n->stream)
		code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
	nccl_leave(pushed);
	return code;
}

/* The lock is held, the context current. */
__attribute__((noinline)) static int32_t nccl_call_begun(struct nccl *n, const coll_args_t *args,
							 coll_error_t *err)
{
	struct nccl_call c;
	int here, over_own;
	int32_t code = nccl_takes(n, args, err);

	if (code)
		return code;
	n->again.kind = 0;
	nccl_call_init(&c, n, args);
	here = nccl_group_open() ? 0 : nccl_links_exist(n, &c);
	/* A capture knows the stream of this thread only, so the call then waits here. */
	if (c.stream == CUDA_PER_THREAD_STREAM && !here && nccl_is_captured(c.stream))
		here = !nccl_group_open();
	over_own = !here && !n->blocking && c.stream == CUDA_PER_THREAD_STREAM;
	nccl_range_begin(args->kind);
	code = over_own ? nccl_issue_own_stream(&c, err) : nccl_issue(&c, here, err);
	nccl_range_end();
	if (!code && here)
		nccl_note_call(n, &c);
	return code;
}

int32_t nccl_call(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed;
	int32_t code;

	lock_acquire(&n->lock);
	if (nccl_is_again(n, args)) {
		code = nccl_call_again(n, args, err);
		lock_release(&n->lock);
		return code;
	}
	code = nccl_begin_locked(n, &pushed, err);
	if (code)
		return code;
	code = nccl_call_begun(n, args, err);
	nccl_end(n, pushed);
	return code;
}

/* ------------------------------------------------------------------------- groups -- */

int32_t nccl_group_begin(void *ep, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	if (!nccl_group.depth++) {
		nccl_group.last = &nccl_group.calls;
		atomic_fetch_add(&nccl_group_threads, 1);
	}
	n->in_group = 1;
	n->group_thread = pthread_self();
	n->on_caller_stream = 0;
	n->depends_on_own = 0;
	n->next = nccl_group.members;
	nccl_group.members = n;
	nccl_end(n, pushed);
	return code;
}

/* --------------------------------------------------------------------- its end -- */

/* Takes out the calls of endpoints that were aborted meanwhile. */
static void nccl_group_drop_aborted(struct nccl_call **at)
{
	struct nccl_call *c;

	while ((c = *at)) {
		if (!atomic_load(&c->n->aborted)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
	}
}

/* Runs the calls in this thread. */
static int nccl_group_run_here(const char **what)
{
	int result = NCCL_SUCCESS;

	for (struct nccl *n = nccl_group.members; n; n = n->next)
		if (!n->blocking)
			atomic_store(&n->grouping, n->comm);
	/* From now on an abort sees the mark, and one that came before is seen here. */
	nccl_group_drop_aborted(&nccl_group.calls);
	if (nccl_group.calls)
		result = nccl_run_group(nccl_group.calls, what);
	for (struct nccl *n = nccl_group.members; n; n = n->next)
		atomic_store(&n->grouping, NULL);
	nccl_calls_free(nccl_group.calls);
	return result;
}

/* Begins the calls, and returns the result; *job becomes the job if they run in a thread of their own. */
static int nccl_group_run(struct nccl_job **job, const char **what)
{
	void *context = nccl_group.members->context;
	int connected = 1, pushed, result;

	for (struct nccl *n = nccl_group.members; n; n = n->next)
		connected &= nccl_links_exist(n, nccl_group.calls);
	*job = connected ? NULL : nccl_job_new(nccl_run_calls, context, NULL);
	*what = "ncclGroupEnd";
	if (*job) {
		(*job)->calls = nccl_group.calls;
		if (!nccl_job_start(*job, NULL))
			return NCCL_SUCCESS;
		nccl_job_unref(*job);
		*job = NULL;
		return NCCL_SYSTEM_ERROR;
	}
	if (nccl_enter(context, &pushed, NULL))
		pushed = 0;
	result = nccl_group_run_here(what);
	nccl_leave(pushed);
	return result;
}

/* Ends the group for one endpoint. */
static int32_t nccl_group_ended(struct nccl *n, int result, const char *what, struct nccl_job *job,
				coll_error_t *err)
{
	int pushed;
	int32_t code;

	lock_acquire(&n->lock);
	n->in_group = 0;
	for (struct nccl_scratch *s = n->scratch; s; s = s->next)
		s->in_group = 0;
	code = n->comm ? nccl_record_result(n, result, what, err) : COLL_SUCCESS;
	if (job && n->comm && !code)
		n->job = nccl_job_ref(job);
	if (nccl_enter(n->context, &pushed, NULL)) {
		lock_release(&n->lock);
		return code;
	}
	/* The caller's next work on its own stream must follow the group, and so must copies of its results. */
	if (!code && (n->on_caller_stream || n->depends_on_own || n->results))
		code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
	code = nccl_copy_results(n, code, err);
	if (!code && n->depends_on_own)
		code = nccl_stream_dependency(n, n->stream, CUDA_PER_THREAD_STREAM, err);
	if (atomic_load(&n->aborted))
		nccl_stop(n);
	nccl_end(n, pushed);
	return code;
}

int32_t nccl_group_end(void *ep, coll_error_t *err)
{
	struct nccl *n, *next;
	struct nccl_job *job = NULL;
	const char *what = "ncclGroupEnd";
	int32_t code = COLL_SUCCESS, one;
	int result = NCCL_SUCCESS;

	(void)ep;
	if (!nccl_group.depth || --nccl_group.depth)
		return COLL_SUCCESS;
	atomic_fetch_sub(&nccl_group_threads, 1);
	nccl_group_drop_aborted(&nccl_group.calls);
	if (nccl_group.calls)
		result = nccl_group_run(&job, &what);
	nccl_group.calls = NULL;
	for (n = nccl_group.members, nccl_group.members = NULL; n; n = next) {
		next = n->next;
		one = nccl_group_ended(n, result, what, job, code ? NULL : err);
		code = code ? code : one;
	}
	nccl_job_unref(job);
	return code;
}
