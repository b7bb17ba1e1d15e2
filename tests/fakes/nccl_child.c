/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_child.c - communicators made from other communicators.  The new handle is stored at the end,
 * also after a failure: as in NCCL the caller must then abort it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_parts.h"

struct child_job {
	struct job job; /* comm is the parent */
	nccl_comm_t child, *out;
	int color, key;
	int shrinks, nth;  /* number of this split or shrink among those of the parent */
	unsigned excluded; /* bits of ranks */
};

/* The record that each rank contributes to a split. */
struct child_wish {
	int color, key;
};

/* ----------------------------------------------------------------------- the job -- */

/*
 * A name that is the same on all ranks of the child, and differs between the children of this
 * parent.
 */
static void child_name(const struct child_job *job)
{
	uint64_t hash[2] = {14695981039346656037u, 1099511628211u * 31};
	char text[RENDEZVOUS_NAME + 64];
	size_t i;
	int k;

	snprintf(text, sizeof(text), "%s %d %d %d %x", job->job.comm->name, job->shrinks, job->nth,
		 job->color, job->excluded);
	for (k = 0; k < 2; k++)
		for (i = 0; text[i]; i++)
			hash[k] = (hash[k] ^ (unsigned char)text[i]) * 1099511628211u;
	snprintf(job->child->name, sizeof(job->child->name), "%016llx%016llx",
		 (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

/* Orders the ranks by key, and ranks of equal keys as in the parent. */
static void child_slot(const struct child_job *job, const struct child_wish *wishes)
{
	const struct nccl_comm *parent = job->job.comm;
	nccl_comm_t child = job->child;
	int i;

	for (i = 0; i < parent->nranks; i++) {
		if (wishes[i].color != job->color)
			continue;
		child->nranks++;
		if (wishes[i].key < job->key || (wishes[i].key == job->key && i < parent->rank))
			child->rank++;
	}
}

static void child_slot_shrunk(const struct child_job *job)
{
	int i;

	for (i = 0; i < job->job.comm->nranks; i++) {
		if (job->excluded & 1u << i)
			continue;
		job->child->nranks++;
		job->child->rank += i < job->job.comm->rank;
	}
}

static void child_wait(const char *variable, const struct halt *halt)
{
	const struct timespec delay = {0, 1000000};

	for (long n = call_env(variable, 0); n > 0 && !halt_asked(halt); n--)
		nanosleep(&delay, NULL);
}

static int child_make(struct child_job *job, const struct halt *halt)
{
	struct child_wish mine = {job->color, job->key}, wishes[RENDEZVOUS_RANKS];
	nccl_comm_t parent = job->job.comm;
	struct halt all = init_halt(parent, halt);
	int code = NCCL_SUCCESS;

	if (!job->shrinks)
		child_wait("STANDIN_NCCL_SPLIT_MS", &all);
	if (!job->shrinks)
		code = rendezvous_gather(parent->rendezvous, &mine, wishes, sizeof(mine), &all);
	if (code || !job->child)
		return code;
	if (job->shrinks)
		child_wait("STANDIN_NCCL_SHRINK_MS", &all);
	if (job->shrinks)
		child_slot_shrunk(job);
	else
		child_slot(job, wishes);
	child_name(job);
	code = init_rendezvous(job->child, halt);
	comm_set(job->child, code);
	return code;
}

static int child_run(struct job *job, const struct halt *halt)
{
	struct child_job *self = (struct child_job *)job;
	int code = child_make(self, halt);

	if (self->child) {
		share_unref(self->child->parent);
		self->child->parent = NULL;
	}
	/* The program may read the place meanwhile; it must not write to it, or free it. */
	if (*self->out)
		call_misuse("%s: the place for the new communicator was changed meanwhile",
			    self->shrinks ? "ncclCommShrink" : "ncclCommSplit");
	*self->out = self->child;
	self->child = NULL;
	return code;
}

static void child_done(struct job *job)
{
	struct child_job *self = (struct child_job *)job;

	if (self->child)
		comm_free(self->child, "a failed split");
	free(self);
}

/* ------------------------------------------------------------------------- entries -- */

/* Makes the child; it shares its parent's abort flag, or obeys it until it is complete. */
static int child_new(nccl_comm_t parent, const nccl_config_t *config, int shares,
		     nccl_comm_t *child)
{
	int code = comm_new(child, config, parent);

	if (code)
		return code;
	if (shares) {
		atomic_fetch_add(&parent->share->refs, 1);
		(*child)->share = parent->share;
		return NCCL_SUCCESS;
	}
	(*child)->share = share_new();
	atomic_fetch_add(&parent->share->refs, 1);
	(*child)->parent = parent->share;
	if ((*child)->share)
		return NCCL_SUCCESS;
	comm_free(*child, "a failed split");
	*child = NULL;
	return NCCL_SYSTEM_ERROR;
}

static int child_add(nccl_comm_t comm, nccl_comm_t *out, const nccl_config_t *config,
		     const struct child_job *as)
{
	struct child_job *job;
	int code = NCCL_SUCCESS;

	comm_must_be_complete(comm, as->shrinks ? "ncclCommShrink" : "ncclCommSplit");
	*out = NULL;
	job = malloc(sizeof(*job));
	if (!job)
		return NCCL_SYSTEM_ERROR;
	*job = *as;
	job->job = (struct job){.run = child_run, .done = child_done, .comm = comm};
	job->out = out;
	job->child = NULL;
	if (job->shrinks || job->color != NCCL_NOCOLOR)
		code = child_new(comm, config, comm->split_share && !job->shrinks && !comm->revoked,
				 &job->child);
	if (code) {
		child_done(&job->job);
		return code;
	}
	job->nth = job->shrinks ? ++comm->shrink_count : ++comm->split_count;
	return group_add_job(&job->job);
}

/*
 * The common part of split and shrink: with a non-blocking parent they return success, not
 * in-progress.
 */
static int child_finish(nccl_comm_t comm, int code, const char *fn)
{
	int end;

	group_note(code);
	end = group_end(fn);
	comm_leave(comm);
	return end && end != NCCL_IN_PROGRESS ? end : code;
}

int ncclCommSplit(nccl_comm_t comm, int color, int key, nccl_comm_t *newcomm, nccl_config_t *config)
{
	const struct child_job as = {.color = color, .key = key};
	int fault = call_count("ncclCommSplit"), code = comm_enter(comm, "ncclCommSplit");

	if (code)
		return group_note(code);
	group_start();
	code = fault;
	if (!code && !newcomm)
		code = call_fail(NCCL_INVALID_ARGUMENT, "CommSplit : newcomm argument is NULL");
	if (!code)
		code = comm_ready(comm, "ncclCommSplit");
	if (!code)
		code = child_add(comm, newcomm, config, &as);
	return child_finish(comm, code, "ncclCommSplit");
}

#ifndef STANDIN_NCCL_OLD

static int shrink_excluded(const struct nccl_comm *comm, const int *exclude, int count,
			   unsigned *bits)
{
	int i;

	if (!exclude || count <= 0)
		return call_fail(NCCL_INVALID_ARGUMENT, "CommShrink : nobody is excluded");
	for (i = 0, *bits = 0; i < count; i++)
		if (exclude[i] >= 0 && exclude[i] < comm->nranks)
			*bits |= 1u << exclude[i];
	if (*bits & 1u << comm->rank)
		return call_fail(NCCL_INVALID_ARGUMENT, "CommShrink : rank %d excludes itself",
				 comm->rank);
	return NCCL_SUCCESS;
}

/* Ends the running operations, so that the parent is usable afterwards. */
static void shrink_end_work(nccl_comm_t comm)
{
	atomic_store(&comm->share->abort, 1);
	kernel_drain(comm);
	atomic_store(&comm->share->abort, 0);
}

int ncclCommShrink(nccl_comm_t comm, int *exclude, int count, nccl_comm_t *newcomm,
		   nccl_config_t *config, int flags)
{
	struct child_job as = {.shrinks = 1};
	int fault = call_count("ncclCommShrink"), code = comm_enter(comm, "ncclCommShrink");

	if (code)
		return group_note(code);
	group_start();
	code = fault;
	if (!code && flags & NCCL_SHRINK_ABORT)
		shrink_end_work(comm);
	if (!code && !newcomm)
		code = call_fail(NCCL_INVALID_ARGUMENT, "CommShrink : newcomm argument is NULL");
	if (!code)
		code = shrink_excluded(comm, exclude, count, &as.excluded);
	if (!code)
		code = comm_ready(comm, "ncclCommShrink");
	if (!code)
		code = child_add(comm, newcomm, config, &as);
	return child_finish(comm, code, "ncclCommShrink");
}

#endif
