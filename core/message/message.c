/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages outside the order of the operations.  The transport reports a receive, but of a send it only sets
 * the status: sends must be looked at.
 */
#include "message/message.h"
#include "comm/observed.h"
#include "compose/composed.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/lane_log.h"
#include "comm/call_log.h"
#include "comm/comm_wait.h"
#include "comm/counts.h"
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
		offload_give_back(&m->task.lane->composed->offloads, m->offload);
	m->offload = NULL;
}

/* Gives a message host memory, before it starts, and warns. */
static int message_stage(struct message *m)
{
	struct lane *lane = m->task.lane;
	const struct message_args *a = &m->args;
	const size_t bytes = a->count * coll_dtype_size(a->dtype);
	const int way = a->kind == COLL_KIND_SEND ? COPY_IN : COPY_OUT;
	int code;

	m->offload = offload_take(&lane->composed->offloads, bytes, m, 0);
	if (!m->offload || !offload_pin_near(m->offload, a->buf))
		code = error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 way == COPY_IN ? "coll_isend" : "coll_irecv", bytes);
	else
		code = copies_find(&lane->traffic->copies, way, a->buf,
				   &m->offload->way[way].stream);
	if (code)
		message_unstage(m);
	else
		staging_warn_message(lane, a->kind, a->site, bytes);
	return code;
}

/* ------------------------------------------------------------- observers -- */

/* Fills in the event of a message.  A receive that has its message tells the source, tag and size of that message. */
static void message_event(coll_observed_t *event, const struct message *m, uint32_t what, int phase)
{
	const int got = m->args.kind == COLL_KIND_RECV && m->status.source >= 0;

	observed_event(event, m->task.lane, what, phase);
	event->kind = m->args.kind;
	event->number = m->number;
	event->dtype = m->args.dtype;
	event->peer = got ? m->status.source : m->args.peer;
	event->tag = got ? m->status.tag : m->args.tag;
	event->bytes = got ? m->status.bytes : m->args.count * coll_dtype_size(m->args.dtype);
	event->count = event->bytes / coll_dtype_size(m->args.dtype);
}

OBSERVED_APART static void message_tell(struct message *m, int phase, int code)
{
	coll_observed_t event;

	if (phase == COLL_OBSERVED_ISSUED)
		m->number = ++m->task.lane->messages.observed;
	message_event(&event, m, COLL_OBSERVE_MESSAGE, phase);
	event.code = code;
	if (phase == COLL_OBSERVED_ISSUED)
		m->issued_ns = event.time_ns;
	else
		event.issued_ns = m->issued_ns;
	observed_tell(m->task.lane, &event);
}

OBSERVED_APART static void message_tell_copy(const struct message *m, int phase, int code)
{
	coll_observed_t event;

	message_event(&event, m, COLL_OBSERVE_COPY, phase);
	event.step = m->args.kind == COLL_KIND_RECV;
	event.index = -1;
	event.code = code;
	observed_tell(m->task.lane, &event);
}

/* ---------------------------------------------------------------- ending -- */

static void message_unlink(struct message *m)
{
	struct lane *lane = m->task.lane;
	struct message_list *list =
		m->args.kind == COLL_KIND_SEND ? &lane->messages.sends : &lane->messages.recvs;

	*(m->prev ? &m->prev->next : &list->first) = m->next;
	*(m->next ? &m->next->prev : &list->last) = m->prev;
	list->count--;
	if (lane->messages.next_look == m)
		lane->messages.next_look = m->next;
	if (lane->messages.first_unsent == m)
		lane->messages.first_unsent = m->next;
	lane->messages.looks -= m->args.kind == COLL_KIND_SEND;
	message_unstage(m);
}

static void message_log(const struct message *m, int code)
{
	struct lane *lane = m->task.lane;
	struct record record = message_record(&m->args);

	record.issued_us = m->issued_us;
	record.ended_us = lane->error ? 0 : context_now(lane->context);
	record.code = code;
	if (m->args.kind == COLL_KIND_RECV && m->status.source >= 0) {
		record.peer = m->status.source;
		record.seq_or_tag = (uint32_t)m->status.tag;
		record.count = m->status.bytes / coll_dtype_size(m->args.dtype);
	}
	call_log_add_message(lane, &record, m->counted);
}

/* The message is over.  With an error the communicator's failure is the reason, unless the message has a text. */
static void message_finish(struct message *m, int code)
{
	struct lane *lane = m->task.lane;

	m->status.error = code;
	if (m->args.kind != COLL_KIND_NONE) {
		message_unlink(m);
		message_log(m, code);
		if (LANE_OBSERVED(lane, COLL_OBSERVE_MESSAGE))
			message_tell(m, COLL_OBSERVED_END, code);
		lane->steps++;
		lane->context->sleepers_have_news = 1;
	}
	task_end(&m->task, code);
	if (m->args.kind != COLL_KIND_NONE)
		task_unref(&m->task);
}

/* Ends the message with an error of its own. */
__attribute__((format(printf, 3, 4))) static void message_end(struct message *m, int code,
							      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	task_set_text_va(&m->task, fmt, ap);
	va_end(ap);
	message_finish(m, code);
}

/* ---------------------------------------------------------------- copies -- */

static void message_copy_end(struct message *m)
{
	m->copying = 0;
	m->task.lane->messages.copying--;
	m->task.lane->messages.looks--;
}

/* A send whose copy has ended waits for its turn to start; a receive is over. */
static void message_copied(struct copy *copy, int code)
{
	struct message *m = copy->owner;
	struct rank_name name;

	message_copy_end(m);
	if (LANE_OBSERVED(m->task.lane, COLL_OBSERVE_COPY))
		message_tell_copy(m, COLL_OBSERVED_END, code == COPY_LOST ? COLL_ERR_DEVICE : code);
	m->offload->lost = code == COPY_LOST;
	if (!code && m->task.lane->counts)
		m->task.lane->counts->staged_bytes += m->offload->whole.n;
	if (code)
		message_end(m, code == COPY_LOST ? COLL_ERR_DEVICE : code, "%s: %s",
			    comm_own_name(m->task.lane, &name), error_text());
	else if (m->args.kind == COLL_KIND_RECV)
		message_finish(m, COLL_SUCCESS);
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
	if (LANE_OBSERVED(m->task.lane, COLL_OBSERVE_COPY))
		message_tell_copy(m, COLL_OBSERVED_BEGIN, COLL_SUCCESS);
	copies_add(&m->task.lane->traffic->copies, &o->way[in ? COPY_IN : COPY_OUT], &o->whole);
	m->copying = 1;
	m->task.lane->messages.copying++;
	m->task.lane->messages.looks++;
	lane_set_busy(m->task.lane);
}

/* Waits, for a bounded time, until the message's copy is not under way. */
static void message_copy_cancel(struct message *m)
{
	struct lane *lane = m->task.lane;

	if (!m->copying)
		return;
	m->offload->lost =
		copies_cancel(&lane->traffic->copies, m->offload->way, m, lane->comm->rank) != 0;
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
	struct lane *lane = m->task.lane;

	if (recv->status == COLL_ERR_MISMATCH) {
		message_finish(m, COLL_ERR_MISMATCH); /* message_misfit has set the text */
		return;
	}
	if (recv->status) {
		steps_peer_failed(lane, lane->to_comm_rank[recv->peer], recv->status);
		return;
	}
	m->status = (coll_status_t){.source = lane->to_comm_rank[recv->peer],
				    .tag = (int32_t)recv->meta[1],
				    .bytes = recv->len,
				    .dtype = recv->len ? m->args.dtype : COLL_DTYPE_NONE};
	if (m->offload && recv->len)
		message_copy_begin(m);
	else
		message_finish(m, COLL_SUCCESS);
}

void message_misfit(const struct recv *recv, uint32_t peer, const coll_header_t *h)
{
	struct message *m = message_of(recv);
	const int dtype = signature_dtype(h->meta), source = m->task.lane->to_comm_rank[peer];
	const uint32_t tag = (uint32_t)h->meta[1];
	struct rank_name own, sender;
	char what[160];

	message_describe(m->task.lane, &m->args, what, sizeof(what));
	m->status = (coll_status_t){
		.source = source, .tag = (int32_t)tag, .bytes = h->len, .dtype = dtype};
	if (dtype != m->args.dtype)
		task_set_text(
			&m->task, "%s: %s: %s sent %s with tag %u, but the types must be equal",
			comm_own_name(m->task.lane, &own), what,
			comm_rank_name(m->task.lane, source, &sender), coll_dtype_name(dtype), tag);
	else
		task_set_text(&m->task,
			      "%s: %s: %s sent %llu bytes with tag %u, but the receive has "
			      "room for %llu: coll_probe tells the size of a message",
			      comm_own_name(m->task.lane, &own), what,
			      comm_rank_name(m->task.lane, source, &sender),
			      (unsigned long long)h->len, tag, (unsigned long long)recv->len);
}

/* ------------------------------------------------------ ranks that leave -- */

/* Has every rank left that could send the message?  The own rank could, but the thread waits. */
static int message_has_left(const struct message *m)
{
	const struct lane *lane = m->task.lane;

	if (!lane->nleft || m->task.done ||
	    (m->args.kind != COLL_KIND_NONE && !message_is_posted(m)))
		return 0;
	return m->args.peer == COLL_ANY_SOURCE ? lane->nleft == lane->comm->nranks - 1
					       : lane->peer_state[m->args.peer] == PEER_LEFT;
}

/* Ends a receive that no rank can meet any more.  Returns 1 if it did. */
static int message_check_left(struct message *m)
{
	const struct lane *lane = m->task.lane;
	struct rank_name name, own;
	char what[160];

	if (!message_has_left(m))
		return 0;
	message_describe(lane, &m->args, what, sizeof(what));
	comm_own_name(lane, &own);
	if (m->args.kind != COLL_KIND_NONE) /* a probe is in no list */
		steps_cancel_recv(lane->context, &m->u.in.recv);
	if (m->args.peer == COLL_ANY_SOURCE)
		message_end(m, COLL_ERR_PEER_LOST,
			    "all other ranks destroyed their communicators while %s waited in "
			    "%s",
			    own.text, what);
	else
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator while %s waited in %s",
			    comm_rank_name(lane, m->args.peer, &name), own.text, what);
	return 1;
}

void message_peer_left(struct lane *lane)
{
	struct message *next;

	for (struct message *m = lane->messages.recvs.first; m; m = next) {
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
	struct lane *lane = m->task.lane;
	const int sends = m->args.kind == COLL_KIND_SEND;
	struct message_list *list = sends ? &lane->messages.sends : &lane->messages.recvs;

	atomic_fetch_add(&m->task.refs, 1);
	m->issued_us = context_now(lane->context);
	if (lane->counts)
		m->counted = stamp_now();
	m->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = m;
	list->last = m;
	list->count++;
	if (LANE_OBSERVED(lane, COLL_OBSERVE_MESSAGE | COLL_OBSERVE_COPY))
		message_tell(m, COLL_OBSERVED_ISSUED, COLL_SUCCESS);
	if (!sends)
		return;
	lane->messages.looks++;
	lane_set_busy(lane);
}

static void message_start_send(struct message *m)
{
	const struct message_args *a = &m->args;
	struct lane *lane = m->task.lane;
	struct context *context = lane->context;
	coll_send_t *send = &m->u.send;
	coll_error_t err;
	struct rank_name name, own;
	int code;

	error_clear(&err);
	*send = (coll_send_t){
		.header = {.tag = tag_unordered(lane),
			   .meta = {message_type(a), (uint32_t)a->tag},
			   .len = a->count * coll_dtype_size(a->dtype)},
		.buf = m->offload ? m->offload->memory
		       : a->count ? a->buf
				  : NULL,
		.peer = (uint32_t)lane->to_context_rank[a->peer],
		.status = COLL_IN_PROGRESS,
		.memory = COLL_MEM_HOST,
	};
	if (lane->peer_state[a->peer] == PEER_LEFT) {
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator before %s sent to it",
			    comm_rank_name(lane, a->peer, &name), comm_own_name(lane, &own));
		return;
	}
	code = context->plugin->backend.transport->send(context->ep, send, &err);
	if (code)
		message_end(m, error_take(code, &err), "%s cannot send to %s: %s",
			    comm_own_name(lane, &own), comm_rank_name(lane, a->peer, &name),
			    err.text[0] ? err.text : coll_error_string(code));
}

/* A send whose bytes are copied defers the sends behind it: messages keep the order of the calls. */
static void message_defer_send(struct message *m)
{
	struct lane *lane = m->task.lane;

	m->u.send.status = COLL_IN_PROGRESS;
	m->unsent = 1;
	if (!lane->messages.first_unsent)
		lane->messages.first_unsent = m;
	if (m->offload)
		message_copy_begin(m);
}

/* Starts the deferred sends that wait for no copy any more.  Returns 1 if there were any. */
static int message_start_deferred(struct lane *lane)
{
	struct message *m;
	int moved = 0;

	while ((m = lane->messages.first_unsent) && !m->copying && !lane->error) {
		lane->messages.first_unsent = m->next;
		m->unsent = 0;
		message_start_send(m);
		moved = 1;
	}
	return moved;
}

/* The receive of a coll_irecv or coll_probe with these arguments. */
static struct recv message_recv(const struct lane *lane, const struct message_args *a)
{
	return (struct recv){
		.tag = tag_unordered(lane),
		.meta = {message_type(a),
			 a->tag == COLL_ANY_TAG ? MATCH_ANY_TAG : (uint32_t)a->tag},
		.len = a->count * coll_dtype_size(a->dtype),
		.peer = a->peer == COLL_ANY_SOURCE ? COLL_ANY_SOURCE
						   : lane->to_context_rank[a->peer],
		.unordered = 1,
		.dst = a->buf,
	};
}

void message_start(struct message *m)
{
	struct context *context = m->task.lane->context;

	message_open(m);
	if (m->args.kind == COLL_KIND_SEND && (m->offload || m->task.lane->messages.first_unsent)) {
		message_defer_send(m);
	} else if (m->args.kind == COLL_KIND_SEND) {
		message_start_send(m);
	} else {
		m->u.in.recv = message_recv(m->task.lane, &m->args);
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
	struct context *context = m->task.lane->context;

	if (m->task.done || !message_is_posted(m))
		return error_set(COLL_ERR_INVALID_USAGE, "coll_request_cancel: %s",
				 m->task.done ? "the request is complete already"
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
 * the call that ends a message.
 */
void message_end_all(struct lane *lane, int code)
{
	struct message *m = lane->messages.recvs.first ? lane->messages.recvs.first
						       : lane->messages.sends.first;
	struct rank_name name;
	char what[160];

	if (m) {
		message_describe(lane, &m->args, what, sizeof(what));
		lane_log(lane, COLL_LOG_INFO,
			 "%s ends messages that are not complete, the first of them %s",
			 comm_own_name(lane, &name), what);
	}
	while ((m = lane->messages.sends.first)) {
		message_copy_cancel(m);
		if (!m->unsent)
			steps_cancel_send(lane->context, &m->u.send);
		if (m == lane->messages.sends.first)
			message_finish(m, code);
	}
	while ((m = lane->messages.recvs.first)) {
		message_copy_cancel(m);
		steps_cancel_recv(lane->context, &m->u.in.recv);
		if (m == lane->messages.recvs.first)
			message_finish(m, code);
	}
}

/* A receive ends alone while no message has come for it.  The bytes of other messages cannot be taken back. */
static void message_late(struct task *task)
{
	struct message *m = message_of_task(task);
	struct lane *lane = task->lane;
	const double seconds = (double)task->timeout_us / 1e6;
	struct rank_name own;
	char what[160];

	comm_own_name(lane, &own);
	message_describe(lane, &m->args, what, sizeof(what));
	if (message_is_posted(m)) {
		steps_cancel_recv(lane->context, &m->u.in.recv);
		message_end(m, COLL_ERR_TIMEOUT,
			    "%s: %s timed out: no message has come %.3g s after the program "
			    "limited its time",
			    own.text, what, seconds);
	} else {
		comm_fail(lane, 0, COLL_ERR_TIMEOUT,
			  "%s: %s timed out: its bytes are still under way %.3g s after the "
			  "program limited its time",
			  own.text, what, seconds);
	}
}

/* --------------------------------------------------------------- looking -- */

/*
 * A call of message_progress looks at so many sends at most, since a program may have 10,000 open sends and call for
 * each.  A thread looks at its own send and, before it sleeps, at all sends.
 */
enum { MESSAGE_LOOKS = 64 };

/* Ends the send if it is complete.  Returns 1 if it is. */
static int message_check_send(struct message *m)
{
	struct lane *lane = m->task.lane;
	const int status = m->u.send.status;
	struct rank_name name, own;

	if (m->unsent || status == COLL_IN_PROGRESS)
		return 0;
	if (!status) {
		m->status =
			(coll_status_t){.source = lane->comm->rank,
					.tag = m->args.tag,
					.bytes = m->u.send.header.len,
					.dtype = m->args.count ? m->args.dtype : COLL_DTYPE_NONE};
		message_finish(m, COLL_SUCCESS);
	} else if (lane->peer_state[m->args.peer] == PEER_LEFT) {
		message_end(m, COLL_ERR_PEER_LOST,
			    "%s destroyed its communicator before %s could send to it",
			    comm_rank_name(lane, m->args.peer, &name), comm_own_name(lane, &own));
	} else {
		steps_peer_failed(lane, m->args.peer, status);
	}
	return 1;
}

/* Looks at `n` sends from next_look on, at each once.  Returns 1 if a send is complete. */
static int message_look(struct lane *lane, int n)
{
	int moved = 0;

	for (n = n < lane->messages.sends.count ? n : lane->messages.sends.count;
	     n > 0 && !lane->error; n--) {
		struct message *m = lane->messages.next_look ? lane->messages.next_look
							     : lane->messages.sends.first;

		if (!m)
			break;
		lane->messages.next_look = m->next;
		moved |= message_check_send(m);
	}
	return moved;
}

int message_look_at_all(struct lane *lane)
{
	return lane->messages.sends.count > MESSAGE_LOOKS &&
	       message_look(lane, lane->messages.sends.count);
}

/* The thread that finds its own send complete may be the last in a call: it wakes the threads that wait for the send too. */
static void message_look_at_one(struct task *task)
{
	struct message *m = message_of_task(task);
	struct lane *lane = task->lane;

	if (m->args.kind == COLL_KIND_SEND && !lane->error && message_check_send(m) &&
	    lane->context->sleepers)
		context_wake(lane->context);
}

int message_progress(struct lane *lane)
{
	int moved = lane->messages.copying ? copies_progress(&lane->traffic->copies) : 0;

	if (lane->messages.first_unsent)
		moved |= message_start_deferred(lane);
	return moved | message_look(lane, MESSAGE_LOOKS);
}

/* ---------------------------------------------------------------- making -- */

static void message_describe_task(const struct task *task, char *text, size_t size)
{
	const struct message *m = (const struct message *)task;

	message_describe(task->lane, &m->args, text, size);
}

static int message_mark_awaited(const struct task *task, uint8_t *from)
{
	const struct message *m = (const struct message *)task;

	if (m->args.peer == COLL_ANY_SOURCE)
		return 0;
	from[m->args.peer] = 1;
	return 1;
}

/* The last reference has gone; a message that has not started has its buffer yet. */
static void message_close(struct task *task)
{
	message_unstage(message_of_task(task));
}

const struct task_kind message_kind = {
	.look = message_look_at_one,
	.late = message_late,
	.close = message_close,
	.describe = message_describe_task,
	.awaits = message_mark_awaited,
};

int message_new(struct lane *lane, const struct message_args *args, struct message **out)
{
	struct message *m = calloc(1, sizeof(*m));
	int code;

	*out = m;
	if (!m)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a message");
	task_init(&m->task, &message_kind, lane);
	m->task.row = counts_message_row(args->kind);
	m->args = *args;
	m->status = (coll_status_t){
		.source = -1, .tag = -1, .error = COLL_IN_PROGRESS, .dtype = COLL_DTYPE_NONE};
	code = args->staged ? message_stage(m) : COLL_SUCCESS;
	if (!code)
		return COLL_SUCCESS;
	task_unref(&m->task);
	*out = NULL;
	return code;
}

/* ------------------------------------------------------ waiting, probing -- */

int message_probe(struct lane *lane, const struct message_args *args, coll_status_t *status)
{
	const struct recv recv = message_recv(lane, args);
	const struct unexpected *e = match_probe(&lane->traffic->match, &recv);

	if (!e)
		return 0;
	status->source = lane->to_comm_rank[e->peer];
	status->tag = (int32_t)e->header.meta[1];
	status->bytes = e->header.len;
	status->dtype = e->header.len ? signature_dtype(e->header.meta) : COLL_DTYPE_NONE;
	return 1;
}

static int message_probed(void *arg)
{
	struct message *m = arg;

	return task_is_over(&m->task) || message_probe(m->task.lane, &m->args, &m->status) ||
	       message_check_left(m);
}

/* On the heap: other threads look at it, also after this one has left the library by a jump. */
int message_probe_wait(struct lane *lane, const struct message_args *args, coll_status_t *status)
{
	struct message *m = calloc(1, sizeof(*m));
	const struct comm_wait wait = {.lane = lane, .task = &m->task};
	int code;

	if (!m)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a coll_probe");
	task_init(&m->task, &message_kind, lane);
	m->args = *args;
	m->u.in.recv = message_recv(lane, args);
	m->u.in.recv.state = RECV_POSTED; /* for the descriptions */
	lane->messages.probing = m;
	(void)comm_wait_until(&wait, message_probed, m);
	if (lane->messages.probing == m)
		lane->messages.probing = NULL;
	lane_check_aborted(lane, UINT64_MAX);
	lane_flush(lane);
	code = m->task.done ? task_result(&m->task) : comm_error(lane);
	if (!code)
		*status = m->status;
	task_unref(&m->task);
	return code;
}
