/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_job.c - calls to NCCL that may wait for peers, each in a thread of its own, so that a timeout and an abort
 * end the wait.
 */
#include "nccl.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- copies of calls -- */

/* A call with its args and their arrays of counts. */
struct nccl_copy {
	struct nccl_call call;
	coll_args_t args;
	size_t arrays[];
};

static const size_t *nccl_copy_array(const size_t *from, uint32_t n, size_t **at)
{
	const size_t *to = *at;

	if (!from)
		return NULL;
	memcpy(*at, from, n * sizeof(*from));
	*at += n;
	return to;
}

struct nccl_call *nccl_call_copy(const struct nccl_call *c)
{
	const coll_args_t *a = c->args;
	size_t n = (!!a->sendcounts + !!a->senddispls + !!a->recvcounts + !!a->recvdispls) *
		   (size_t)c->nranks;
	struct nccl_copy *copy = calloc(1, sizeof(*copy) + n * sizeof(size_t));
	size_t *at;

	if (!copy)
		return NULL;
	copy->call = *c;
	copy->call.next = NULL;
	memcpy(&copy->args, a, a->size < sizeof(*a) ? a->size : sizeof(*a));
	copy->call.args = &copy->args;
	at = copy->arrays;
	copy->args.sendcounts = nccl_copy_array(a->sendcounts, c->nranks, &at);
	copy->args.senddispls = nccl_copy_array(a->senddispls, c->nranks, &at);
	copy->args.recvcounts = nccl_copy_array(a->recvcounts, c->nranks, &at);
	copy->args.recvdispls = nccl_copy_array(a->recvdispls, c->nranks, &at);
	return &copy->call;
}

void nccl_calls_free(struct nccl_call *calls)
{
	struct nccl_call *next;

	for (; calls; calls = next) {
		next = calls->next;
		free(calls);
	}
}

/* ------------------------------------------------------------------------- jobs -- */

struct nccl_job *nccl_job_new(int (*run)(struct nccl_job *job), void *context)
{
	struct nccl_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->run = run;
	job->context = context;
	atomic_store(&job->refs, 1);
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

static void *nccl_job_main(void *arg)
{
	struct nccl_job *job = arg;
	int state = NCCL_JOB_NEW, pushed = 0;

	/* From this mark on an abort takes the thread to be inside NCCL, so the driver's part comes before. */
	nccl_enter(job->context, &pushed, NULL);
	if (atomic_compare_exchange_strong(&job->state, &state, NCCL_JOB_RUNS)) {
		job->result = job->run(job);
		atomic_store(&job->ran, 1);
		state = NCCL_JOB_RUNS;
		/* Nobody waits for the job any more, so nobody else ends what it has made. */
		if (!atomic_compare_exchange_strong(&job->state, &state, NCCL_JOB_DONE) &&
		    job->newcomm)
			nccl_lib.ncclCommAbort(job->newcomm);
	}
	nccl_leave(pushed);
	nccl_job_unref(job);
	return NULL;
}

int32_t nccl_job_start(struct nccl_job *job, coll_error_t *err)
{
	pthread_t thread;

	atomic_fetch_add(&job->refs, 1);
	if (thread_start(&thread, nccl_job_main, job)) {
		nccl_job_unref(job);
		return error_fill(err, COLL_ERR_SYSTEM,
				  "cannot start a thread for a call of NCCL that may wait for "
				  "other ranks: is the limit of threads reached?");
	}
	pthread_detach(thread);
	return COLL_SUCCESS;
}

void nccl_job_cancel(struct nccl_job *job)
{
	int state = NCCL_JOB_NEW;

	atomic_compare_exchange_strong(&job->state, &state, NCCL_JOB_DROPPED);
}

nccl_comm_t nccl_job_drop(struct nccl_job *job)
{
	int was = atomic_exchange(&job->state, NCCL_JOB_DROPPED);
	nccl_comm_t newcomm = was == NCCL_JOB_DONE ? job->newcomm : NULL;

	nccl_job_unref(job);
	return newcomm;
}

int nccl_run_calls(struct nccl_job *job)
{
	return job->calls->next ? nccl_run_group(job->calls, &job->what)
				: nccl_run_call(job->calls, &job->what);
}

int32_t nccl_job_calls(struct nccl *n, struct nccl_call *calls, coll_error_t *err)
{
	struct nccl_job *job = nccl_job_new(nccl_run_calls, n->context);
	int32_t code;

	if (!job) {
		nccl_calls_free(calls);
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for a call");
	}
	job->calls = calls;
	code = nccl_job_start(job, err);
	if (code)
		nccl_job_unref(job);
	else
		n->job = job;
	return code;
}
