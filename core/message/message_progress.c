/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_progress.c - how messages outside the order of the operations are found complete.  The transport reports a
 * receive, but of a send it only sets the status: sends must be looked at.
 */
#include "message/message.h"
#include "compose/steps.h"
#include "base/clock.h"
#include "transport/traffic.h"

/*
 * A call of message_progress looks at so many sends at most, since a program may have 10,000 of them open and call for
 * each.  A thread looks at its own send and, before it sleeps, at all sends.
 */
enum { MESSAGE_LOOKS = 64 };

/* ---------------------------------------------------------------------- limits -- */

static int message_check_limit(struct message *m, int64_t now)
{
	struct comm *comm = m->comm;
	struct rank_name own;
	char what[160];

	if (!m->end_us)
		return 0;
	if (m->end_us > now) {
		if (m->end_us < comm->messages.next_limit_us)
			comm->messages.next_limit_us = m->end_us;
		return 0;
	}
	comm_own_name(comm, &own);
	message_describe(comm, &m->args, what, sizeof(what));
	if (message_is_posted(m)) {
		steps_cancel_recv(comm->context, &m->u.in.recv);
		message_end(m, COLL_ERR_TIMEOUT,
			    "%s: %s timed out: no message has come %.3g s after the program "
			    "limited its time",
			    own.text, what, (double)m->timeout_us / 1e6);
	} else {
		comm_fail(comm, 0, COLL_ERR_TIMEOUT,
			  "%s: %s timed out: its bytes are still under way %.3g s after the "
			  "program limited its time",
			  own.text, what, (double)m->timeout_us / 1e6);
	}
	return 1;
}

static int message_check_limits_of(struct comm *comm, struct message *first, int64_t now)
{
	struct message *next;
	int moved = 0;

	for (struct message *m = first; m && !comm->error; m = next) {
		next = m->next;
		moved |= message_check_limit(m, now);
	}
	return moved;
}

static int message_check_limits(struct comm *comm)
{
	const int64_t now = clock_now_us();

	if (now < comm->messages.next_limit_us)
		return 0;
	comm->messages.next_limit_us = INT64_MAX;
	return message_check_limits_of(comm, comm->messages.recvs.first, now) |
	       message_check_limits_of(comm, comm->messages.sends.first, now);
}

/* ----------------------------------------------------------------------- sends -- */

/* Ends the send if it is complete: 1 if it is. */
static int message_check_send(struct message *m)
{
	struct comm *comm = m->comm;
	const int status = m->u.send.status;
	struct rank_name name, own;

	if (m->unsent || status == COLL_IN_PROGRESS)
		return 0;
	if (!status) {
		m->status =
			(coll_status_t){.source = comm->rank,
					.tag = m->args.tag,
					.bytes = m->u.send.header.len,
					.dtype = m->args.count ? m->args.dtype : COLL_DTYPE_NONE};
		message_end(m, COLL_SUCCESS, NULL);
	} else if (comm->peer_state[m->args.peer] == PEER_LEFT) {
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator before %s could send to it",
			    comm_rank_name(comm, m->args.peer, &name), comm_own_name(comm, &own));
	} else {
		steps_peer_failed(comm, m->args.peer, status);
	}
	return 1;
}

/* Looks at `n` sends from next_look on, at each once: 1 if one of them is complete. */
static int message_look(struct comm *comm, int n)
{
	int moved = 0;

	for (n = n < comm->messages.sends.count ? n : comm->messages.sends.count;
	     n > 0 && !comm->error; n--) {
		struct message *m = comm->messages.next_look ? comm->messages.next_look
							     : comm->messages.sends.first;

		if (!m)
			break;
		comm->messages.next_look = m->next;
		moved |= message_check_send(m);
	}
	return moved;
}

int message_look_at_all(struct comm *comm)
{
	return comm->messages.sends.count > MESSAGE_LOOKS &&
	       message_look(comm, comm->messages.sends.count);
}

/* The thread that finds its own send complete may be the last in a call: it wakes those that wait for the send too. */
int message_is_done(struct message *m)
{
	struct context *context = m->comm->context;

	if (!m->done && m->args.kind == COLL_KIND_SEND && !m->comm->error &&
	    message_check_send(m) && context->sleepers)
		context_wake(context);
	return m->done;
}

/* ------------------------------------------------------------------- progressing -- */

int message_progress(struct comm *comm)
{
	int moved =
		comm->messages.copying ? copies_progress(&traffic_of(comm->context)->copies) : 0;

	if (comm->messages.first_unsent)
		moved |= message_start_held(comm);
	moved |= message_look(comm, MESSAGE_LOOKS);
	if (comm->messages.limited)
		moved |= message_check_limits(comm);
	return moved;
}
