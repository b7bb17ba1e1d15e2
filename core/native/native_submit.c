/* SPDX-License-Identifier: BSD-3-Clause */
/* native_submit.c - hands operations to a backend without a transport, and tracks their completion. */
#include "native/native_impl.h"
#include "comm/task.h"
#include "comm/comm_wait.h"
#include "comm/op.h"
#include "comm/span.h"
#include "watch/report.h"
#include "watch/stall.h"
#include "transport/channel.h"
#include "base/error.h"

#include <stdio.h>

enum { NATIVE_AWAIT_MS = 200 /* wait for the control channel to name the cause of a failure */ };

void native_fail(struct lane *lane, int code, const coll_error_t *err)
{
	char behind[512] = "", text[ERROR_TEXT_SIZE];
	struct rank_name name;

	/* The backend may know a moment before the control channel that another rank has ended, but not why. */
	if (code == COLL_ERR_REMOTE || code == COLL_ERR_SYSTEM || code == COLL_ERR_PEER_LOST)
		channel_await(lane->context, NATIVE_AWAIT_MS);
	channel_report_lost(lane->context);
	if (code == COLL_ERR_TIMEOUT)
		stall_name_behind(lane, behind, sizeof(behind));
	error_take(code, err);
	/* Another communicator of the context may fail now, and leave a text of its own. */
	snprintf(text, sizeof(text), "%s", error_text());
	context_check(lane->context);
	comm_fail(lane, 0, code, "%s: %s%s", comm_own_name(lane, &name), text, behind);
}

int native_refused(struct lane *lane, int code, const coll_error_t *err)
{
	if (!code || code == COLL_ERR_DEVICE || code == COLL_ERR_NO_MEMORY)
		return code ? error_take(code, err) : COLL_SUCCESS;
	native_fail(lane, code, err);
	return comm_error(lane);
}

/*
 * 0: none was added, so completion is seen when the stream is empty or has passed a later marker; or the communicator has
 * failed, say because the last operation has not been put on the stream in time.
 */
static int native_add_marker(struct lane *lane)
{
	const coll_native_t *slots = native_slots(lane);
	struct native *n = lane->native;
	struct native_marker *marker = &n->marker[(n->first_marker + n->markers) % NATIVE_MARKERS];
	coll_error_t err;
	int code;

	error_clear(&err);
	n->marker_wanted = 0;
	if (!slots->event_record || n->markers == NATIVE_MARKERS || !native_busy(lane))
		return 0;
	if (!marker->event && slots->event_create(lane->context->ep, &marker->event, &err))
		return 0;
	code = slots->event_record(lane->context->ep, marker->event, NULL, &err);
	if (code) {
		(void)native_refused(lane, code, &err);
		return 0;
	}
	marker->number = n->submitted;
	n->markers++;
	return 1;
}

int native_join(struct lane *lane, void *later, void *earlier)
{
	const coll_native_t *slots = native_slots(lane);
	void *ep = lane->context->ep, *event = NULL;
	coll_error_t err;
	int code;

	error_clear(&err);
	code = slots->event_create(ep, &event, &err);
	if (!code)
		code = slots->event_record(ep, event, earlier, &err);
	if (!code)
		code = slots->event_wait(ep, event, later, &err);
	if (event)
		slots->event_destroy(ep, event);
	return native_refused(lane, code, &err);
}

int native_order_stream(struct lane *lane, void *stream)
{
	const coll_native_t *slots = native_slots(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	code = slots->take_place ? slots->take_place(lane->context->ep, stream, &err) : 0;
	return native_refused(lane, code, &err);
}

/* The communicator has failed, or a marker goes before the next operation. */
__attribute__((noinline)) static int native_ready_slowly(struct lane *lane)
{
	const struct native *n = lane->native;

	if (n->marker_wanted && !lane->deferred) {
		if (n->markers == NATIVE_MARKERS)
			native_progress(lane);
		native_add_marker(lane);
	}
	return !lane->error;
}

/* Before an operation: adds the marker that is wanted.  Returns 1, or 0: the communicator has failed. */
static inline int native_ready(struct lane *lane, const struct native *n)
{
	return !(n->marker_wanted | lane->error) || native_ready_slowly(lane);
}

/* The backend has not taken the operation: the record of native_hand_over says that it has. */
static void native_not_started(struct lane *lane, uint64_t number)
{
	if (call_log_record(lane, number))
		call_log_slot(lane, number)->started_us = 0;
}

/*
 * Hands a call to the backend, after native_ready.  Returns 0 if the communicator has failed.  The compiler makes this a part
 * of native_again, since each call of a program comes by here.
 */
__attribute__((always_inline)) static inline int native_put(struct lane *lane, struct native *n,
							    void *ep, uint64_t number,
							    native_fn slot, const coll_args_t *args)
{
	coll_error_t err;
	int code;

	error_clear(&err);
	code = slot(ep, args, &err);
	if (code) {
		native_not_started(lane, number);
		native_fail(lane, code, &err);
		return 0;
	}
	n->submitted = number;
	if (--n->until_poll <= 0 && !lane->deferred) {
		native_progress(lane);
		n->marker_wanted = native_busy(lane);
	}
	return 1;
}

int native_submit(struct lane *lane, uint64_t number, native_fn slot, const coll_args_t *args)
{
	struct native *n = lane->native;

	return native_ready(lane, n) && native_put(lane, n, lane->context->ep, number, slot, args);
}

/* Notes a checked call for native_again. */
static void native_note(struct lane *lane, const struct call *call)
{
	const coll_args_t *a = &call->args;
	const size_t send = call->elements[COLL_BUFFER_SEND],
		     recv = call->elements[COLL_BUFFER_RECV];
	struct native_again *again = &lane->native->again;

	again->args = *a;
	again->slot = call->slot;
	again->signature = signature_of(lane, call);
	again->hashed = call_log_hashed(&again->signature);
	call_log_fill(&again->record, call, &again->signature);
	again->collective = call->kind->is_collective;
	if (call->kind->is_v || !send || !recv)
		again->args.kind = 0;
	else
		again->in_place = span_is_in_place(lane, a);
	again->apart = (uintptr_t)a->recvbuf - (uintptr_t)a->sendbuf;
	again->longer = coll_dtype_size(a->dtype) * (send > recv ? send : recv);
}

/* Hands the noted call over, with these buffers.  call: for observers; NULL: there are none. */
__attribute__((always_inline)) static inline void native_hand_over(struct lane *lane,
								   struct context *context,
								   const coll_args_t *args,
								   const struct call *call)
{
	struct native *n = lane->native;
	const struct native_again *again = &n->again;
	const int64_t now = context_now(context);
	uint32_t seq_or_tag;
	struct record *kept;
	uint64_t stamp;
	int ready;

	if (again->collective) {
		seq_or_tag = lane->seq++;
		lane->seen->collectives++;
		report_native_call(lane, &again->signature, &again->hashed);
	} else {
		seq_or_tag = again->record.seq_or_tag;
	}
	ready = native_ready(lane, n);
	lane_set_busy(lane);
	kept = call_log_next(lane);
	*kept = again->record;
	kept->seq_or_tag = seq_or_tag;
	kept->issued_us = now;
	kept->started_us = ready ? now : 0;
	if (lane->counts)
		counts_issued(lane, kept, &stamp);
	if (call)
		observed_native_call(lane, call, seq_or_tag);
	if (ready)
		(void)native_put(lane, n, context->ep, lane->issued, again->slot, args);
}

int native_now(struct lane *lane, const struct call *call)
{
	if (!lane->native || lane->queue.head || !call->slot ||
	    (lane->context->classify && !native_takes(lane, call)))
		return 0;
	native_note(lane, call);
	native_hand_over(lane, lane->context, &call->args,
			 LANE_OBSERVED(lane, COLL_OBSERVE_CALL) ? call : NULL);
	return 1;
}

/* Would check_call find the same for these arguments as for the arguments of the noted call? */
static int native_is_again(const struct native_again *again, const coll_args_t *a)
{
	const coll_args_t *last = &again->args;
	const uintptr_t apart = (uintptr_t)a->recvbuf - (uintptr_t)a->sendbuf;

	if (a->kind != last->kind || a->dtype != last->dtype || a->op != last->op ||
	    a->root != last->root || a->count != last->count || a->tag != last->tag ||
	    a->flags != last->flags || (a->stream != last->stream && (!a->stream || !last->stream)))
		return 0;
	if (!a->sendbuf || !a->recvbuf ||
	    (uintptr_t)a->scalar | (uintptr_t)a->sendcounts | (uintptr_t)a->recvcounts)
		return 0;
	/* Both calls have the same distance between their buffers, or neither call has buffers that overlap. */
	return apart == again->apart ||
	       (!again->in_place && apart >= again->longer && -apart >= again->longer);
}

int native_again(struct lane *lane, const coll_args_t *args)
{
	struct context *context = lane->context;

	if (!native_is_again(&lane->native->again, args) || lane->queue.head ||
	    LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
		return 0;
	if (context->classify &&
	    (!native_takes_at(lane, args->sendbuf) ||
	     (args->recvbuf != args->sendbuf && !native_takes_at(lane, args->recvbuf))))
		return 0;
	native_hand_over(lane, context, args, NULL);
	return 1;
}

/* Notes the markers that the stream has passed. */
static void native_poll_markers(struct lane *lane)
{
	struct native *n = lane->native;
	coll_error_t err;

	error_clear(&err);
	while (n->markers) {
		const struct native_marker *marker = &n->marker[n->first_marker];

		if (native_slots(lane)->event_query(lane->context->ep, marker->event, &err) ||
		    native_may_be_aborted(lane))
			return; /* not complete; async_error reports a failure */
		lane->finished = marker->number;
		n->first_marker = (n->first_marker + 1) % NATIVE_MARKERS;
		n->markers--;
	}
}

/* A backend that moves only when it is polled may still have data for other ranks of operations that are complete here. */
static int native_rest(struct lane *lane)
{
	coll_error_t err;

	if (!context_rests(lane->context) || !lane->context->ep || lane->deferred || lane->error)
		return 0;
	error_clear(&err);
	(void)native_slots(lane)->query(lane->context->ep, &err);
	return 0;
}

int native_progress(struct lane *lane)
{
	const coll_native_t *slots = native_slots(lane);
	struct native *n = lane->native;
	uint64_t before = lane->finished;
	coll_error_t err;
	int code;

	if (!native_busy(lane))
		return native_rest(lane);
	if (lane->deferred)
		return 0;
	error_clear(&err);
	n->until_poll = NATIVE_POLL_EACH;
	code = slots->query(lane->context->ep, &err);
	if (!code) {
		lane->finished = n->submitted;
		n->markers = 0;
	} else if (code == COLL_IN_PROGRESS) {
		code = slots->async_error ? slots->async_error(lane->context->ep, &err) : 0;
		native_poll_markers(lane);
	}
	if (code)
		native_fail(lane, code, &err);
	if (lane->finished == before)
		return 0;
	call_log_end_all(lane, before);
	if (lane->counts)
		counts_ended_all(lane, before);
	if (LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
		observed_native_end(lane, before, lane->finished, COLL_SUCCESS);
	task_check(lane);
	lane->context->sleepers_have_news = 1;
	return 1;
}

int native_mark(struct lane *lane)
{
	if (!lane->native || lane->deferred || !native_slots(lane)->event_record)
		return COLL_SUCCESS;
	if (native_busy(lane) && lane->native->markers == NATIVE_MARKERS)
		native_progress(lane);
	if (!native_busy(lane) || native_add_marker(lane))
		return lane->error ? comm_error(lane) : COLL_SUCCESS;
	return lane_wait(lane, lane->issued, 0);
}

int native_mark_wanted(struct lane *lane)
{
	return lane->native && lane->native->marker_wanted ? native_mark(lane) : COLL_SUCCESS;
}

/* -------------------------------------------------------------------- the engine -- */

static enum engine_start native_start(struct op *op)
{
	coll_args_t args = op->call.args;

	if (op->call.redop.made)
		args.op = op->call.redop.native;
	if (LANE_OBSERVED(op->lane, COLL_OBSERVE_CALL))
		observed_native_op(op);
	if (native_submit(op->lane, op->number, op->call.slot, &args))
		op_begin(op, OP_SUBMITTED);
	return ENGINE_STARTED;
}

static int native_move(struct lane *lane)
{
	const int moved = native_progress(lane);

	if (lane->nleft && !lane->error)
		stall_check_left_native(lane);
	return moved;
}

void native_check(struct lane *lane)
{
	const coll_native_t *native = lane_native(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!native || !native->async_error || !lane_native_ep(lane) || lane->error)
		return;
	code = native->async_error(lane_native_ep(lane), &err);
	if (code)
		native_fail(lane, code, &err);
}

static void native_begin(struct lane *lane)
{
	native_group_begin(lane, lane->context->ep);
}

static void native_end(struct lane *lane)
{
	native_group_end(lane, lane->context->ep);
}

const struct engine native_engine = {
	.now = native_now,
	.again = native_again,
	.takes = native_takes,
	.start = native_start,
	.progress = native_move,
	.busy = native_busy,
	.describe = native_describe,
	.mark = native_want_marker,
	.abort = native_abort,
	.check = native_check,
	.group_begin = native_begin,
	.group_end = native_end,
	.derive = &derive_native,
	.keeps_order = 1,
};
