/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_life.c - how a communicator is made, what its failure ends, and how it is freed, each by the parts that hang on it. */
#include "exec/comm_life.h"
#include "comm/call_log.h"
#include "watch/call_log_dump.h"
#include "comm/callback.h"
#include "exec/control.h"
#include "compose/await.h"
#include "compose/dispatch.h"
#include "compose/composed.h"
#include "comm/limit.h"
#include "message/message.h"
#include "native/native.h"
#include "native/native_slot.h"
#include "comm/lane.h"
#include "watch/report.h"
#include "comm/queue.h"
#include "comm/registration.h"
#include "compose/staging.h"
#include "watch/stall_words.h"
#include "compose/stream_order.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"
#include "transport/channel.h"

#include <stdio.h>
#include <stdlib.h>

/* The communicator has failed. */
static void comm_end_all(struct comm *comm, int loud)
{
	lane_release_streams(comm);
	if (comm->busy == COMM_RESTS) /* the next look finds that it has nothing to do */
		comm_list_busy(comm);
	queue_cancel(comm);
	callback_check(comm);
	message_end_all(comm, comm->error);
	lane_wake_other(comm);
	context_wake(comm->context);
	call_log_report(comm, loud && comm->error != COLL_ERR_ABORTED);
}

/* A backend without a transport takes most buffers as they are. */
static int comm_locate(struct op *op)
{
	struct call *call = &op->call;

	if (!op->comm->native || !call->kind || call->redop.premul_sum ||
	    !native_takes(op->comm, call))
		return staging_look(op);
	call->memory[COLL_BUFFER_SEND] = call->memory[COLL_BUFFER_RECV] = 0;
	return COLL_SUCCESS;
}

static void comm_describe_oldest(const struct comm *comm, char *text, size_t size)
{
	if (comm->queue.head)
		call_describe(comm, &comm->queue.head->call, text, size);
	else
		native_describe(comm, text, size);
}

static int comm_find_redop(const struct comm *comm, struct call *call)
{
	const int code = redop_find(comm->redops, call->kind->name, call->args.dtype, call->args.op,
				    &call->redop);

	if (comm->lane == LANE_HOST) /* the native lane's backend has made it */
		call->redop.made = 0;
	return code;
}

static void comm_hold(struct op *op)
{
	stream_order_hold(op->comm, op->ordered);
}

static unsigned comm_unexpected(const struct comm *comm, char *text, size_t size)
{
	struct stall_unexpected unexpected;

	snprintf(text, size, "%s", stall_unexpected(comm, &unexpected));
	return text[0] ? unexpected.messages : 0;
}

static const struct comm_client comm_parts = {
	.locate = comm_locate,
	.supports = dispatch_check,
	.find_redop = comm_find_redop,
	.choose = dispatch_choose,
	.issued = report_compare_newest,
	.failed = comm_end_all,
	.check = control_check,
	.move_messages = message_progress,
	.look_at_messages = message_look_at_all,
	.retire = staging_end,
	.begin = stream_order_begin,
	.group = stream_order_group,
	.group_end = stream_order_group_end,
	.hold = comm_hold,
	.depends = stream_order_depends,
	.drop = stream_order_drop,
	.release = stream_order_release,
	.watch = stream_order_watch,
	.slice = stall_slice,
	.step = stall_step,
	.unstall = stall_end,
	.check_left = stall_check_left,
	.poll = stall_poll,
	.ask = report_ask,
	.ask_outside = stall_ask_outside,
	.describe_missing = stall_describe_missing,
	.describe_own = comm_describe_oldest,
	.listen = control_listen,
	.leave = report_leave,
	.unexpected = comm_unexpected,
};

int comm_new_lane(struct comm **out, struct context *context, uint32_t context_id, int rank,
		  int nranks, const int *to_context_rank)
{
	struct comm *comm = calloc(1, sizeof(*comm));
	int hashed;

	*out = comm;
	if (!comm)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->context = context;
	comm->client = &comm_parts;
	comm->timeout_us = context->timeout_us;
	comm->shrunk.lost = -1;
	comm->context_id = context_id;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->cpus = context_cpus(context, to_context_rank ? to_context_rank[0] : 0);
	comm->to_context_rank = calloc((size_t)nranks, sizeof(*comm->to_context_rank));
	comm->to_comm_rank = calloc((size_t)context->nranks, sizeof(*comm->to_comm_rank));
	comm->peer_state = calloc((size_t)nranks, 1);
	comm->shrink = calloc((size_t)nranks, sizeof(*comm->shrink));
	comm->outcome = outcome_new(NULL);
	if (!comm->to_context_rank || !comm->to_comm_rank || !comm->peer_state || !comm->shrink ||
	    !comm->outcome || nodes_make(&comm->nodes, context->node, to_context_rank, nranks))
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	if (!context->plugin->backend.transport && native_new(&comm->native))
		return COLL_ERR_NO_MEMORY;
	comm->derived = context->comms != NULL;
	comm->engine[ENGINE_COMPOSED] = &composed_engine;
	comm->engine[ENGINE_AWAIT] = &await_engine;
	if (comm_native(comm))
		comm->engine[ENGINE_NATIVE] = comm->native ? &native_engine : &polled_engine;
	comm->asks_place = native_asks_place(comm);
	hashed = comm_native(comm) && (!comm->native || traffic_of(context)->channel) && nranks > 1;
	if (call_log_new(comm, hashed) || watch_new(comm, hashed))
		return COLL_ERR_NO_MEMORY;
	for (int r = 0; r < context->nranks; r++)
		comm->to_comm_rank[r] = -1;
	for (int r = 0; r < nranks; r++) {
		comm->to_context_rank[r] = to_context_rank ? to_context_rank[r] : r;
		comm->to_comm_rank[comm->to_context_rank[r]] = r;
	}
	if (!context->comms && context->plugins)
		call_log_check_dump(comm);
	comm_enlist(comm);
	/* Messages for it may have come already.  The maker of a derived one calls comm_check for it. */
	if (!comm->derived)
		context->pending_events = 1;
	return COLL_SUCCESS;
}

int comm_publish(struct comm *comm)
{
	struct comm *host = lane_host(comm);

	comm->redops = calloc(1, sizeof(*comm->redops));
	if (comm->redops)
		comm->handle = handle_new(HANDLE_COMM, comm);
	comm->outcome->comm = comm->handle;
	if (!comm->handle)
		return handle_none("a communicator");
	if (host) {
		context_lock(host->context);
		host->handle = comm->handle;
		host->redops = comm->redops;
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

void comm_drop_messages(const struct context *context, uint32_t context_id)
{
	struct context *control = channel_control(context);

	if (!control || context_id >= (uint32_t)1 << TAG_CONTEXT_BITS)
		return;
	context_lock(control);
	match_forget(&traffic_of(control)->match, ~(uint64_t)0, comm_tag_control(context_id));
	comm_note_freed(control, context_id);
	lock_release(&control->lock);
}

/* The lock is held. */
static void comm_detach(struct comm *comm)
{
	struct context *context = comm->context;
	const uint64_t context_id = (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT;
	struct rank_name name;
	struct shrunk unused;
	char staged[512];

	if (comm->finished < comm->issued) /* another thread has issued an operation meanwhile */
		comm_fail(comm, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
			  comm_own_name(comm, &name));
	message_end_all(comm, COLL_ERR_ABORTED);
	(void)comm_shrunk_before(comm, 0, &unused);
	comm_delist(comm);
	comm_forget_busy(comm);
	staging_count(comm, staged, sizeof(staged));
	if (staged[0])
		log_info("%s: operations that copied CUDA memory through host memory: %s",
			 comm_own_name(comm, &name), staged);
	staging_free_sites(comm);
	match_forget(&traffic_of(context)->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, context_id);
	comm_note_freed(context, comm->context_id);
	comm_drop_messages(context, comm->context_id);
	native_free(comm);
	registration_remove_all(comm);
	if (comm->outcome)
		outcome_end(comm->outcome, comm);
}

static void comm_release(struct comm *comm)
{
	outcome_unref(comm->outcome);
	comm_drop_persistent(comm);
	comm_free_ops(comm->queue.head);
	comm_free_ops(comm->queue.cache);
	comm_free_persistent(comm->queue.persistent);
	scratch_free_spares(comm);
	stream_order_free(comm);
	nodes_free(&comm->nodes);
	free(comm->to_context_rank);
	free(comm->to_comm_rank);
	free(comm->peer_state);
	free(comm->shrink);
	callback_free(comm);
	limit_free(comm);
	call_log_free(comm);
	watch_free(comm);
	if (comm->lane == LANE_FIRST) {
		redop_table_free(comm->redops);
		free(comm->lanes);
	}
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
