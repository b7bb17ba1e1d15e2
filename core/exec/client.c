/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c - the reports of a context to its communicators: see struct context_client. */
#include "exec/control.h"
#include "comm/drive.h"
#include "watch/failure.h"
#include "compose/composed.h"
#include "compose/steps.h"
#include "message/message.h"
#include "native/native_split.h"
#include "watch/report.h"
#include "watch/stall.h"
#include "device/device.h"
#include "transport/channel.h"

#include <stdio.h>

/* A control message about a communicator that could not be made concerns every communicator. */
static void client_take_controls(struct context *context)
{
	const struct match *m = &traffic_of(context)->match;
	int all = m->controls > MATCH_CONTROLS_SEEN;
	struct lane *lane;

	for (int i = 0; i < m->controls && !all; i++)
		all = tag_is_birth(m->control[i]);
	if (all)
		drive_check(context);
	for (int i = 0; i < m->controls && !all; i++) {
		lane = lane_of_tag(context, m->control[i]);
		if (lane)
			lane_check(lane);
	}
}

/* 1: control messages came or went. */
static int client_take(struct context *context)
{
	struct traffic *traffic = traffic_of(context);
	struct recv *recv;
	int controls;

	while ((recv = match_next_done(&traffic->match)))
		steps_received(recv);
	controls = traffic->match.controls != 0;
	if (context_take_news(context)) {
		channel_report_lost(context);
		drive_check(context);
	} else if (controls)
		client_take_controls(context);
	traffic->match.controls = 0;
	return controls | (traffic->controls && traffic_reap_controls(context));
}

/* The transport's descriptor wakes no thread for copies either. */
static int client_awaits(const struct context *context)
{
	return traffic_of(context)->copies.pending || drive_awaits(context);
}

static int client_watch(struct context *context)
{
	int busy = 0;

	for (struct lane *lane = context->lanes; lane; lane = lane->next)
		busy |= stall_ask_outside(lane);
	return busy;
}

static void client_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			    const coll_header_t *header)
{
	struct lane *lane = lane_of_tag(context, header->tag);
	int same = match_same_call(recv->meta, header->meta);

	if (recv->unordered)
		message_misfit(recv, peer, header);
	if (!lane || recv->unordered)
		return;
	if (header->tag & TAG_USER)
		comm_report_message(lane, lane->to_comm_rank[peer], header->tag, header->meta,
				    recv->meta);
	else if (same)
		comm_report_lengths(lane, recv, peer, header);
	else
		comm_report_call(lane, lane->to_comm_rank[peer], recv->op->seq, header->meta,
				 recv->meta);
}

/*
 * The communicator of the message fails: the fault is this rank's.  A communicator that is still being
 * made cannot fail: then the connection has to end, and context->failure names the cause.
 */
static int client_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	struct lane *lane = lane_of_tag(context, header->tag);
	struct rank_name name, own;

	if (!lane) {
		context->refused = (int)peer;
		context->refused_len = header->len;
		return COLL_ERR_NO_MEMORY;
	}
	lane_set_pending(
		lane, COLL_ERR_NO_MEMORY,
		"%s has no memory to keep a message of %llu bytes from %s, which came before %s "
		"waited for it: give %s more memory, or call receives earlier",
		comm_own_name(lane, &own), (unsigned long long)header->len,
		comm_rank_name(lane, lane->to_comm_rank[peer], &name), own.text, own.text);
	return COLL_SUCCESS;
}

static int client_check_unexpected(struct context *context, uint32_t peer, const coll_header_t *h)
{
	struct lane *lane = lane_of_tag(context, h->tag);
	uint32_t seq = (uint32_t)(h->tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK;

	if (!lane && !tag_is_birth(h->tag))
		return comm_was_freed(context, (uint32_t)(h->tag >> TAG_CONTEXT_SHIFT));
	if (h->tag & MATCH_CONTROL)
		return 0;
	if (tag_is_unordered(h->tag)) /* a thread may sleep in coll_probe */
		context->sleepers_have_news = 1;
	if (lane->error || lane->pending.code || lane->to_comm_rank[peer] < 0)
		return 1;
	return !(h->tag & TAG_USER) &&
	       report_message_differs(lane, lane->to_comm_rank[peer], seq, h->meta);
}

static int client_ends(int kind)
{
	return kind == CONTROL_FAIL || kind == CONTROL_UNMADE;
}

const struct traffic_client comm_traffic_client = {
	.fill = steps_fill,
	.check_unexpected = client_check_unexpected,
	.no_memory = client_no_memory,
	.mismatch = client_mismatch,
	.watch = client_watch,
	.ends = client_ends,
};

static void client_begin(struct context *context, const struct context_parts *parts)
{
	traffic_begin(context, parts, &comm_traffic_client);
}

static void client_opened(struct context *context)
{
	traffic_opened(context);
	channel_watch_forks();
}

const struct context_client comm_context_client = {
	.comms = &comm_parts_client,
	.size = sizeof(struct traffic),
	.begin = client_begin,
	.opened = client_opened,
	.closing = channel_forget,
	.close_splits = native_split_close_all,
	.closed = channel_close,
	.left = channel_leave,
	.free = traffic_free,
	.memory_kind = device_kind,
	.take = client_take,
	.send = channel_send,
	.sending = traffic_is_sending,
	.lost = channel_has_lost,
	.failed = channel_end,
	.check = drive_check,
	.poll = composed_poll,
	.advance = drive_advance,
	.look = drive_look,
	.shut = drive_shut,
	.awaits = client_awaits,
	.due = drive_due,
	.busy = drive_busy,
	.rest = drive_rest,
};
