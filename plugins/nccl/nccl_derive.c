/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_derive.c - makes endpoints from others: splits and shrinks. */
#include "nccl.h"

#include <stdlib.h>

/* Makes an endpoint on the parent's device: a current context decides the device. */
static int32_t nccl_new_child(const struct nccl *parent, const coll_host_t *host, struct nccl **out,
			      coll_error_t *err)
{
	int pushed;
	int32_t code = nccl_enter(parent->context, &pushed, err);

	if (code)
		return code;
	code = nccl_new(host, out, err);
	if (*out)
		(*out)->fp8 = parent->fp8;
	nccl_leave(pushed);
	return code;
}

static int nccl_run_split(struct nccl_job *job)
{
	job->what = "ncclCommSplit";
	return nccl_lib.ncclCommSplit(job->comm, job->color, job->key, &job->newcomm, &job->config);
}

static int nccl_run_shrink(struct nccl_job *job)
{
	job->what = "ncclCommShrink";
	return nccl_lib.ncclCommShrink(job->comm, job->exclude, job->exclude_count, &job->newcomm,
				       &job->config, job->flags);
}

/* A split or shrink of the endpoint's communicator, for the caller to complete and to start. */
static struct nccl_job *nccl_derive_new(const struct nccl *n, int (*run)(struct nccl_job *job),
					coll_error_t *err)
{
	struct nccl_job *job = nccl_job_new(run, n->context, n->comm);

	if (job)
		job->config = nccl_config(1);
	else
		error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a communicator");
	return job;
}

/*
 * Starts the job and waits for it; takes it over.  The lock is held.  After a timeout or an abort the parent is
 * aborted, since NCCL still works on it.
 */
static int32_t nccl_derive(struct nccl *n, struct nccl *child, struct nccl_job *job,
			   const coll_host_t *host, coll_error_t *err)
{
	int32_t code = nccl_job_start(job, err);

	if (code) {
		nccl_job_unref(job);
		return code;
	}
	n->job = nccl_job_ref(job);
	code = nccl_wait_call(n, host, host->timeout_ms, err);
	if (n->job || n->call_pending)
		nccl_stop(n);
	/* NCCL has refused the call, but the parent works on. */
	n->failed = NCCL_SUCCESS;
	if (child && atomic_load(&job->state) == NCCL_JOB_DONE) {
		child->comm = job->newcomm;
		child->failed = nccl_failed(job->result) ? job->result : NCCL_SUCCESS;
		child->failed_what = job->what;
		if (!code && !child->comm)
			code = error_fill(err, COLL_ERR_INTERNAL,
					  "NCCL has made no communicator and given no reason "
					  "(NCCL_DEBUG=WARN may show more)");
	}
	nccl_job_unref(job);
	return code;
}

int32_t nccl_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		   coll_error_t *err)
{
	struct nccl *n = ep, *child = NULL;
	const coll_host_t *host = newhost ? newhost : n->host;
	int32_t code = newhost ? nccl_new_child(n, newhost, &child, err) : COLL_SUCCESS, begun;
	coll_error_t *first = code ? NULL : err;
	struct nccl_job *job;
	int pushed;

	*newep = child;
	begun = nccl_begin(n, &pushed, first);
	if (begun)
		return code ? code : begun;
	job = nccl_derive_new(n, nccl_run_split, first);
	begun = job ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
	if (job) {
		/* A rank that has failed takes part without a colour: otherwise the other ranks would wait. */
		job->color = code ? NCCL_NOCOLOR : color;
		job->key = key;
		begun = nccl_derive(n, code ? NULL : child, job, host, first);
	}
	nccl_end(n, pushed);
	return code ? code : begun;
}

static int32_t nccl_can_shrink(const struct nccl *n, coll_error_t *err)
{
	char version[32];

	nccl_version_text(nccl_lib.version, version, sizeof(version));
	if (!nccl_lib.ncclCommShrink)
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"NCCL %s cannot shrink a communicator, 2.27 is the first that can: "
			"make a new communicator with a new id",
			version);
	if (!n->comm)
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"NCCL %s cannot shrink this communicator, which has failed or was "
			"aborted%s: make a new communicator with a new id",
			version,
			nccl_lib.ncclCommRevoke ? " while it was being connected"
						: " (2.28.7 is the first that can)");
	return COLL_SUCCESS;
}

/* The lock is held, the context current. */
static int32_t nccl_shrink_to(struct nccl *n, struct nccl *child, const int32_t *exclude,
			      int32_t count, coll_error_t *err)
{
	struct nccl_job *job = nccl_derive_new(n, count ? nccl_run_shrink : nccl_run_split, err);
	int32_t code;
	int revoked = n->revoked;

	if (!job)
		return COLL_ERR_NO_MEMORY;
	job->exclude = calloc((size_t)count + 1, sizeof(*job->exclude));
	if (!job->exclude) {
		nccl_job_unref(job);
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %d ranks", count);
	}
	for (int32_t i = 0; i < count; i++)
		job->exclude[i] = exclude[i];
	job->exclude_count = count;
	job->key = (int)n->rank;
	job->flags = revoked ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT;
	atomic_store(&n->aborted, 0); /* from here on only an abort of this shrink sets it */
	n->revoked = 0;
	code = nccl_derive(n, child, job, child->host, err);
	n->revoked = n->comm && (revoked || n->revoked);
	return code;
}

int32_t nccl_shrink(void *ep, const int32_t *exclude, int32_t count, const coll_host_t *newhost,
		    void **newep, coll_error_t *err)
{
	struct nccl *n = ep, *child = NULL;
	int32_t code;
	int pushed;

	*newep = NULL;
	lock_acquire(&n->lock);
	code = nccl_enter(n->context, &pushed, err);
	if (!code) {
		/* NCCL shrinks only a communicator without pending calls; an abort may have begun to revoke it. */
		if (n->comm && !n->revoked && (atomic_load(&n->aborted) || nccl_poll_call(n, NULL)))
			nccl_stop(n);
		code = nccl_can_shrink(n, err);
		if (!code)
			code = nccl_new_child(n, newhost, &child, err);
		*newep = child;
		if (!code)
			code = nccl_shrink_to(n, child, exclude, count, err);
		nccl_leave(pushed);
	}
	lock_release(&n->lock);
	return code;
}
