/* SPDX-License-Identifier: BSD-3-Clause */
/* life.c - how a communicator is made, what its failure ends, and how it is freed, each with its parts. */
#include "comm/life.h"
#include "comm/call_log.h"
#include "comm/lane.h"
#include "comm/observed.h"
#include "comm/task.h"
#include "comm/op.h"
#include "comm/queue.h"
#include "comm/registration.h"
#include "comm/shrinks.h"
#include "transport/traffic.h"
#include "base/error.h"
#include "base/handle.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- making -- */

static int life_make_parts(struct lane *lane)
{
	int code = COLL_SUCCESS;

	for (const struct comm_part *part = lane->client->parts; !code && part->name; part++)
		if (part->begin)
			code = part->begin(lane);
	return code;
}

/* The ranks here and on the context. */
static void life_number_ranks(struct lane *lane, const int *to_context_rank)
{
	for (int r = 0; r < lane->context->nranks; r++)
		lane->to_comm_rank[r] = -1;
	for (int r = 0; r < lane->comm->nranks; r++) {
		lane->to_context_rank[r] = to_context_rank ? to_context_rank[r] : r;
		lane->to_comm_rank[lane->to_context_rank[r]] = r;
	}
}

/*
 * Two cache lines, which processors fetch together.  A communicator has its lines alone: ranks that are threads of one process
 * would else write to what another rank reads in each call.
 */
enum { LINES = 128 };

struct comm *comm_blank(int rank, int nranks)
{
	struct comm *comm;
	void *memory;

	if (posix_memalign(&memory, LINES, (sizeof(*comm) + LINES - 1) / LINES * LINES))
		return NULL;
	comm = memset(memory, 0, sizeof(*comm));
	comm->rank = rank;
	comm->nranks = nranks;
	comm->outcome = outcome_new(NULL);
	if (comm->outcome)
		return comm;
	free(comm);
	return NULL;
}

/* The last lane has gone. */
static void life_free_comm(struct comm *comm)
{
	outcome_unref(comm->outcome);
	observed_comm_free(comm);
	free(comm);
}

/* From now on the other lane, if there is one, knows the lane, whose lock is held. */
static void life_join(struct lane *lane)
{
	const struct lane *other = lane_other(lane);

	if (other)
		context_lock(other->context); /* its progress thread knows the other lane */
	lane->comm->lane[lane->index] = lane;
	if (other && other->error) /* another rank has told of a failure meanwhile */
		lane_wake_other(other);
	if (other)
		context_leave(other->context);
}

/* The members of a lane that need memory.  The communicator has this lane from now on. */
static int life_fill(struct lane *lane, const int *to_context_rank)
{
	const size_t nranks = (size_t)lane->comm->nranks;
	int code;

	lane->to_context_rank = calloc(nranks, sizeof(*lane->to_context_rank));
	lane->to_comm_rank = calloc((size_t)lane->context->nranks, sizeof(*lane->to_comm_rank));
	lane->peer_state = calloc(nranks, 1);
	if (!lane->to_context_rank || !lane->to_comm_rank || !lane->peer_state)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	life_number_ranks(lane, to_context_rank);
	code = call_log_new(lane);
	if (!code)
		code = shrinks_new(lane);
	return code ? code : life_make_parts(lane);
}

int lane_new(struct lane **out, struct comm *comm, int index, struct context *context,
	     uint32_t context_id, const int *to_context_rank, struct native_split *native_split)
{
	struct lane *lane = comm ? calloc(1, sizeof(*lane)) : NULL;
	int code;

	*out = lane;
	if (!lane) {
		if (comm && !comm->nlanes)
			life_free_comm(comm);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	}
	comm->nlanes++;
	comm->timeout_us = context->timeout_us;
	lane->comm = comm;
	lane->index = index;
	lane->context = context;
	lane->traffic = traffic_of(context);
	lane->client = context->client->comms;
	lane->context_id = context_id;
	lane->derived = context->lanes != NULL;
	lane->native_split = native_split;
	code = life_fill(lane, to_context_rank);
	if (code)
		return code;
	life_join(lane);
	lane_enlist(lane);
	/* Messages for it may have come already.  The maker of a derived one calls lane_check for it. */
	if (!lane->derived)
		context->pending_events = 1;
	return COLL_SUCCESS;
}

int comm_publish(struct comm *comm)
{
	struct lane *host = lane_host(comm->lane[LANE_FIRST]);

	if (host)
		context_lock(host->context);
	comm->handle = comm->outcome->comm = handle_new(HANDLE_COMM, comm);
	if (comm->handle)
		comm->slot = handle_slot_of(comm->handle);
	if (comm->handle && comm->lane[LANE_FIRST]->context->observed)
		observed_comm_made(comm);
	if (host)
		context_leave(host->context);
	return comm->handle ? COLL_SUCCESS : handle_none("a communicator");
}

int comm_new(struct lane **lane, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *to_context_rank)
{
	const int code = lane_new(lane, comm_blank(rank, nranks), LANE_FIRST, context, context_id,
				  to_context_rank, NULL);

	return code ? code : comm_publish((*lane)->comm);
}

int lane_new_host(struct context *native, struct lane **out)
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
		code = lane_new(out, comm_blank(context->rank, context->nranks), LANE_HOST, context,
				0, NULL, NULL);
	if (!code)
		context_ref(context);
	else if (*out)
		lane_free_unmade(*out);
	if (code)
		*out = NULL;
	context_leave(context);
	return code;
}

/* ------------------------------------------------------------------------ failing -- */

void lane_end_all(struct lane *lane, int loud)
{
	if (LANE_OBSERVED(lane, COLL_OBSERVE_FAILURE))
		observed_failure(lane);
	lane_release_streams(lane);
	if (lane->busy == LANE_RESTS) /* the next look finds that it has nothing to do */
		lane_list_busy(lane);
	queue_cancel(lane);
	task_check(lane);
	/* Before the parts: a part may write a file, and the backend that hangs is aborted by whoever wakes now. */
	lane_wake_other(lane);
	context_wake(lane->context);
	for (const struct comm_part *part = lane->client->parts; part->name; part++)
		if (part->failed)
			part->failed(lane, loud);
}

/* ------------------------------------------------------------------------ freeing -- */

/* Frees a list of operations, which persistent operations have links of their own for. */
static void life_free_ops(struct op *op, int persistent)
{
	while (op) {
		struct op *next = persistent ? op->persistent_next : op->next;

		op_free(op);
		op = next;
	}
}

/* Takes persistent operations out of the queue: they are freed as a list of their own. */
static void lane_drop_persistent(struct lane *lane)
{
	for (struct op **at = &lane->queue.head; *at;)
		if ((*at)->persistent)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

/* The parts end, and are freed, in the opposite order of their making. */
static const struct comm_part *life_last_part(const struct lane *lane)
{
	const struct comm_part *part = lane->client->parts;

	while (part->name)
		part++;
	return part;
}

/* The lock is held. */
static void lane_detach(struct lane *lane)
{
	struct rank_name name;

	/* Another thread has issued an operation meanwhile, or waits for one. */
	if (lane->finished < lane->issued || lane->tasks.awaited)
		comm_fail(lane, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
			  comm_own_name(lane, &name));
	/* It sends messages, so it comes before the part that drops the messages that have come for the communicator. */
	shrinks_end(lane);
	for (const struct comm_part *part = life_last_part(lane); part-- > lane->client->parts;)
		if (part->end)
			part->end(lane);
	lane_delist(lane);
	lane_forget_busy(lane);
	comm_note_freed(lane->context, lane->context_id);
	registration_remove_all(lane);
	outcome_end(lane->comm->outcome, lane);
	if (lane->index == LANE_FIRST && LANE_OBSERVED(lane, COLL_OBSERVE_COMM))
		observed_comm_ends(lane->comm);
}

static void lane_release(struct lane *lane)
{
	lane_drop_persistent(lane);
	life_free_ops(lane->queue.head, 0);
	for (size_t i = 0; i < sizeof(lane->queue.plans) / sizeof(lane->queue.plans[0]); i++)
		life_free_ops(lane->queue.plans[i], 0);
	life_free_ops(lane->queue.persistent, 1);
	scratch_free_spares(lane);
	for (const struct comm_part *part = life_last_part(lane); part-- > lane->client->parts;)
		if (part->free)
			part->free(lane);
	free(lane->to_context_rank);
	free(lane->to_comm_rank);
	free(lane->peer_state);
	free(lane->shrinks);
	call_log_free(lane);
	if (!--lane->comm->nlanes)
		life_free_comm(lane->comm);
	free(lane);
}

void lane_free(struct lane *lane)
{
	struct context *context = lane->context;

	context_lock(context);
	lane_detach(lane);
	lock_release(&context->lock);
	lane_release(lane);
}

void lane_free_unmade(struct lane *lane)
{
	lane_detach(lane);
	lane_release(lane);
}

void lane_free_host(struct lane *host)
{
	struct context *context = host ? host->context : NULL;

	if (!host)
		return;
	lane_free(host);
	context_unref(context, 0); /* the native context holds it too */
}
