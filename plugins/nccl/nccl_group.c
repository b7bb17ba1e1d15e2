/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_group.c - a thread's open group: its calls go to NCCL at its outermost end, on all endpoints at once.  Only
 * then it is known whether NCCL has to connect ranks for them.
 */
#include "nccl.h"

#include <stdlib.h>

static _Thread_local struct {
	int depth;
	struct nccl *members;
	struct nccl_call *calls, **last;
} nccl_group;

int nccl_group_open(void)
{
	return nccl_group.depth > 0;
}

int nccl_group_has(const struct nccl *n)
{
	const struct nccl *m = nccl_group.members;

	while (m && m != n)
		m = m->next;
	return m != NULL;
}

int32_t nccl_group_add(const struct nccl_call *c, coll_error_t *err)
{
	struct nccl_call *copy = nccl_call_copy(c);

	if (!copy)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	*nccl_group.last = copy;
	nccl_group.last = &copy->next;
	return COLL_SUCCESS;
}

int32_t nccl_group_begin(void *ep, coll_error_t *err)
{
	struct nccl *n = ep;
	int pushed;
	int32_t code = nccl_begin(n, &pushed, err);

	if (code)
		return code;
	if (!nccl_group.depth++)
		nccl_group.last = &nccl_group.calls;
	n->in_group = 1;
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
	int known = 1, pushed, result;

	for (struct nccl *n = nccl_group.members; n; n = n->next)
		known &= nccl_links_known(n, nccl_group.calls);
	*job = known ? NULL : nccl_job_new(nccl_run_calls, context);
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

	pthread_mutex_lock(&n->lock);
	n->in_group = 0;
	for (struct nccl_scratch *s = n->scratch; s; s = s->next)
		s->in_group = 0;
	code = n->comm ? nccl_record_result(n, result, what, err) : COLL_SUCCESS;
	if (job && n->comm && !code) {
		atomic_fetch_add(&job->refs, 1);
		n->job = job;
	}
	if (nccl_enter(n->context, &pushed, NULL)) {
		pthread_mutex_unlock(&n->lock);
		return code;
	}
	/* The caller's next work on its own stream must follow the group, and so must copies of its results. */
	if (!code && (n->on_caller_stream || n->depends_on_own || n->results))
		code = nccl_wait_comm_ready(n, n->host, n->host->timeout_ms, err);
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
