/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - control messages: how ranks tell each other of failures, of leaving and of new communicators. */
#include "exec/control.h"
#include "message/message.h"
#include "comm/call_log.h"
#include "comm/lane.h"
#include "comm/shrinks.h"
#include "watch/report.h"
#include "watch/stall.h"
#include "transport/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ taking -- */

/* The code for another rank's failure: a mismatch or a lost peer is this rank's failure as well. */
static int control_remote_code(int code)
{
	if (code == COLL_ERR_MISMATCH || code == COLL_ERR_PEER_LOST)
		return code;
	return COLL_ERR_REMOTE;
}

/* "rank 2: ", unless the text itself begins with a rank. */
static void control_remote_failure(struct lane *lane, int peer, const struct control_body *body)
{
	struct rank_name name;

	if (!strncmp(body->text, "rank ", 5))
		comm_fail(lane, 1, control_remote_code(body->code), "%s", body->text);
	else
		comm_fail(lane, 1, control_remote_code(body->code), "%s: %s",
			  comm_rank_name(lane, peer, &name), body->text);
}

/* A rank without its part of this communicator would never answer here. */
static void control_take_unmade(struct lane *lane, int peer, const struct control_body *body)
{
	struct rank_name name;

	comm_fail(lane, 1, control_remote_code(body->code),
		  "%s could not make this communicator: in its parent, %s",
		  comm_rank_name(lane, peer, &name), body->text);
}

static void control_take_report(struct lane *lane, int peer, const void *bytes, size_t len)
{
	if (!report_take(lane, peer, bytes, len))
		return;
	message_peer_left(lane);
	stall_check_left(lane);
}

static void control_take_lost(struct lane *lane, const void *bytes, size_t len)
{
	int32_t rank;

	if (len != sizeof(rank))
		return;
	memcpy(&rank, bytes, sizeof(rank));
	if (rank >= 0 && rank < lane->comm->nranks && lane->peer_state[rank] == PEER_ALIVE)
		lane->peer_state[rank] = PEER_REPORTED;
}

static void control_take_text(struct lane *lane, int peer, const struct control_body *body)
{
	if (body->kind == CONTROL_FAIL) {
		control_remote_failure(lane, peer, body);
	} else if (body->kind == CONTROL_SHRINK) {
		lane->shrinks->asked[peer] = strtoull(body->text, NULL, 16);
	} else if (body->kind == CONTROL_SHRUNK) {
		shrinks_take_answer(lane, body);
	} else if (body->kind == CONTROL_UNMADE) {
		control_take_unmade(lane, peer, body);
	}
}

/* A malformed message is dropped: one that is too short, or a text that has no end. */
static void control_take_control(struct lane *lane, const struct unexpected *e)
{
	const struct control_body *body = (const void *)e->data;
	int peer = lane->to_comm_rank[e->peer];
	size_t len;

	if (e->header.len <= sizeof(*body) || peer < 0)
		return;
	len = (size_t)e->header.len - sizeof(*body);
	if (body->kind == CONTROL_REPORT)
		control_take_report(lane, peer, body->text, len);
	else if (body->kind == CONTROL_LOST)
		control_take_lost(lane, body->text, len);
	else if (!body->text[len - 1])
		control_take_text(lane, peer, body);
}

static void control_take_controls(struct lane *lane, uint64_t tag)
{
	struct unexpected *e;

	while ((e = channel_take(lane->context, tag))) {
		control_take_control(lane, e);
		free(e);
	}
}

/*
 * Before the host lane fails, or while no call of the native lane takes what the control channel has told of a failure: this
 * may be the only thread.  A rank that fails tells why over the control channel before its process ends.  Not amid an
 * operation of the native lane that drives the host lane.
 */
static void control_hear_cause(const struct lane *host)
{
	struct lane *native = lane_other(host); /* NULL: it is being made */

	if (!native || lane_is_driven(host, native))
		return;
	native = lane_lock_other(host);
	if (!native)
		return;
	native->context->now_is_recent = 0;
	channel_poll(native->context);
	context_check(native->context);
	lane_unlock_other(native);
}

/* Names all ranks that are found lost at once: the rank whose end made other ranks end may be any lost rank. */
static void control_check_lost(struct lane *lane)
{
	struct context *context = lane->context;
	char text[ERROR_TEXT_SIZE] = "";
	struct rank_name name;
	size_t n = 0;

	for (int r = 0; r < lane->comm->nranks; r++) {
		const char *failure = context->failure[lane->to_context_rank[r]];

		if (!failure || lane->peer_state[r] == PEER_LEFT)
			continue;
		if (lane->peer_state[r] != PEER_FAILED && !lane->leaving)
			comm_send_lost(lane, r);
		lane->peer_state[r] = PEER_FAILED;
		if (n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s was lost: %s",
					      n ? "; " : "", comm_rank_name(lane, r, &name),
					      failure);
	}
	if (!n || lane->leaving || lane->error)
		return;
	if (lane->index == LANE_HOST)
		control_hear_cause(lane);
	comm_fail(lane, 0, COLL_ERR_PEER_LOST, "%s", text);
}

/*
 * Notes the ranks that the control channel has lost, but no rank whose state is `known` or a later state.  The context
 * of a native lane numbers its ranks as the communicator does.
 */
static void control_note_lost(struct lane *lane, const struct context *native,
			      enum peer_state known)
{
	for (int r = 0; r < lane->comm->nranks; r++) {
		if (lane->peer_state[r] >= known || !channel_has_lost(native, r))
			continue;
		lane->peer_state[r] = PEER_FAILED;
		if (!lane->leaving)
			comm_send_lost(lane, r);
	}
}

/* The control channel tells of a failure: the backend was aborted, whatever its own error is. */
static void control_check_notice(struct lane *lane)
{
	struct failure_notice *notice = &lane->context->notice;
	const int code = atomic_load(&notice->code);

	if (!code)
		return;
	control_note_lost(lane, lane->context, PEER_FAILED);
	if (!lane->leaving)
		comm_fail(lane, 0, code, "%s", notice->text);
}

/* The same beside the native lane: the host lane's endpoint may not know of the lost ranks yet. */
static void control_check_native(struct lane *host)
{
	const struct lane *native = lane_other(host);

	if (!native)
		return;
	control_note_lost(host, native->context, PEER_LEFT);
	if (atomic_load(&native->context->notice.ended) && !atomic_load(&host->comm->outcome->code))
		control_hear_cause(host);
}

void control_check(struct lane *lane)
{
	control_take_controls(lane, tag_control(lane->context_id));
	if (lane->birth)
		control_take_controls(lane, lane->birth);
	control_check_notice(lane);
	if (lane->pending.code)
		comm_fail(lane, 0, lane->pending.code, "%s", lane->pending.text);
	control_check_lost(lane);
	if (lane->index == LANE_HOST)
		control_check_native(lane);
	lane_check_other(lane);
}

void control_listen(struct lane *lane)
{
	if (!lane->log->hash)
		return;
	context_progress(lane->context);
	channel_poll(lane->context);
	lane_check(lane);
	if (lane->error)
		return;
	report_check_left(lane, 1);
	if (lane->pending.code)
		lane_check(lane);
}
