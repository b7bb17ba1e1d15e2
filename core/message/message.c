/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages outside the order of the operations.  The transport reports a receive, but of a send it only sets
 * the status: sends must be looked at.
 */
#include "message/message.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/call_log.h"
#include "comm/callback.h"
#include "comm/comm_wait.h"
#include "compose/staging.h"
#include "compose/steps.h"
#include "transport/traffic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------- device buffers -- */

/* The message is over, or does not start. */
static void message_unstage(struct message *m)
{
	if (m->offload)
		offload_give_back(&m->comm->offloads, m->offload);
	m->offload = NULL;
}

/* Gives a message host memory, before it starts, and warns. */
static int message_stage(struct message *m)
{
	struct comm *comm = m->comm;
	const struct message_args *a = &m->args;
	const size_t bytes = a->count * coll_dtype_size(a->dtype);
	const int way = a->kind == COLL_KIND_SEND ? COPY_IN : COPY_OUT;
	int code;

	m->offload = offload_take(&comm->offloads, bytes, m, 0);
	if (!m->offload || !offload_pin_near(m->offload, a->buf))
		code = error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 way == COPY_IN ? "coll_isend" : "coll_irecv", bytes);
	else
		code = copies_find(&traffic_of(comm->context)->copies, way, a->buf,
				   &m->offload->way[way].stream);
	if (code)
		message_unstage(m);
	else
		staging_warn_message(comm, a->kind, a->site, bytes);
	return code;
}

/* ---------------------------------------------------------------- making -- */

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

void message_unref(struct message *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) > 1)
		return;
	message_unstage(m); /* it has not started */
	free(m->text);
	free(m);
}

/* ---------------------------------------------------------------- ending -- */

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

/* The message is over.  fmt NULL: the communicator's failure is the reason. */
__attribute__((format(printf, 3, 4))) static void message_end(struct message *m, int code,
							      const char *fmt, ...)
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

/* ---------------------------------------------------------------- copies -- */

static void message_copy_end(struct message *m)
{
	m->copying = 0;
	m->comm->messages.copying--;
	m->comm->messages.looks--;
}

/* A send whose copy has ended waits for its turn to start; a receive is over. */
static void message_copied(struct copy *copy, int code)
{
	struct message *m = copy->owner;
	struct rank_name name;

	message_copy_end(m);
	m->offload->lost = code == COPY_LOST;
	if (code)
		message_end(m, code == COPY_LOST ? COLL_ERR_DEVICE : code, "%s: %s",
			    comm_own_name(m->comm, &name), error_text());
	else if (m->args.kind == COLL_KIND_RECV)
		message_end(m, COLL_SUCCESS, NULL);
}

/* Begins the copy of a send's bytes to host memory, or of the bytes that a receive has got from there. */
static void message_copy_begin(struct message *m)
{
	const int in = m->args.kind == COLL_KIND_SEND;
	struct offload *o = m->offload;

	o->whole = (struct copy){.ended = message_copied,
				 .owner = m,
				 .dst = in ? o->memory : m->args.buf,
				 .src = in ? m->args.buf : o->memory,
				 .n = in ? m->args.count * coll_dtype_size(m->args.dtype)
					 : (size_t)m->status.bytes};
	copies_add(&traffic_of(m->comm->context)->copies, &o->way[in ? COPY_IN : COPY_OUT],
		   &o->whole);
	m->copying = 1;
	m->comm->messages.copying++;
	m->comm->messages.looks++;
	comm_set_busy(m->comm);
}

/* Waits, for a bounded time, until the message's copy is not under way. */
static void message_copy_cancel(struct message *m)
{
	struct comm *comm = m->comm;

	if (!m->copying)
		return;
	m->offload->lost = copies_cancel(&traffic_of(comm->context)->copies, m->offload->way, m,
					 comm->rank) != 0;
	message_copy_end(m);
}

/* -------------------------------------------------------------- arriving -- */

static struct message *message_of(const struct recv *recv)
{
	return (struct message *)((uintptr_t)recv - offsetof(struct message, u.in.recv));
}

static void message_received(struct recv *recv)
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

/* ------------------------------------------------------ ranks that leave -- */

/* Has every rank left that could send the message?  The own rank could, but the thread waits. */
static int message_has_left(const struct message *m)
{
	const struct comm *comm = m->comm;

	if (!comm->nleft || m->done || (m->args.kind != COLL_KIND_NONE && !message_is_posted(m)))
		return 0;
	return m->args.peer == COLL_ANY_SOURCE ? comm->nleft == comm->nranks - 1
					       : comm->peer_state[m->args.peer] == PEER_LEFT;
}

/* Ends a receive that no rank can meet any more: 1 if it did. */
static int message_check_left(struct message *m)
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

/* -------------------------------------------------------------- starting -- */

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

/* Starts the sends that no copy holds any more: 1 if any. */
static int message_start_held(struct comm *comm)
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

/* The receive of a coll_irecv or coll_probe with these arguments. */
static struct recv message_recv(const struct comm *comm, const struct message_args *a)
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

/* ---------------------------------------------------------- ending early -- */

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

/* --------------------------------------------------------------- results -- */

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

int message_call_back(struct message *m, coll_request_fn fn, void *user)
{
	const int code = callback_append(&m->callbacks, fn, user);

	if (!code && m->done)
		callback_end(&m->callbacks, m->code);
	return code;
}

/* ---------------------------------------------------------------- limits -- */

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

/* --------------------------------------------------------------- looking -- */

/*
 * A call of message_progress looks at so many sends at most, since a program may have 10,000 of them open and call for
 * each.  A thread looks at its own send and, before it sleeps, at all sends.
 */
enum { MESSAGE_LOOKS = 64 };

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

/* ------------------------------------------------------ waiting, probing -- */

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

static int message_is_over(void *arg)
{
	struct message *m = arg;

	return message_is_done(m) || m->comm->error || atomic_load(&m->comm->aborted);
}

int message_wait_or_leave(struct message *m, void *handle)
{
	const struct comm_wait wait = {
		.comm = m->comm, .message = m, .leaves = 1, .handle = handle};

	if (!m->done && comm_wait_until(&wait, message_is_over, m))
		return CONTEXT_LOST;
	if (!m->done)
		comm_check_aborted(m->comm, UINT64_MAX);
	if (comm_flush_or_leave(m->comm))
		return CONTEXT_LOST;
	return m->done ? message_result(m) : comm_error(m->comm);
}

static int message_probed(void *arg)
{
	struct message *m = arg;

	return message_is_over(arg) || message_probe(m->comm, &m->args, &m->status) ||
	       message_check_left(m);
}

/* On the heap: other threads look at it, also after this one has left the library by a jump. */
int message_probe_wait(struct comm *comm, const struct message_args *args, coll_status_t *status)
{
	struct message *m = calloc(1, sizeof(*m));
	const struct comm_wait wait = {.comm = comm, .message = m};
	int code;

	if (!m)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a coll_probe");
	m->comm = comm;
	m->args = *args;
	m->u.in.recv = message_recv(comm, args);
	m->u.in.recv.state = RECV_POSTED; /* for the descriptions */
	comm->messages.probing = m;
	(void)comm_wait_until(&wait, message_probed, m);
	if (comm->messages.probing == m)
		comm->messages.probing = NULL;
	comm_check_aborted(comm, UINT64_MAX);
	comm_flush(comm);
	code = m->done ? message_result(m) : comm_error(comm);
	if (!code)
		*status = m->status;
	free(m->text);
	free(m);
	return code;
}
