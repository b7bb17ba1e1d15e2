/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators: their failure, which every rank learns of; making, entering, waiting. */
#include "exec/again.h"
#include "exec/dispatch.h"
#include "exec/comm.h"
#include "exec/callback.h"
#include "exec/compare.h"
#include "exec/limit.h"
#include "exec/message_staging.h"
#include "exec/native.h"
#include "exec/pair.h"
#include "exec/queue.h"
#include "exec/registration.h"
#include "exec/staging.h"
#include "exec/stall.h"
#include "exec/stream_order.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The longest wait for the control messages about a failure: the process may not call again for long.
 * An abort must be over within a second.
 */
enum { COMM_FLUSH_US = 500000 };

uint64_t comm_tag_user(const struct comm *comm, uint32_t tag)
{
	return (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT | TAG_USER | tag;
}

uint64_t comm_tag_pieces(const struct comm *comm, uint32_t number)
{
	return comm_tag_user(comm, number) | TAG_PIECES;
}

uint64_t comm_tag_loose(const struct comm *comm)
{
	return (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT | TAG_USER | TAG_LOOSE;
}

uint64_t comm_tag_control(uint32_t context_id)
{
	return (uint64_t)context_id << TAG_CONTEXT_SHIFT | MATCH_CONTROL;
}

/* Bits that count the communicators of one rank: those that the rank's number on the context leaves. */
static int comm_context_id_bits(const struct context *context)
{
	int bits = TAG_CONTEXT_BITS;

	for (int n = context->nranks - 1; n; n /= 2)
		bits--;
	return bits;
}

uint32_t comm_most_context_ids(const struct context *context)
{
	int bits = comm_context_id_bits(context);

	return bits < 1 ? 0 : (uint32_t)1 << bits;
}

/* The upper bits are the drawing rank's number on the context, the lower ones count. */
uint32_t comm_draw_context_id(struct context *context)
{
	int bits = comm_context_id_bits(context);

	if (context->next_context_id >= comm_most_context_ids(context))
		return UINT32_MAX;
	return (uint32_t)context->rank << bits | context->next_context_id++;
}

/* ------------------------------------------------------------------ failing -- */

const char *comm_rank_name(const struct comm *comm, int rank, struct rank_name *name)
{
	const struct context *context = comm->context;
	int world = rank;

	if (rank >= 0 && rank < comm->nranks)
		world = comm->to_context_rank[rank];
	if (context->origin && world >= 0 && world < context->nranks)
		world = context->origin[world];
	if (rank == COLL_ANY_SOURCE)
		snprintf(name->text, sizeof(name->text), "any rank");
	else
		snprintf(name->text, sizeof(name->text),
			 world == rank ? "rank %d" : "rank %d (world rank %d)", rank, world);
	return name->text;
}

const char *comm_own_name(const struct comm *comm, struct rank_name *name)
{
	return comm_rank_name(comm, comm->rank, name);
}

void comm_fail(struct comm *comm, int quiet, int code, const char *fmt, ...)
{
	const coll_transport_t *transport = comm->context->plugin->backend.transport;
	struct rank_name name;
	int cancels;
	va_list ap;

	if (comm->error)
		return;
	comm->error = code;
	comm->error_is_remote = quiet;
	va_start(ap, fmt);
	vsnprintf(comm->error_text, sizeof(comm->error_text), fmt, ap);
	va_end(ap);
	log_info("communicator of %s failed: %s", comm_own_name(comm, &name), comm->error_text);
	/* Without cancel the endpoint may be closed now: the others must learn the cause before. */
	cancels = !transport || transport->cancel;
	if (!quiet || !cancels)
		comm_send_control(comm, CONTROL_FAIL, code, comm->error_text);
	if (comm->pair)
		pair_release(comm);
	if (comm->busy == COMM_RESTS) /* the next look finds that it has nothing to do */
		comm_list_busy(comm);
	queue_cancel(comm);
	callback_check(comm);
	message_end_all(comm, code);
	if (comm->pair)
		pair_failed(comm);
	context_wake(comm->context);
	recorder_report(comm, !quiet && code != COLL_ERR_ABORTED);
}

static int comm_controls_sent(void *arg)
{
	const struct comm *comm = arg;

	return !comm->context->ep || !context_controls_pending(comm->context);
}

static int comm_flush_within(struct comm *comm, int64_t patience_us)
{
	if (!comm->error || !comm->context->ep)
		return COLL_SUCCESS;
	return context_wait_or_leave(comm->context, comm_controls_sent, comm, COMM_FLUSH_US,
				     patience_us);
}

void comm_flush(struct comm *comm)
{
	(void)comm_flush_within(comm, 0);
}

/* The callers have nothing that would undo their work for a thread that is cancelled in this wait. */
int comm_flush_or_leave(struct comm *comm)
{
	CANCEL_OFF;

	return comm_flush_within(comm, COMM_FLUSH_US) == CONTEXT_LOST ? CONTEXT_LOST : COLL_SUCCESS;
}

/* ------------------------------------------------------------ making, entering -- */

static struct comm **comm_slot(const struct context *context, uint32_t id)
{
	const uint32_t odd =
		0x9e3779b1; /* spreads the bits: ids count up, from a rank's first on */

	return (struct comm **)&context->comm_of_id[id * odd >> (32 - CONTEXT_COMMS_BITS)];
}

struct comm *comm_of_tag(const struct context *context, uint64_t tag)
{
	const uint32_t id = (uint32_t)(tag >> TAG_CONTEXT_SHIFT);
	struct comm *comm = *comm_slot(context, id);

	while (comm && comm->context_id != id)
		comm = comm->next_of_id;
	return comm;
}

void comm_enlist(struct comm *comm)
{
	struct context *context = comm->context;
	struct comm **slot = comm_slot(context, comm->context_id);

	comm->next_of_id = *slot;
	*slot = comm;
	comm->next = context->comms;
	if (comm->next)
		comm->next->prev = comm;
	context->comms = comm;
	comm->listed = 1;
}

/* A communicator that could not be made is in no list. */
static void comm_delist(struct comm *comm)
{
	struct context *context = comm->context;
	struct comm **at = comm_slot(context, comm->context_id);

	if (!comm->listed)
		return;
	while (*at != comm)
		at = &(*at)->next_of_id;
	*at = comm->next_of_id;
	*(comm->prev ? &comm->prev->next : &context->comms) = comm->next;
	if (comm->next)
		comm->next->prev = comm->prev;
}

int comm_new(struct comm **out, struct context *context, uint32_t context_id, int rank, int nranks,
	     const int *to_context_rank)
{
	struct comm *comm = calloc(1, sizeof(*comm));

	*out = comm;
	if (!comm)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->context = context;
	comm->timeout_us = context->timeout_us;
	comm->shrunk.lost = -1;
	comm->context_id = context_id;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->cpus = context_cpus(context, to_context_rank ? to_context_rank[0] : 0);
	comm->to_context_rank = calloc((size_t)nranks, sizeof(*comm->to_context_rank));
	comm->to_comm_rank = calloc((size_t)context->nranks, sizeof(*comm->to_comm_rank));
	comm->peer_state = calloc((size_t)nranks, 1);
	comm->answered = calloc((size_t)nranks, 1);
	comm->heard = calloc((size_t)nranks, sizeof(*comm->heard));
	comm->shrink = calloc((size_t)nranks, sizeof(*comm->shrink));
	if (comm->to_context_rank && comm->to_comm_rank && comm->peer_state && comm->answered &&
	    comm->heard && comm->shrink &&
	    !nodes_make(&comm->nodes, context->node, to_context_rank, nranks))
		comm->handle = handle_new(HANDLE_COMM, comm);
	if (comm->handle)
		comm->outcome = outcome_new(comm->handle);
	if (!comm->outcome)
		return handle_none("a communicator");
	if (!context->plugin->backend.transport && native_new(&comm->native))
		return COLL_ERR_NO_MEMORY;
	comm->derived = context->comms != NULL;
	comm->asks_place = dispatch_asks_place(comm);
	if (comm_native(comm) && (!comm->native || context->companion) && nranks > 1 &&
	    compare_new(comm))
		return COLL_ERR_NO_MEMORY;
	for (int r = 0; r < context->nranks; r++)
		comm->to_comm_rank[r] = -1;
	for (int r = 0; r < nranks; r++) {
		comm->to_context_rank[r] = to_context_rank ? to_context_rank[r] : r;
		comm->to_comm_rank[comm->to_context_rank[r]] = r;
	}
	if (!context->comms && context->plugins)
		recorder_check_dump(comm);
	comm_enlist(comm);
	/* Messages for it may have come already.  Who makes a further one looks by comm_check: the others have no news. */
	if (!comm->derived)
		context->pending_events = 1;
	return COLL_SUCCESS;
}

void comm_list_busy(struct comm *comm)
{
	struct context *context = comm->context;

	context->resting -= comm->busy == COMM_RESTS;
	comm->busy = COMM_BUSY;
	comm->next_busy = context->busy;
	context->busy = comm;
	if (!comm->next_busy)
		context->last_busy = comm;
}

void comm_unlist_busy(struct comm *comm, struct comm *before, int to)
{
	struct context *context = comm->context;

	*(before ? &before->next_busy : &context->busy) = comm->next_busy;
	if (context->last_busy == comm)
		context->last_busy = before;
	comm->busy = to;
	context->resting += to == COMM_RESTS;
}

static void comm_forget_busy(struct comm *comm)
{
	struct comm *before = NULL;

	if (comm->busy == COMM_RESTS) {
		comm->context->resting--;
		comm->busy = COMM_IDLE;
	}
	if (comm->busy == COMM_IDLE)
		return;
	for (struct comm *c = comm->context->busy; c != comm; c = c->next_busy)
		before = c;
	comm_unlist_busy(comm, before, COMM_IDLE);
}

static void comm_free_ops(struct op *op)
{
	while (op) {
		struct op *next = op->next;

		op_free(op);
		op = next;
	}
}

/* Persistent operations are freed here, and not as a part of the queue. */
static void comm_free_persistent(struct op *op)
{
	while (op) {
		struct op *next = op->persistent_next;

		op_free(op);
		op = next;
	}
}

/* Takes persistent operations out of the queue. */
static void comm_drop_persistent(struct comm *comm)
{
	for (struct op **at = &comm->head; *at;)
		if ((*at)->persistent)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

/* The lock is held. */
static void comm_detach(struct comm *comm)
{
	struct context *context = comm->context;
	const uint64_t context_id = (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT;
	struct rank_name name;
	struct shrunk unused;
	char staged[512];

	if (comm->finished < comm->issued) /* another thread has issued an operation meanwhile */
		comm_fail(comm, 1, COLL_ERR_ABORTED, "%s destroyed the communicator",
			  comm_own_name(comm, &name));
	message_end_all(comm, COLL_ERR_ABORTED);
	(void)comm_shrunk_before(comm, 0, &unused);
	comm_delist(comm);
	comm_forget_busy(comm);
	staging_count(comm, staged, sizeof(staged));
	if (staged[0])
		log_info("%s: operations that copied CUDA memory through host memory: %s",
			 comm_own_name(comm, &name), staged);
	staging_free_sites(comm);
	match_forget(&context->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, context_id);
	comm_note_freed(context, comm->context_id);
	native_free(comm);
	compare_free(comm);
	registration_remove_all(comm);
	if (comm->outcome)
		outcome_end(comm->outcome, comm);
}

static void comm_release(struct comm *comm)
{
	outcome_unref(comm->outcome);
	comm_drop_persistent(comm);
	comm_free_ops(comm->head);
	comm_free_ops(comm->op_cache);
	comm_free_persistent(comm->persistent);
	message_free_staged(comm);
	scratch_free_spares(comm);
	stream_order_free(comm);
	redop_free_all(&comm->redops);
	nodes_free(&comm->nodes);
	free(comm->to_context_rank);
	free(comm->to_comm_rank);
	free(comm->peer_state);
	free(comm->answered);
	free(comm->heard);
	free(comm->standings);
	comm_free_last_calls(comm);
	free(comm->shrink);
	callback_free(comm);
	limit_free(comm);
	free(comm->message_recorder);
	pair_free(comm);
	free(comm);
}

void comm_free(struct comm *comm)
{
	struct context *context = comm->context;

	context_lock(context);
	comm_detach(comm);
	lock_release(&context->lock);
	comm_release(comm);
}

void comm_free_unmade(struct comm *comm)
{
	comm_detach(comm);
	comm_release(comm);
}

int comm_lost(const struct comm *comm)
{
	return error_set(atomic_load(&comm->aborted) ? COLL_ERR_ABORTED : COLL_ERR_TIMEOUT,
			 "timed out: another thread is in a call on the same connections and has "
			 "not given them back, or a thread has left its call there by siglongjmp "
			 "or its own end: then abort and destroy the communicators");
}

int comm_leave_lost(const struct comm *comm)
{
	const int code = comm_lost(comm);

	handle_unpin(comm->handle);
	return code;
}

static struct comm *comm_unknown(coll_comm_t handle, const char *what)
{
	error_set(COLL_ERR_INVALID_ARGUMENT, "%s: comm is %s", what, handle_trouble(handle));
	return NULL;
}

struct comm *comm_pin(coll_comm_t handle, const char *what)
{
	struct comm *comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;

	return comm ? comm : comm_unknown(handle, what);
}

/* Another thread has the lock.  NULL, with the pin ended: it has kept the lock for longer than any wait lasts. */
static __attribute__((noinline)) struct comm *comm_enter_slowly(struct comm *comm)
{
	if (context_await_lock(comm->context, comm->timeout_us)) {
		context_entered(comm->context);
		return comm;
	}
	atomic_store(&comm->context->lost, 1);
	(void)comm_leave_lost(comm);
	return NULL;
}

/* Pins by itself: every call of a program comes by here, and comm_pin costs 25 instructions (tests/bench/small_calls.t). */
struct comm *comm_enter(coll_comm_t handle, const char *what)
{
	struct comm *comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;
	struct context *context;

	if (!comm)
		return comm_unknown(handle, what);
	context = comm->context;
	if (!lock_try(&context->lock))
		return comm_enter_slowly(comm);
	context_entered(context);
	return comm;
}

void comm_leave(struct comm *comm)
{
	coll_comm_t handle = comm->handle;

	context_leave(comm->context);
	handle_unpin(handle);
}

/* -------------------------------------------------------------------- waiting -- */

struct comm_goal {
	struct comm *comm;
	uint64_t number;
};

static int comm_reached(void *arg)
{
	struct comm_goal *goal = arg;
	struct comm *comm = goal->comm;

	return comm->finished >= goal->number || comm->error || atomic_load(&comm->aborted);
}

_Atomic int group_threads;
static _Thread_local uint64_t comm_group;

uint64_t group_of_thread(void)
{
	return comm_group;
}

void group_set_current(uint64_t number)
{
	atomic_fetch_add(&group_threads, (number != 0) - (comm_group != 0));
	comm_group = number;
}

int comm_is_deferred(const struct comm *comm, uint64_t number)
{
	const uint64_t group = group_current();

	for (const struct op *op = comm->held; group && op && op->number <= number; op = op->next)
		if (op->state == OP_DEFERRED && op->group == group)
			return 1;
	return 0;
}

void comm_check_aborted(struct comm *comm, uint64_t number)
{
	struct rank_name name;

	if (atomic_load(&comm->aborted) && comm->finished < number)
		comm_fail(comm, comm->leaving, COLL_ERR_ABORTED, "%s aborted the communicator",
			  comm_own_name(comm, &name));
}

/* What a cancelled thread has to undo; wait NULL: nothing. */
struct comm_waiting {
	const struct comm_wait *wait;
	struct stall stall;
};

/* The thread is cancelled in its sleep: its call ends as if it returned. */
static void comm_wait_cancelled(struct comm_waiting *waiting)
{
	const struct comm_wait *wait = waiting->wait;

	if (!wait || !wait_is_cancelled())
		return;
	stall_end(&waiting->stall, wait->comm);
	comm_leave(wait->comm);
	if (wait->handle)
		handle_unpin(wait->handle);
}

/* The other ranks are asked where they are, and the communicator fails after its timeout. */
static int comm_wait_stalls(const struct comm_wait *wait, struct stall *stall)
{
	struct comm *comm = wait->comm;
	int over;

	comm->waited = wait->message;
	over = stall_step(stall, comm, comm->context->idle_us);
	comm->waited = NULL;
	return over;
}

int comm_wait_until(const struct comm_wait *wait, int (*done)(void *arg), void *arg)
{
	__attribute__((cleanup(comm_wait_cancelled))) struct comm_waiting waiting = {.wait = wait};
	struct comm *comm = wait->comm;
	int64_t slice;
	int code;

	stall_begin(&waiting.stall);
	do {
		slice = stall_slice(&waiting.stall, comm);
		code = context_wait_or_leave(comm->context, done, arg, slice,
					     wait->leaves ? comm->timeout_us : 0);
	} while (code > 0 && !comm_wait_stalls(wait, &waiting.stall));
	waiting.wait = NULL;
	if (code == CONTEXT_LOST)
		return code;
	stall_end(&waiting.stall, comm);
	return COLL_SUCCESS;
}

/* The operation is not done at the first look. */
static int comm_wait_long(const struct comm_wait *wait, uint64_t number)
{
	struct comm *comm = wait->comm;
	struct comm_goal goal = {comm, number};

	if (comm_is_deferred(comm, number))
		return error_set(
			COLL_ERR_INVALID_USAGE,
			"a wait inside a group would never end: call coll_group_end first");
	if (comm_wait_until(wait, comm_reached, &goal))
		return CONTEXT_LOST;
	comm_check_aborted(comm, number);
	if (!wait->leaves)
		comm_flush(comm);
	else if (comm_flush_or_leave(comm))
		return CONTEXT_LOST;
	return comm_error(comm);
}

/* One look before all preparations: the message that a small call waits for may be there. */
static inline int comm_look(struct comm *comm, uint64_t number)
{
	if (comm->finished < number)
		again_poll(comm->context);
	return comm->finished >= number && !comm->error;
}

int comm_wait(struct comm *comm, uint64_t number)
{
	const struct comm_wait wait = {.comm = comm};

	return comm_look(comm, number) ? COLL_SUCCESS : comm_wait_long(&wait, number);
}

int comm_wait_or_leave(struct comm *comm, uint64_t number, void *handle)
{
	const struct comm_wait wait = {.comm = comm, .leaves = 1, .handle = handle};

	return comm_look(comm, number) ? COLL_SUCCESS : comm_wait_long(&wait, number);
}
