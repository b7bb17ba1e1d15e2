/* SPDX-License-Identifier: BSD-3-Clause */
/* message_end.c - how messages outside the order of the operations end. */
#include "message/message.h"
#include "comm/call_log.h"
#include "comm/callback.h"
#include "compose/steps.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct message *message_of(const struct recv *recv)
{
	return (struct message *)((uintptr_t)recv - offsetof(struct message, u.in.recv));
}

/* ------------------------------------------------------------------------ ends -- */

void message_unref(struct message *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) > 1)
		return;
	message_unstage(m); /* it has not started */
	free(m->text);
	free(m);
}

static void message_unlink(struct message *m)
{
	struct comm *comm = m->comm;
	struct message_list *list =
		m->args.kind == COLL_KIND_SEND ? &comm->messages.sends : &comm->messages.recvs;

	*(m->prev ? &m->prev->next : &list->first) = m->next;
	*(m->next ? &m->next->prev : &list->last) = m->prev;
	list->count--;
	if (comm->messages.next_look == m)
		comm->messages.next_look = m->next;
	if (comm->messages.first_unsent == m)
		comm->messages.first_unsent = m->next;
	comm->messages.looks -= (m->args.kind == COLL_KIND_SEND) + (m->end_us != 0);
	comm->messages.limited -= m->end_us != 0;
	message_unstage(m);
}

/* The first text stays.  Without memory there is none. */
__attribute__((format(printf, 2, 0))) static void message_set_text(struct message *m,
								   const char *fmt, va_list ap)
{
	if (!m->text && vasprintf(&m->text, fmt, ap) < 0)
		m->text = NULL;
}

static void message_log(const struct message *m)
{
	struct comm *comm = m->comm;
	struct record record = {
		.meta = {(uint64_t)COLL_KIND_SEND | signature_dtype_bits(m->args.dtype)},
		.count = m->args.count,
		.issued_us = m->issued_us,
		.ended_us = comm->error ? 0 : context_now(comm->context),
		.seq_or_tag = (uint32_t)m->args.tag,
		.peer = m->args.peer,
		.kind = m->args.kind,
		.code = m->code};

	if (m->args.kind == COLL_KIND_RECV && m->status.source >= 0) {
		record.peer = m->status.source;
		record.seq_or_tag = (uint32_t)m->status.tag;
		record.count = m->status.bytes / coll_dtype_size(m->args.dtype);
	}
	call_log_add_message(comm, &record);
}

void message_end(struct message *m, int code, const char *fmt, ...)
{
	struct comm *comm = m->comm;
	va_list ap;

	va_start(ap, fmt);
	if (fmt)
		message_set_text(m, fmt, ap);
	va_end(ap);
	m->done = 1;
	m->code = m->status.error = code;
	if (m->args.kind == COLL_KIND_NONE)
		return;
	message_unlink(m);
	message_log(m);
	comm->steps++;
	comm->context->sleepers_have_news = 1;
	callback_end(&m->callbacks, code);
	message_unref(m);
}

void message_received(struct recv *recv)
{
	struct message *m = message_of(recv);
	struct comm *comm = m->comm;

	if (recv->status == COLL_ERR_MISMATCH) {
		message_end(m, COLL_ERR_MISMATCH, NULL); /* message_misfit has set the text */
		return;
	}
	if (recv->status) {
		steps_peer_failed(comm, comm->to_comm_rank[recv->peer], recv->status);
		return;
	}
	m->status = (coll_status_t){.source = comm->to_comm_rank[recv->peer],
				    .tag = (int32_t)recv->meta[1],
				    .bytes = recv->len,
				    .dtype = recv->len ? m->args.dtype : COLL_DTYPE_NONE};
	if (m->offload && recv->len)
		message_copy_begin(m);
	else
		message_end(m, COLL_SUCCESS, NULL);
}

__attribute__((format(printf, 2, 3))) static void message_note(struct message *m, const char *fmt,
							       ...)
{
	va_list ap;

	va_start(ap, fmt);
	message_set_text(m, fmt, ap);
	va_end(ap);
}

void message_misfit(const struct recv *recv, uint32_t peer, const coll_header_t *h)
{
	struct message *m = message_of(recv);
	const int dtype = signature_dtype(h->meta), source = m->comm->to_comm_rank[peer];
	const uint32_t tag = (uint32_t)h->meta[1];
	struct rank_name own, sender;
	char what[160];

	message_describe(m->comm, &m->args, what, sizeof(what));
	m->status = (coll_status_t){
		.source = source, .tag = (int32_t)tag, .bytes = h->len, .dtype = dtype};
	if (dtype != m->args.dtype)
		message_note(m, "%s: %s: %s sent %s with tag %u, but the types must be equal",
			     comm_own_name(m->comm, &own), what,
			     comm_rank_name(m->comm, source, &sender), coll_dtype_name(dtype), tag);
	else
		message_note(m,
			     "%s: %s: %s sent %llu bytes with tag %u, but the receive has "
			     "room for %llu: coll_probe tells the size of a message",
			     comm_own_name(m->comm, &own), what,
			     comm_rank_name(m->comm, source, &sender), (unsigned long long)h->len,
			     tag, (unsigned long long)recv->len);
}

/* Has every rank left that could send the message?  The own rank could, but the thread waits. */
static int message_has_left(const struct message *m)
{
	const struct comm *comm = m->comm;

	if (!comm->nleft || m->done || (m->args.kind != COLL_KIND_NONE && !message_is_posted(m)))
		return 0;
	return m->args.peer == COLL_ANY_SOURCE ? comm->nleft == comm->nranks - 1
					       : comm->peer_state[m->args.peer] == PEER_LEFT;
}

int message_check_left(struct message *m)
{
	const struct comm *comm = m->comm;
	struct rank_name name, own;
	char what[160];

	if (!message_has_left(m))
		return 0;
	message_describe(comm, &m->args, what, sizeof(what));
	comm_own_name(comm, &own);
	if (m->args.kind != COLL_KIND_NONE) /* a probe is in no list */
		steps_cancel_recv(comm->context, &m->u.in.recv);
	if (m->args.peer == COLL_ANY_SOURCE)
		message_end(m, COLL_ERR_PEER_LOST,
			    "all other ranks destroyed their communicators while %s waited in "
			    "%s",
			    own.text, what);
	else
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator while %s waited in %s",
			    comm_rank_name(comm, m->args.peer, &name), own.text, what);
	return 1;
}

void message_peer_left(struct comm *comm)
{
	struct message *next;

	for (struct message *m = comm->messages.recvs.first; m; m = next) {
		next = m->next;
		message_check_left(m);
	}
}

int message_cancel(struct message *m)
{
	struct context *context = m->comm->context;

	if (m->done || !message_is_posted(m))
		return error_set(COLL_ERR_INVALID_USAGE, "coll_request_cancel: %s",
				 m->done ? "the request is complete already"
				 : m->args.kind == COLL_KIND_SEND
					 ? "a send has started and cannot be cancelled"
					 : "a message for the receive is under way");
	steps_cancel_recv(context, &m->u.in.recv);
	message_end(m, COLL_ERR_ABORTED, "the program cancelled the receive");
	if (context->sleepers)
		context_wake(context);
	return COLL_SUCCESS;
}

/*
 * An endpoint without a function to cancel is closed: then the communicator fails, and ends its messages, within
 * the call that ends one of them.
 */
void message_end_all(struct comm *comm, int code)
{
	struct message *m = comm->messages.recvs.first ? comm->messages.recvs.first
						       : comm->messages.sends.first;
	struct rank_name name;
	char what[160];

	if (m) {
		message_describe(comm, &m->args, what, sizeof(what));
		log_info("%s ends messages that are not complete, the first of them %s",
			 comm_own_name(comm, &name), what);
	}
	while ((m = comm->messages.sends.first)) {
		message_copy_cancel(m);
		if (!m->unsent)
			steps_cancel_send(comm->context, &m->u.send);
		if (m == comm->messages.sends.first)
			message_end(m, code, NULL);
	}
	while ((m = comm->messages.recvs.first)) {
		message_copy_cancel(m);
		steps_cancel_recv(comm->context, &m->u.in.recv);
		if (m == comm->messages.recvs.first)
			message_end(m, code, NULL);
	}
}
