/* SPDX-License-Identifier: BSD-3-Clause */
/* life.c - how a communicator is made, what its failure ends, and how it is freed, each with its parts. */
#include "comm/life.h"
#include "comm/call_log.h"
#include "comm/lane.h"
#include "comm/task.h"
#include "comm/op.h"
#include "comm/queue.h"
#include "comm/registration.h"
#include "comm/shrinks.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------- making -- */

static int life_make_parts(struct comm *comm)
{
	int code = COLL_SUCCESS;

	for (const struct comm_part *part = comm->client->parts; !code && part->name; part++)
		if (part->begin)
			code = part->begin(comm);
	return code;
}

/* The ranks here and on the context. */
static void life_number_ranks(struct comm *comm, const int *to_context_rank)
{
	for (int r = 0; r < comm->context->nranks; r++)
		comm->to_comm_rank[r] = -1;
	for (int r = 0; r < comm->nranks; r++) {
		comm->to_context_rank[r] = to_context_rank ? to_context_rank[r] : r;
		comm->to_comm_rank[comm->to_context_rank[r]] = r;
	}
}

int comm_new_lane(struct comm **out, struct context *context, uint32_t context_id, int rank,
		  int nranks, const int *to_context_rank)
{
	struct comm *comm = calloc(1, sizeof(*comm));
	int code;

	*out = comm;
	if (!comm)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->context = context;
	comm->client = context->client->comms;
	comm->timeout_us = context->timeout_us;
	comm->context_id = context_id;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->derived = context->comms != NULL;
	comm->to_context_rank = calloc((size_t)nranks, sizeof(*comm->to_context_rank));
	comm->to_comm_rank = calloc((size_t)context->nranks, sizeof(*comm->to_comm_rank));
	comm->peer_state = calloc((size_t)nranks, 1);
	comm->outcome = outcome_new(NULL);
	if (!comm->to_context_rank || !comm->to_comm_rank || !comm->peer_state || !comm->outcome)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	life_number_ranks(comm, to_context_rank);
	code = call_log_new(comm);
	if (!code)
		code = shrinks_new(comm);
	if (!code)
		code = life_make_parts(comm);
	if (code)
		return code;
	comm_enlist(comm);
	/* Messages for it may have come already.  The maker of a derived one calls comm_check for it. */
	if (!comm->derived)
		context->pending_events = 1;
	return COLL_SUCCESS;
}

int comm_publish(struct comm *comm)
{
	struct comm *host = lane_host(comm);

	comm->handle = handle_new(HANDLE_COMM, comm);
	comm->outcome->comm = comm->handle;
	if (!comm->handle)
		return handle_none("a communicator");
	if (host) {
		context_lock(host->context);
		host->handle = comm->handle;
		context_leave(host->context);
	}
	return COLL_SUCCESS;
}

int comm_new(struct comm **comm, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *to_context_rank)
{
	const int code = comm_new_lane(comm, context, context_id, rank, nranks, to_context_rank);

	return code ? code : comm_publish(*comm);
}

int comm_new_host(struct context *native, struct comm **out)
{
	struct context *context = native->host_context;
	int code;

	*out = NULL;
	if (!context || native->parent)
		return COLL_SUCCESS;
	code = wait_thread_start(context);
	context_enter(context); /* from now on the calling thread drives it */
	context->next_context_id = 1;
	if (!code)
		code = comm_new_lane(out, context, 0, context->rank, context->nranks, NULL);
	if (!code)
		context_ref(context);
	else if (*out)
		comm_free_unmade(*out);
	if (code)
		*out = NULL;
	context_leave(context);
	return code;
}

/* ------------------------------------------------------------------------ failing -- */

void comm_end_all(struct comm *comm, int loud)
{
	lane_release_streams(comm);
	if (comm->busy == COMM_RESTS) /* the next look finds that it has nothing to do */
		comm_list_busy(comm);
	queue_cancel(comm);
	task_check(comm);
	/* Before the parts: a part may write a file, and the backend that hangs is aborted by whoever wakes now. */
	lane_wake_other(comm);
	context_wake(comm->context);
	for (const struct comm_part *part = comm->client->parts; part->name; part++)
		if (part->failed)
			part->failed(comm, loud);
}

/* ------------------------------------------------------------------------ freeing -- */

static void comm_free_ops(struct op *op)
{
	while (op) {
		struct op *next = op->next;

		op_free(op);
		op = next;
	}
}

/* Persistent operations are freed here, and not as a part of the queue. */
static void comm_free_persistent(struct op *op)
{
	while (op) {
		struct op *next = op->persistent_next;

		op_free(op);
		op = next;
	}
}

/* Takes persistent operations out of the queue. */
static void comm_drop_persistent(struct comm *comm)
{
	for (struct op **at = &comm->queue.head; *at;)
		if ((*at)->persistent)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

/* The parts end, and are freed, in the opposite order of their making. */
static const struct comm_part *life_last_part(const struct comm *comm)
{
	const struct comm_part *part = comm->client->parts;

	while (part->name)
		part++;
	return part;
}

/* The lock is held. */
static void comm_detach(struct comm *comm)
{
	struct rank_name name;

	/* Another thread has issued an operation meanwhile, or waits for one. */
	if (comm->finished < comm->issued || comm->tasks.awaited)
		comm_fail(comm, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
			  comm_own_name(comm, &name));
	/* It sends messages, so it comes before the part that drops the messages that have come for the communicator. */
	shrinks_end(comm);
	for (const struct comm_part *part = life_last_part(comm); part-- > comm->client->parts;)
		if (part->end)
			part->end(comm);
	comm_delist(comm);
	comm_forget_busy(comm);
	comm_note_freed(comm->context, comm->context_id);
	registration_remove_all(comm);
	if (comm->outcome)
		outcome_end(comm->outcome, comm);
}

static void comm_release(struct comm *comm)
{
	outcome_unref(comm->outcome);
	comm_drop_persistent(comm);
	comm_free_ops(comm->queue.head);
	for (size_t i = 0; i < sizeof(comm->queue.plans) / sizeof(comm->queue.plans[0]); i++)
		comm_free_ops(comm->queue.plans[i]);
	comm_free_persistent(comm->queue.persistent);
	scratch_free_spares(comm);
	for (const struct comm_part *part = life_last_part(comm); part-- > comm->client->parts;)
		if (part->free)
			part->free(comm);
	free(comm->to_context_rank);
	free(comm->to_comm_rank);
	free(comm->peer_state);
	free(comm->shrinks);
	call_log_free(comm);
	if (comm->lane == LANE_FIRST)
		free(comm->lanes);
	free(comm);
}

void comm_free(struct comm *comm)
{
	struct context *context = comm->context;

	context_lock(context);
	comm_detach(comm);
	lock_release(&context->lock);
	comm_release(comm);
}

void comm_free_unmade(struct comm *comm)
{
	comm_detach(comm);
	comm_release(comm);
}

void comm_free_host(struct comm *host)
{
	struct context *context = host ? host->context : NULL;

	if (!host)
		return;
	comm_free(host);
	context_unref(context, 0); /* the native context holds it too */
}
