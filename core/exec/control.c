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
static int comm_remote_code(int code)
{
	if (code == COLL_ERR_MISMATCH || code == COLL_ERR_PEER_LOST)
		return code;
	return COLL_ERR_REMOTE;
}

/* "rank 2: ", unless the text itself begins with a rank. */
static void comm_remote_failure(struct comm *comm, int peer, const struct control_body *body)
{
	struct rank_name name;

	if (!strncmp(body->text, "rank ", 5))
		comm_fail(comm, 1, comm_remote_code(body->code), "%s", body->text);
	else
		comm_fail(comm, 1, comm_remote_code(body->code), "%s: %s",
			  comm_rank_name(comm, peer, &name), body->text);
}

/* A rank without its part of this communicator would never answer here. */
static void comm_take_unmade(struct comm *comm, int peer, const struct control_body *body)
{
	struct rank_name name;

	comm_fail(comm, 1, comm_remote_code(body->code),
		  "%s could not make this communicator: in its parent, %s",
		  comm_rank_name(comm, peer, &name), body->text);
}

static void comm_take_report(struct comm *comm, int peer, const void *bytes, size_t len)
{
	if (!report_take(comm, peer, bytes, len))
		return;
	message_peer_left(comm);
	stall_check_left(comm);
}

static void comm_take_lost(struct comm *comm, const void *bytes, size_t len)
{
	int32_t rank;

	if (len != sizeof(rank))
		return;
	memcpy(&rank, bytes, sizeof(rank));
	if (rank >= 0 && rank < comm->nranks && comm->peer_state[rank] == PEER_ALIVE)
		comm->peer_state[rank] = PEER_REPORTED;
}

static void comm_take_text(struct comm *comm, int peer, const struct control_body *body)
{
	if (body->kind == CONTROL_FAIL) {
		comm_remote_failure(comm, peer, body);
	} else if (body->kind == CONTROL_SHRINK) {
		comm->shrinks->asked[peer] = strtoull(body->text, NULL, 16);
	} else if (body->kind == CONTROL_SHRUNK) {
		shrinks_take_answer(comm, body);
	} else if (body->kind == CONTROL_UNMADE) {
		comm_take_unmade(comm, peer, body);
	}
}

/* A malformed message is dropped: one that is too short, or a text that has no end. */
static void comm_take_control(struct comm *comm, const struct unexpected *e)
{
	const struct control_body *body = (const void *)e->data;
	int peer = comm->to_comm_rank[e->peer];
	size_t len;

	if (e->header.len <= sizeof(*body) || peer < 0)
		return;
	len = (size_t)e->header.len - sizeof(*body);
	if (body->kind == CONTROL_REPORT)
		comm_take_report(comm, peer, body->text, len);
	else if (body->kind == CONTROL_LOST)
		comm_take_lost(comm, body->text, len);
	else if (!body->text[len - 1])
		comm_take_text(comm, peer, body);
}

static void comm_take_controls(struct comm *comm, uint64_t tag)
{
	struct unexpected *e;

	while ((e = channel_take(comm->context, tag))) {
		comm_take_control(comm, e);
		free(e);
	}
}

/*
 * The host lane has lost a rank.  A rank that fails tells why over the control channel before its process ends: the native lane
 * takes that message first, if it has come; but not amid an operation of the native lane that drives the host lane.
 */
static void comm_hear_cause(const struct comm *comm)
{
	struct comm *native;

	if (comm->lane != LANE_HOST || comm->lanes->driven)
		return;
	native = lane_lock_other(comm);
	if (!native)
		return;
	native->context->now_is_recent = 0;
	channel_poll(native->context);
	context_check(native->context);
	lane_unlock_other(native);
}

/* Names all ranks that are found lost at once: the rank whose end made other ranks end may be any lost rank. */
static void comm_check_lost(struct comm *comm)
{
	struct context *context = comm->context;
	char text[ERROR_TEXT_SIZE] = "";
	struct rank_name name;
	size_t n = 0;

	for (int r = 0; r < comm->nranks; r++) {
		const char *failure = context->failure[comm->to_context_rank[r]];

		if (!failure || comm->peer_state[r] == PEER_LEFT)
			continue;
		if (comm->peer_state[r] != PEER_FAILED && !comm->leaving)
			comm_send_lost(comm, r);
		comm->peer_state[r] = PEER_FAILED;
		if (n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s was lost: %s",
					      n ? "; " : "", comm_rank_name(comm, r, &name),
					      failure);
	}
	if (!n || comm->leaving || comm->error)
		return;
	comm_hear_cause(comm);
	comm_fail(comm, 0, COLL_ERR_PEER_LOST, "%s", text);
}

/* The ranks that the control channel has lost: the backend was aborted, whatever its own error is. */
static void comm_check_alarm(struct comm *comm)
{
	struct alarm *alarm = &comm->context->alarm;
	const int code = atomic_load(&alarm->code);

	for (int r = 0; code && r < comm->nranks; r++) {
		if (comm->peer_state[r] == PEER_FAILED ||
		    !channel_has_lost(comm->context, comm->to_context_rank[r]))
			continue;
		if (!comm->leaving)
			comm_send_lost(comm, r);
		comm->peer_state[r] = PEER_FAILED;
	}
	if (code && !comm->leaving)
		comm_fail(comm, 0, code, "%s", alarm->text);
}

void control_check(struct comm *comm)
{
	comm_take_controls(comm, comm_tag_control(comm->context_id));
	if (comm->birth)
		comm_take_controls(comm, comm->birth);
	comm_check_alarm(comm);
	if (comm->pending.code)
		comm_fail(comm, 0, comm->pending.code, "%s", comm->pending.text);
	comm_check_lost(comm);
	lane_check(comm);
}

void control_listen(struct comm *comm)
{
	if (!comm->log->hash)
		return;
	context_progress(comm->context);
	channel_poll(comm->context);
	comm_check(comm);
	if (comm->error)
		return;
	report_check_left(comm, 1);
	if (comm->pending.code)
		comm_check(comm);
}
