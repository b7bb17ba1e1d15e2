/* SPDX-License-Identifier: BSD-3-Clause */
/* parts.c - what the folders right of comm hang on a communicator, and the functions of struct comm_client. */
#include "exec/control.h"
#include "comm/call_log.h"
#include "comm/counts.h"
#include "event/lane_order.h"
#include "comm/life.h"
#include "comm/staging_sites.h"
#include "compose/await.h"
#include "compose/composed.h"
#include "compose/dispatch.h"
#include "compose/staging.h"
#include "compose/stream_order.h"
#include "message/message.h"
#include "native/native.h"
#include "native/native_slot.h"
#include "native/native_split.h"
#include "serve/serve.h"
#include "transport/channel.h"
#include "watch/call_log_dump.h"
#include "watch/report.h"
#include "watch/seen.h"
#include "watch/stall_words.h"
#include "base/error.h"
#include "comm/lane_log.h"

#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------------------------- parts -- */

static int part_engines(struct lane *lane)
{
	lane->engine[ENGINE_COMPOSED] = &composed_engine;
	lane->engine[ENGINE_AWAIT] = &await_engine;
	if (!lane->context->plugin->backend.transport && native_new(&lane->native))
		return COLL_ERR_NO_MEMORY;
	if (lane_native(lane))
		lane->engine[ENGINE_NATIVE] = lane->native ? &native_engine : &polled_engine;
	lane->asks_in_place = native_asks_in_place(lane);
	native_split_begin(lane);
	return COLL_SUCCESS;
}

static void part_engines_end(struct lane *lane)
{
	native_free(lane);
	native_split_close(lane);
}

static void part_engines_free(struct lane *lane)
{
	native_split_free(lane->native_split);
}

static void part_redops_free(struct lane *lane)
{
	if (lane->index == LANE_FIRST)
		redop_table_free(lane->comm->redops);
}

/* The ranks of a backend that executes calls by itself compare the calls by their hashes. */
static int part_watch(struct lane *lane)
{
	const struct context *context = lane->context;
	const int hashed = lane_native(lane) && lane->comm->nranks > 1 &&
			   (!lane->native || traffic_of(context)->channel);

	if ((hashed && call_log_hash_calls(lane)) || watch_new(lane, hashed))
		return COLL_ERR_NO_MEMORY;
	if (!context->lanes && context->plugins)
		call_log_check_dump(lane);
	return COLL_SUCCESS;
}

static void part_watch_failed(struct lane *lane, int loud)
{
	call_log_report(lane, loud && lane->error != COLL_ERR_ABORTED);
}

static void part_staging_end(struct lane *lane)
{
	struct rank_name name;
	char staged[512];

	staging_count(lane, staged, sizeof(staged));
	if (staged[0])
		lane_log(lane, COLL_LOG_INFO,
			 "%s: operations that copied CUDA memory through host memory: %s",
			 comm_own_name(lane, &name), staged);
	staging_free_sites(lane);
}

/* Messages that come from now on are dropped. */
static void part_traffic_end(struct lane *lane)
{
	const uint64_t context_id = (uint64_t)lane->context_id << TAG_CONTEXT_SHIFT;

	match_forget(&lane->traffic->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, context_id);
	native_drop_id(lane->context, lane->context_id);
}

static void part_messages_failed(struct lane *lane, int loud)
{
	(void)loud;
	message_end_all(lane, lane->error);
}

static void part_messages_end(struct lane *lane)
{
	message_end_all(lane, COLL_ERR_ABORTED);
}

/* In the order of their making. */
static const struct comm_part parts[] = {
	{"seen", .begin = seen_begin, .failed = seen_failed, .free = seen_free},
	{"server", .begin = serve_begin, .free = serve_free},
	{"counters", .begin = counts_begin, .free = counts_free},
	{"engines", .begin = part_engines, .end = part_engines_end, .free = part_engines_free},
	{"composed", .begin = composed_new, .free = composed_free},
	{"operations", .free = part_redops_free},
	{"streams", .free = stream_order_free},
	{"staging", .end = part_staging_end},
	{"traffic", .end = part_traffic_end},
	{"messages", .failed = part_messages_failed, .end = part_messages_end},
	{"watch", .begin = part_watch, .failed = part_watch_failed, .free = watch_free},
	{0},
};

/* ---------------------------------------------------------------------- functions -- */

/* A backend without a transport takes most buffers as they are. */
static int comm_locate(struct op *op)
{
	struct call *call = &op->call;

	if (!op->lane->native || !call->kind || call->redop.premul_sum ||
	    !native_takes(op->lane, call))
		return staging_look(op);
	call->memory[COLL_BUFFER_SEND] = call->memory[COLL_BUFFER_RECV] = 0;
	return COLL_SUCCESS;
}

static void lane_describe_oldest(const struct lane *lane, char *text, size_t size)
{
	if (lane->queue.head)
		call_describe(lane, &lane->queue.head->call, text, size);
	else
		native_describe(lane, text, size);
}

static unsigned comm_unexpected(const struct lane *lane, char *text, size_t size)
{
	struct stall_unexpected unexpected;

	snprintf(text, size, "%s", stall_unexpected(lane, &unexpected));
	return text[0] ? unexpected.messages : 0;
}

static void comm_hold(struct op *op)
{
	stream_order_hold(op->lane, op->ordered);
}

const struct comm_client comm_parts_client = {
	.parts = parts,
	.locate = comm_locate,
	.supports = dispatch_check,
	.find_redop = redop_find,
	.algorithm = composed_algorithm,
	.choose = dispatch_choose,
	.issued = report_compare_newest,
	.failed = lane_end_all,
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
	.lanes = &lane_order,
	.slice = stall_slice,
	.step = stall_step,
	.unstall = stall_end,
	.check_left = stall_check_left,
	.poll = seen_poll,
	.note = seen_note_wait,
	.ask = report_ask,
	.ask_outside = stall_ask_outside,
	.describe_missing = stall_describe_missing,
	.describe_own = lane_describe_oldest,
	.listen = control_listen,
	.leave = report_leave,
	.unexpected = comm_unexpected,
};
