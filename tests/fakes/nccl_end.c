/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_end.c - communicators end: finalize, destroy, abort, revoke. */
#include <stdio.h>
#include <stdlib.h>

#include "nccl_parts.h"

struct end_job {
	struct job job;
	const char *fn;
};

static int finalize_run(struct job *job, const struct halt *halt)
{
	(void)halt;
	kernel_drain(job->comm);
	return NCCL_SUCCESS;
}

static int end_run(struct job *job, const struct halt *halt)
{
	(void)halt;
	if (job->comm->share)
		kernel_drain(job->comm);
	comm_free(job->comm, ((struct end_job *)job)->fn);
	return NCCL_SUCCESS;
}

static void end_done(struct job *job)
{
	free(job);
}

static int end_add(nccl_comm_t comm, const char *fn, int (*run)(struct job *, const struct halt *))
{
	struct end_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NCCL_SYSTEM_ERROR;
	job->job = (struct job){
		.run = run, .done = end_done, .comm = comm, .destroys = run == end_run};
	job->fn = fn;
	return group_add_job(&job->job);
}

/*
 * Launches the operations of the group, or reports that one could not be added; then leaves the
 * communicator.
 */
static int end_begun(nccl_comm_t comm, const char *fn, int code)
{
	int end;

	group_note(code);
	end = group_end(fn);
	if (end && end != NCCL_IN_PROGRESS)
		code = end;
	else if (!comm->blocking)
		code = comm_async(comm);
	comm_leave(comm);
	return code;
}

int ncclCommFinalize(nccl_comm_t comm)
{
	int fault = call_count("ncclCommFinalize"), code;

	if (!comm)
		return NCCL_SUCCESS;
	(void)comm_enter(comm, "ncclCommFinalize");
	group_start();
	code = fault ? fault : comm_ready(comm, "ncclCommFinalize");
	if (!code && comm->finalized)
		code = call_fail(NCCL_INVALID_ARGUMENT, "the communicator is finalized already");
	if (!code) {
		comm->finalized = 1;
		code = end_add(comm, "ncclCommFinalize", finalize_run);
	}
	if (code && !comm->blocking)
		comm_set(comm, code);
	return end_begun(comm, "ncclCommFinalize", code);
}

/* After a failure NCCL leaves the group that it began open, and launches nothing any more. */
int ncclCommDestroy(nccl_comm_t comm)
{
	int code = call_count("ncclCommDestroy");

	if (!comm || code)
		return code;
	(void)comm_enter(comm, "ncclCommDestroy");
	group_start();
	code = comm_ready(comm, "ncclCommDestroy");
	if (code) {
		fprintf(stderr,
			"stand-in NCCL: ncclCommDestroy(%p) failed with %d, and, as NCCL "
			"does, leaves a group open: only ncclCommAbort ends such a "
			"communicator\n",
			(void *)comm, code);
		comm_leave(comm);
		return code;
	}
	comm_leave_ending(comm);
	group_note(end_add(comm, "ncclCommDestroy", end_run));
	return group_end("ncclCommDestroy");
}

int ncclCommAbort(nccl_comm_t comm)
{
	int code = call_count("ncclCommAbort");

	if (!comm || code)
		return code;
	comm_enter_abort(comm, "ncclCommAbort", 1);
	group_start();
	group_join(comm, 1);
	comm_leave(comm);
	group_note(end_add(comm, "ncclCommAbort", end_run));
	return group_end("ncclCommAbort");
}

#ifndef STANDIN_NCCL_OLD

static int revoke_run(struct job *job, const struct halt *halt)
{
	(void)halt;
	kernel_drain(job->comm);
	atomic_store(&job->comm->share->abort, 0);
	return NCCL_SUCCESS;
}

int ncclCommRevoke(nccl_comm_t comm, int flags)
{
	int code = call_count("ncclCommRevoke");

	if (!comm || code)
		return code;
	if (flags || comm->finalized || comm->revoked)
		return call_fail(NCCL_INVALID_ARGUMENT, "%s",
				 flags ? "ncclCommRevoke : no flag is known"
				       : "ncclCommRevoke : finalized or revoked already");
	comm_enter_abort(comm, "ncclCommRevoke", 0);
	group_start();
	group_join(comm, 1);
	comm->finalized = comm->revoked = 1;
	code = end_add(comm, "ncclCommRevoke", revoke_run);
	return end_begun(comm, "ncclCommRevoke", code);
}

#endif
