/* SPDX-License-Identifier: BSD-3-Clause */
/* native_submit.c - hands operations to a backend without a transport, and tracks their completion. */
#include "native/native_impl.h"
#include "comm/task.h"
#include "comm/comm_wait.h"
#include "comm/op.h"
#include "watch/report.h"
#include "watch/stall.h"
#include "transport/channel.h"
#include "base/error.h"

#include <stdio.h>

enum {
	NATIVE_AWAIT_MS = 200, /* wait for the control channel to name the cause of a failure */
	NATIVE_POLL_EACH = 256 /* operations after which a program that never waits polls */
};

void native_fail(struct comm *comm, int code, const coll_error_t *err)
{
	char behind[512] = "", text[ERROR_TEXT_SIZE];
	struct rank_name name;

	/* The backend may know a moment before the control channel that another rank has ended, but not why. */
	if (code == COLL_ERR_REMOTE || code == COLL_ERR_SYSTEM || code == COLL_ERR_PEER_LOST)
		channel_await(comm->context, NATIVE_AWAIT_MS);
	if (code == COLL_ERR_TIMEOUT)
		stall_name_behind(comm, behind, sizeof(behind));
	error_take(code, err);
	/* Another communicator of the context may fail now, and leave a text of its own. */
	snprintf(text, sizeof(text), "%s", error_text());
	context_check(comm->context);
	comm_fail(comm, 0, code, "%s: %s%s", comm_own_name(comm, &name), text, behind);
}

int native_refused(struct comm *comm, int code, const coll_error_t *err)
{
	if (!code || code == COLL_ERR_DEVICE || code == COLL_ERR_NO_MEMORY)
		return code ? error_take(code, err) : COLL_SUCCESS;
	native_fail(comm, code, err);
	return comm_error(comm);
}

int native_now(struct comm *comm, const struct call *call)
{
	struct signature signature;
	struct record record, *place;

	if (!comm->native || comm->queue.head || !call->slot ||
	    (comm->context->classify && !native_takes(comm, call)))
		return 0;
	signature = signature_of(comm, call);
	call_log_fill(&record, call, &signature);
	if (kind_is_collective(call->args.kind)) {
		record.seq_or_tag = comm->seq++;
		report_native_call(comm, &signature);
	}
	record.issued_us = context_now(comm->context);
	place = call_log_place(comm, comm_count(comm));
	*place = record;
	if (native_submit(comm, comm->issued, call->slot, &call->args))
		place->started_us = record.issued_us;
	return 1;
}

/*
 * 0: none was added, so completion is seen when the stream is empty or has passed a later marker; or the communicator has
 * failed, say because the last operation has not been put on the stream in time.
 */
static int native_add_marker(struct comm *comm)
{
	const coll_native_t *slots = native_slots(comm);
	struct native *n = comm->native;
	struct native_marker *marker = &n->marker[(n->first_marker + n->markers) % NATIVE_MARKERS];
	coll_error_t err;
	int code;

	error_clear(&err);
	n->marker_wanted = 0;
	if (!slots->event_record || n->markers == NATIVE_MARKERS || !native_busy(comm))
		return 0;
	if (!marker->event && slots->event_create(comm->context->ep, &marker->event, &err))
		return 0;
	code = slots->event_record(comm->context->ep, marker->event, NULL, &err);
	if (code) {
		(void)native_refused(comm, code, &err);
		return 0;
	}
	marker->number = n->submitted;
	n->markers++;
	return 1;
}

int native_join(struct comm *comm, void *later, void *earlier)
{
	const coll_native_t *slots = native_slots(comm);
	void *ep = comm->context->ep, *event = NULL;
	coll_error_t err = error_blank();
	int code = slots->event_create(ep, &event, &err);

	if (!code)
		code = slots->event_record(ep, event, earlier, &err);
	if (!code)
		code = slots->event_wait(ep, event, later, &err);
	if (event)
		slots->event_destroy(ep, event);
	return native_refused(comm, code, &err);
}

int native_take_place(struct comm *comm, void *stream)
{
	const coll_native_t *slots = native_slots(comm);
	coll_error_t err = error_blank();
	int code = slots->take_place ? slots->take_place(comm->context->ep, stream, &err) : 0;

	return native_refused(comm, code, &err);
}

int native_submit(struct comm *comm, uint64_t number, native_fn slot, const coll_args_t *args)
{
	struct native *n = comm->native;
	coll_error_t err;
	int code;

	error_clear(&err);
	if (n->marker_wanted && !comm->deferred) {
		if (n->markers == NATIVE_MARKERS)
			native_progress(comm);
		native_add_marker(comm);
	}
	if (comm->error)
		return 0;
	code = slot(comm->context->ep, args, &err);
	if (code) {
		native_fail(comm, code, &err);
		return 0;
	}
	n->submitted = number;
	n->last.kind = args->kind;
	n->last.dtype = args->dtype;
	n->last.count = args->count;
	if (++n->unpolled >= NATIVE_POLL_EACH && !comm->deferred) {
		native_progress(comm);
		n->marker_wanted = native_busy(comm);
	}
	return 1;
}

/* Notes the markers that the stream has passed. */
static void native_poll_markers(struct comm *comm)
{
	struct native *n = comm->native;
	coll_error_t err;

	error_clear(&err);
	while (n->markers) {
		const struct native_marker *marker = &n->marker[n->first_marker];

		if (native_slots(comm)->event_query(comm->context->ep, marker->event, &err) ||
		    native_may_be_aborted(comm))
			return; /* not complete; async_error reports a failure */
		comm->finished = marker->number;
		n->first_marker = (n->first_marker + 1) % NATIVE_MARKERS;
		n->markers--;
	}
}

int native_progress(struct comm *comm)
{
	const coll_native_t *slots = native_slots(comm);
	struct native *n = comm->native;
	uint64_t before = comm->finished;
	coll_error_t err;
	int code;

	if (!native_busy(comm) || comm->deferred)
		return 0;
	error_clear(&err);
	n->unpolled = 0;
	code = slots->query(comm->context->ep, &err);
	if (!code) {
		comm->finished = n->submitted;
		n->markers = 0;
	} else if (code == COLL_IN_PROGRESS) {
		code = slots->async_error ? slots->async_error(comm->context->ep, &err) : 0;
		native_poll_markers(comm);
	}
	if (code)
		native_fail(comm, code, &err);
	if (comm->finished == before)
		return 0;
	call_log_end_all(comm, before);
	task_check(comm);
	comm->context->sleepers_have_news = 1;
	return 1;
}

int native_mark(struct comm *comm)
{
	if (!comm->native || comm->deferred || !native_slots(comm)->event_record)
		return COLL_SUCCESS;
	if (native_busy(comm) && comm->native->markers == NATIVE_MARKERS)
		native_progress(comm);
	if (!native_busy(comm) || native_add_marker(comm))
		return comm->error ? comm_error(comm) : COLL_SUCCESS;
	return comm_wait(comm, comm->issued);
}

int native_mark_wanted(struct comm *comm)
{
	return comm->native && comm->native->marker_wanted ? native_mark(comm) : COLL_SUCCESS;
}

/* -------------------------------------------------------------------- the engine -- */

static enum engine_start native_start(struct op *op)
{
	coll_args_t args = op->call.args;

	if (op->call.redop.made)
		args.op = op->call.redop.native;
	if (native_submit(op->comm, op->number, op->call.slot, &args))
		op_begin(op, OP_SUBMITTED);
	return ENGINE_STARTED;
}

static int native_move(struct comm *comm)
{
	const int moved = native_progress(comm);

	if (comm->nleft && !comm->error)
		stall_check_left_native(comm);
	return moved;
}

void native_check(struct comm *comm)
{
	const coll_native_t *native = comm_native(comm);
	coll_error_t err = error_blank();
	int code;

	if (!native || !native->async_error || !comm->context->ep || comm->error)
		return;
	code = native->async_error(comm->context->ep, &err);
	if (code)
		native_fail(comm, code, &err);
}

void native_group_begin(struct comm *comm)
{
	const coll_native_t *native = comm_native(comm);
	coll_error_t err = error_blank();
	int code;

	if (!native->group_begin || !comm->context->ep || comm->error)
		return;
	code = native->group_begin(comm->context->ep, &err);
	if (code)
		native_fail(comm, code, &err);
	else
		comm->native_groups++;
}

/* Ends a group also after a failure: the group belongs to the thread, not to the endpoint. */
void native_group_end(struct comm *comm)
{
	coll_error_t err = error_blank();
	int code;

	if (!comm->native_groups || !comm->context->ep)
		return;
	code = comm_native(comm)->group_end(comm->context->ep, &err);
	comm->native_groups--;
	if (code && !comm->error)
		native_fail(comm, code, &err);
}

const struct engine native_engine = {
	.now = native_now,
	.takes = native_takes,
	.start = native_start,
	.progress = native_move,
	.busy = native_busy,
	.describe = native_describe,
	.mark = native_want_marker,
	.abort = native_abort,
	.check = native_check,
	.group_begin = native_group_begin,
	.group_end = native_group_end,
	.derive = &derive_native,
	.keeps_order = 1,
};
