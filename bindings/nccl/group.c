/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c - groups: what a thread calls between ncclGroupStart and ncclGroupEnd happens at the end.  First the
 * communicators are made, each by a thread of its own, since the ranks of one process wait for each other; then
 * the operations are issued as one group of coll.h; then communicators end.
 */
#include "dropin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct group {
	int depth;
	ncclResult_t error; /* of the first wrong call */
	char text[1024];
	struct operation *operations;
	size_t n, room;
	struct job *jobs, **end; /* in the order of the calls */
};

static _Thread_local struct group group;

int group_is_open(void)
{
	return group.depth > 0;
}

ncclResult_t group_note(ncclResult_t code)
{
	if (code && group.depth && !group.error) {
		group.error = code;
		strncpy(group.text, last_error(), sizeof(group.text) - 1);
	}
	return code;
}

/* ------------------------------------------------------------------- operations -- */

static coll_result_t operation_call(const coll_args_t *a, coll_comm_t comm)
{
	switch (a->kind) {
	case COLL_KIND_ALLREDUCE:
		return coll_allreduce(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, comm,
				      a->stream);
	case COLL_KIND_BROADCAST:
		return coll_broadcast(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, comm,
				      a->stream);
	case COLL_KIND_REDUCE:
		return coll_reduce(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, a->root, comm,
				   a->stream);
	case COLL_KIND_ALLGATHER:
		return coll_allgather(a->sendbuf, a->recvbuf, a->count, a->dtype, comm, a->stream);
	case COLL_KIND_REDUCE_SCATTER:
		return coll_reduce_scatter(a->sendbuf, a->recvbuf, a->count, a->dtype, a->op, comm,
					   a->stream);
	case COLL_KIND_ALLTOALL:
		return coll_alltoall(a->sendbuf, a->recvbuf, a->count, a->dtype, comm, a->stream);
	case COLL_KIND_GATHER:
		return coll_gather(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, comm,
				   a->stream);
	case COLL_KIND_SCATTER:
		return coll_scatter(a->sendbuf, a->recvbuf, a->count, a->dtype, a->root, comm,
				    a->stream);
	case COLL_KIND_SEND:
		return coll_send(a->sendbuf, a->count, a->dtype, a->root, 0, comm, a->stream);
	default: return coll_recv(a->recvbuf, a->count, a->dtype, a->root, 0, comm, a->stream);
	}
}

/* Issues a collective with an algorithm or a tag, which the functions of coll.h do not take. */
static coll_result_t operation_request(const coll_args_t *args, coll_comm_t comm)
{
	coll_request_t request = NULL;
	coll_result_t code = coll_request_issue(comm, args, &request);

	if (request)
		coll_request_free(request);
	return code;
}

/* Takes the first algorithm that serves the communicator, which is the same on all ranks. */
static coll_result_t operation_choose(const struct operation *o)
{
	coll_args_t args = o->args;
	coll_result_t code = COLL_ERR_UNSUPPORTED;

	for (int i = 0; o->algorithms[i] && code == COLL_ERR_UNSUPPORTED; i++) {
		args.flags = o->algorithms[i];
		code = operation_request(&args, o->comm->coll);
	}
	return code;
}

static coll_result_t operation_execute(const struct operation *o)
{
	if (o->algorithms[0]) {
		const coll_result_t code = operation_choose(o);
		const int declined = code == COLL_ERR_UNSUPPORTED || code == COLL_ERR_INVALID_USAGE;

		if (!declined || !o->optional)
			return code;
	} else if (!o->args.tag) {
		return operation_call(&o->args, o->comm->coll);
	}
	return operation_request(&o->args, o->comm->coll);
}

static ncclResult_t operation_issue(struct operation *o)
{
	ncclResult_t code = ncclSuccess;

	if ((uintptr_t)o->args.stream <= CUDA_STREAM_PER_THREAD) {
		o->shared = o->args.stream ? o->args.stream : (void *)CUDA_STREAM_LEGACY;
		code = cuda_bridge_enter(&o->comm->bridge, o->shared);
		o->args.stream = o->comm->bridge.stream;
	}
	if (!code && o->launched)
		code = cuda_record(o->launched, o->args.stream);
	if (code)
		return code;
	coll_set_call_site(o->site);
	code = from_coll(operation_execute(o));
	coll_set_call_site(NULL);
	return code;
}

/*
 * Goes on after an error, so that no rank waits for operations that were called correctly.  Another thread may abort a
 * communicator meanwhile.
 */
static ncclResult_t operations_issue(struct operation *operations, size_t n)
{
	ncclResult_t first = ncclSuccess, code;

	for (size_t i = 0; i < n; i++)
		comm_ref(operations[i].comm);
	if (n > 1)
		coll_group_start();
	for (size_t i = 0; i < n; i++) {
		code = operation_issue(&operations[i]);
		first = first ? first : code;
	}
	if (n > 1) {
		code = from_coll(coll_group_end());
		first = first ? first : code;
	}
	for (size_t i = 0; i < n; i++) {
		code = operations[i].shared ? cuda_bridge_leave(&operations[i].comm->bridge,
								operations[i].shared)
					    : ncclSuccess;
		first = first ? first : code;
	}
	for (size_t i = 0; i < n; i++)
		comm_unref(operations[i].comm);
	return first;
}

/* NCCL records one event for the operations that a group has on a communicator. */
static ncclResult_t group_check_launched(const struct operation *operation)
{
	for (size_t i = 0; i < group.n; i++)
		if (group.operations[i].launched && group.operations[i].comm == operation->comm)
			return fail(
				ncclInvalidUsage,
				"config->launchCompletionEvent: the group has an operation on this "
				"communicator with an event already");
	return ncclSuccess;
}

ncclResult_t group_operation(struct operation *operation)
{
	size_t room = group.room ? 2 * group.room : 16;
	struct operation *more;
	ncclResult_t code;

	if (!group.depth)
		return operations_issue(operation, 1);
	code = operation->launched ? group_check_launched(operation) : ncclSuccess;
	if (code)
		return code;
	if (group.n == group.room) {
		more = realloc(group.operations, room * sizeof(*more));
		if (!more)
			return fail(ncclSystemError, "no memory for %zu operations in a group",
				    room);
		group.operations = more;
		group.room = room;
	}
	group.operations[group.n++] = *operation;
	return ncclSuccess;
}

/* ------------------------------------------------------------------------- jobs -- */

ncclResult_t group_job(struct job *job)
{
	ncclResult_t code;

	if (!group.depth) {
		job_run(job);
		code = job->result;
		free(job);
		return code;
	}
	if (!group.jobs)
		group.end = &group.jobs;
	*group.end = job;
	group.end = &job->next;
	return ncclSuccess;
}

static void *job_thread(void *arg)
{
	job_run(arg);
	return NULL;
}

/* Executes the jobs that make communicators; each may wait for the others. */
static void jobs_make(struct job *jobs)
{
	pthread_t *threads;
	size_t n = 0, started = 0;

	for (struct job *job = jobs; job; job = job->next)
		n += job->kind <= JOB_MAKES;
	if (n == 0)
		return;
	threads = calloc(n, sizeof(*threads));
	for (struct job *job = jobs; job; job = job->next) {
		if (job->kind > JOB_MAKES)
			continue;
		if (n == 1)
			job_run(job);
		else if (!threads || pthread_create(&threads[started], NULL, job_thread, job))
			job_refuse(job, "no memory or no thread to make a communicator");
		else
			started++;
	}
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

/* Ends communicators in the order of the calls. */
static void jobs_end(struct job *jobs)
{
	for (struct job *job = jobs; job; job = job->next)
		if (job->kind > JOB_MAKES)
			job_run(job);
}

/* Frees the jobs; returns the first failure. */
static ncclResult_t jobs_result(struct job *jobs)
{
	ncclResult_t code = ncclSuccess;
	struct job *next;

	for (struct job *job = jobs; job; job = next) {
		next = job->next;
		if (job->result && !code) {
			code = job->result;
			error_keep(job->text);
		}
		free(job);
	}
	return code;
}

/* ----------------------------------------------------------------------- groups -- */

/*
 * Closes the thread's innermost group.  *taken gets what the outermost group holds, of which the thread keeps nothing;
 * nothing where an outer group is open.
 */
static ncclResult_t group_close(struct group *taken, const char *function)
{
	memset(taken, 0, sizeof(*taken));
	if (!group.depth)
		return fail(ncclInvalidUsage, "%s: the thread has no open group", function);
	if (--group.depth)
		return ncclSuccess;
	*taken = group;
	memset(&group, 0, sizeof(group));
	return ncclSuccess;
}

static void group_drop(struct group *taken)
{
	struct job *next;

	for (struct job *job = taken->jobs; job; job = next) {
		next = job->next;
		job_undo(job);
	}
	free(taken->operations);
}

ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return ncclSuccess;
}
NCCL_ALSO(ncclGroupStart);

static ncclResult_t group_execute(struct group *taken)
{
	ncclResult_t code = ncclSuccess, result;
	char text[1024] = "";

	jobs_make(taken->jobs);
	if (taken->n)
		code = operations_issue(taken->operations, taken->n);
	strncpy(text, last_error(), sizeof(text) - 1);
	jobs_end(taken->jobs);
	result = jobs_result(taken->jobs);
	if (!result && code)
		error_keep(text);
	free(taken->operations);
	return result ? result : code;
}

ncclResult_t ncclGroupEnd(void)
{
	struct group taken;
	ncclResult_t code = group_close(&taken, "ncclGroupEnd");

	if (code)
		return code;
	if (!taken.error)
		return group_execute(&taken);
	error_keep(taken.text);
	group_drop(&taken);
	return taken.error;
}
NCCL_ALSO(ncclGroupEnd);

ncclResult_t group_forget(void)
{
	struct group taken;
	ncclResult_t code = group_close(&taken, "ncclGroupSimulateEnd");

	group_drop(&taken);
	return code;
}
