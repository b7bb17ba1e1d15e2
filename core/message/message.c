/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - messages outside the order of the operations: how they are made and started. */
#include "message/message.h"
#include "comm/callback.h"
#include "compose/steps.h"
#include "base/error.h"
#include "transport/traffic.h"

#include <stdlib.h>

int message_new(struct comm *comm, const struct message_args *args, struct message **out)
{
	struct message *m = calloc(1, sizeof(*m));

	*out = m;
	if (!m)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a message");
	m->comm = comm;
	m->args = *args;
	atomic_init(&m->refs, 1);
	m->status = (coll_status_t){
		.source = -1, .tag = -1, .error = COLL_IN_PROGRESS, .dtype = COLL_DTYPE_NONE};
	return args->staged ? message_stage(m) : COLL_SUCCESS;
}

/* ------------------------------------------------------------------ starting -- */

static uint64_t message_type(const struct message_args *args)
{
	return (uint64_t)COLL_KIND_SEND | signature_dtype_bits(args->dtype);
}

static void message_open(struct message *m)
{
	struct comm *comm = m->comm;
	const int sends = m->args.kind == COLL_KIND_SEND;
	struct message_list *list = sends ? &comm->messages.sends : &comm->messages.recvs;

	atomic_fetch_add(&m->refs, 1);
	m->issued_us = context_now(comm->context);
	m->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = m;
	list->last = m;
	list->count++;
	if (!sends)
		return;
	comm->messages.looks++;
	comm_set_busy(comm);
}

static void message_start_send(struct message *m)
{
	const struct message_args *a = &m->args;
	struct comm *comm = m->comm;
	struct context *context = comm->context;
	coll_send_t *send = &m->u.send;
	coll_error_t err = error_blank();
	struct rank_name name, own;
	int code;

	*send = (coll_send_t){
		.header = {.tag = comm_tag_loose(comm),
			   .meta = {message_type(a), (uint32_t)a->tag},
			   .len = a->count * coll_dtype_size(a->dtype)},
		.buf = m->offload ? m->offload->memory
		       : a->count ? a->buf
				  : NULL,
		.peer = (uint32_t)comm->to_context_rank[a->peer],
		.status = COLL_IN_PROGRESS,
		.memory = COLL_MEM_HOST,
	};
	if (comm->peer_state[a->peer] == PEER_LEFT) {
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator before %s sent to it",
			    comm_rank_name(comm, a->peer, &name), comm_own_name(comm, &own));
		return;
	}
	code = context->plugin->backend.transport->send(context->ep, send, &err);
	if (code)
		message_end(m, error_take(code, &err), "%s cannot send to %s: %s",
			    comm_own_name(comm, &own), comm_rank_name(comm, a->peer, &name),
			    err.text[0] ? err.text : coll_error_string(code));
}

/* A send whose bytes are copied holds those behind it: messages keep the order of the calls. */
static void message_hold_send(struct message *m)
{
	struct comm *comm = m->comm;

	m->u.send.status = COLL_IN_PROGRESS;
	m->unsent = 1;
	if (!comm->messages.first_unsent)
		comm->messages.first_unsent = m;
	if (m->offload)
		message_copy_begin(m);
}

int message_start_held(struct comm *comm)
{
	struct message *m;
	int moved = 0;

	while ((m = comm->messages.first_unsent) && !m->copying && !comm->error) {
		comm->messages.first_unsent = m->next;
		m->unsent = 0;
		message_start_send(m);
		moved = 1;
	}
	return moved;
}

struct recv message_recv(const struct comm *comm, const struct message_args *a)
{
	return (struct recv){
		.tag = comm_tag_loose(comm),
		.meta = {message_type(a),
			 a->tag == COLL_ANY_TAG ? MATCH_ANY_TAG : (uint32_t)a->tag},
		.len = a->count * coll_dtype_size(a->dtype),
		.peer = a->peer == COLL_ANY_SOURCE ? COLL_ANY_SOURCE
						   : comm->to_context_rank[a->peer],
		.loose = 1,
		.dst = a->buf,
	};
}

void message_start(struct message *m)
{
	struct context *context = m->comm->context;

	message_open(m);
	if (m->args.kind == COLL_KIND_SEND && (m->offload || m->comm->messages.first_unsent)) {
		message_hold_send(m);
	} else if (m->args.kind == COLL_KIND_SEND) {
		message_start_send(m);
	} else {
		m->u.in.recv = message_recv(m->comm, &m->args);
		m->u.in.received = message_received;
		if (m->offload)
			m->u.in.recv.dst = m->offload->memory;
		match_post(&traffic_of(context)->match, &m->u.in.recv);
		message_check_left(m);
	}
	context_progress(context);
	if (context->sleepers) /* they must arm their descriptors anew */
		context_wake(context);
}

/* ------------------------------------------------------------------- ending, probing -- */

int message_result(const struct message *m)
{
	const struct comm *comm = m->comm;

	if (!m->done)
		return COLL_IN_PROGRESS;
	if (!m->code)
		return COLL_SUCCESS;
	return error_set(m->code, "%s",
			 m->text       ? m->text
			 : comm->error ? comm_failure(comm)
				       : coll_error_string(m->code));
}

int message_probe(struct comm *comm, const struct message_args *args, coll_status_t *status)
{
	const struct recv recv = message_recv(comm, args);
	const struct unexpected *e = match_probe(&traffic_of(comm->context)->match, &recv);

	if (!e)
		return 0;
	status->source = comm->to_comm_rank[e->peer];
	status->tag = (int32_t)e->header.meta[1];
	status->bytes = e->header.len;
	status->dtype = e->header.len ? signature_dtype(e->header.meta) : COLL_DTYPE_NONE;
	return 1;
}

/* ------------------------------------------------------------ callbacks, limits -- */

int message_call_back(struct message *m, coll_request_fn fn, void *user)
{
	const int code = callback_append(&m->callbacks, fn, user);

	if (!code && m->done)
		callback_end(&m->callbacks, m->code);
	return code;
}

void message_set_limit(struct message *m, int64_t timeout_us)
{
	struct comm *comm = m->comm;

	if (m->done)
		return;
	if (!m->end_us) {
		comm->messages.looks++;
		comm->messages.limited++;
	}
	comm_set_busy(comm);
	m->timeout_us = timeout_us;
	m->end_us = clock_now_us() + timeout_us;
	if (m->end_us < comm->messages.next_limit_us)
		comm->messages.next_limit_us = m->end_us;
}
