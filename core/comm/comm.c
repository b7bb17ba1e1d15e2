/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators: the names and tags of their ranks, their failure, which every rank learns of; entering. */
#include "comm/lane.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A control tag of the parent whose lower bits, which are 0 in every other control tag, are the number of the split and a 1. */
uint64_t comm_tag_birth(uint32_t parent_context_id, uint32_t seq)
{
	return comm_tag_control(parent_context_id) | (uint64_t)seq << 1 | 1;
}

int comm_tag_is_birth(uint64_t tag)
{
	return tag & MATCH_CONTROL && tag & 1;
}

/* Bits that count the communicators of one rank: as many as the rank's number on the context leaves. */
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

/* ---------------------------------------------------------------- names of ranks -- */

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

/* ------------------------------------------------------- control messages -- */

/* left_too: also to ranks that have left the communicator. */
static void comm_send_others(struct comm *comm, int left_too, uint64_t tag, int kind, int code,
			     const char *text)
{
	for (int r = 0; r < comm->nranks; r++)
		if (r != comm->rank && (left_too || comm->peer_state[r] != PEER_LEFT))
			context_send_control(comm->context, comm->to_context_rank[r], tag, kind,
					     code, text);
}

void comm_send_control(struct comm *comm, int kind, int code, const char *text)
{
	comm_send_others(comm, 0, comm_tag_control(comm->context_id), kind, code, text);
}

/* A rank that has left the parent may still use the new communicator. */
void comm_send_unmade(struct comm *parent, uint32_t seq, int code, const char *text)
{
	comm_send_others(parent, 1, comm_tag_birth(parent->context_id, seq), CONTROL_UNMADE, code,
			 text);
}

void comm_refuse(struct comm *parent, uint32_t context_id, int code, const char *text)
{
	comm_send_others(parent, 1, comm_tag_control(context_id), CONTROL_UNMADE, code, text);
}

void comm_send_abort(struct comm *comm)
{
	struct rank_name name;
	char text[96];

	snprintf(text, sizeof(text), "%s aborted the communicator", comm_own_name(comm, &name));
	comm_send_others(comm, 1, comm_tag_control(comm->context_id), CONTROL_FAIL,
			 COLL_ERR_ABORTED, text);
}

void comm_send_lost(struct comm *comm, int lost)
{
	const int32_t rank = lost;

	for (int r = 0; r < comm->nranks; r++)
		if (r != comm->rank && comm->peer_state[r] < PEER_LEFT)
			context_send_struct(comm->context, comm->to_context_rank[r],
					    comm_tag_control(comm->context_id), CONTROL_LOST, &rank,
					    sizeof(rank));
}

/* ------------------------------------------------------------------ failing -- */

void comm_set_pending(struct comm *comm, int code, const char *fmt, ...)
{
	va_list ap;

	if (comm->pending.code)
		return;
	comm->pending.code = code;
	va_start(ap, fmt);
	vsnprintf(comm->pending.text, sizeof(comm->pending.text), fmt, ap);
	va_end(ap);
	comm->context->pending_events = 1;
}

/*
 * The native lane of two tells the other ranks, whichever lane has failed first, since their watchers read the control
 * channel at once.  The host lane tells a failure that this rank has found in it to the ranks that wait in their host lanes.
 */
void comm_end_lane(struct comm *comm, int first)
{
	const coll_transport_t *transport = comm->context->plugin->backend.transport;
	const struct outcome *outcome = comm->outcome;
	const int tells = !outcome->is_remote && (first || comm->lane == LANE_FIRST);
	struct rank_name name;

	comm->error = atomic_load(&outcome->code);
	log_info("communicator of %s failed: %s", comm_own_name(comm, &name), outcome->text);
	/* Without cancel the endpoint may be closed now: the other ranks must learn the cause before. */
	if (tells || (transport && !transport->cancel))
		comm_send_control(comm, CONTROL_FAIL, comm->error, outcome->text);
	comm->client->failed(comm, tells);
}

void comm_fail(struct comm *comm, int quiet, int code, const char *fmt, ...)
{
	va_list ap;
	int first;

	if (comm->error)
		return;
	va_start(ap, fmt);
	first = outcome_fail(comm->outcome, quiet, code, fmt, ap);
	va_end(ap);
	comm_end_lane(comm, first);
}

int comm_tell_error(const struct comm *comm)
{
	atomic_store(&comm->outcome->is_told, 1);
	return error_set(comm->error, "%s", comm->outcome->text);
}

/* ------------------------------------------------------------ finding, entering -- */

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

_Static_assert((int)CONTEXT_FREED *CONTEXT_FREED_PIECE == 1 << TAG_CONTEXT_BITS, "room for all");

/* Without memory for the bit, late messages stay in memory until the context closes. */
void comm_note_freed(struct context *context, uint32_t context_id)
{
	uint8_t **piece = &context->freed[context_id / CONTEXT_FREED_PIECE];
	uint32_t bit = context_id % CONTEXT_FREED_PIECE;

	if (!*piece)
		*piece = calloc(CONTEXT_FREED_PIECE / 8, 1);
	if (*piece)
		(*piece)[bit / 8] |= (uint8_t)(1 << bit % 8);
}

int comm_was_freed(const struct context *context, uint32_t context_id)
{
	const uint8_t *piece = context->freed[context_id / CONTEXT_FREED_PIECE];
	uint32_t bit = context_id % CONTEXT_FREED_PIECE;

	return piece && piece[bit / 8] >> bit % 8 & 1;
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
}

/* A communicator that could not be made is in no list. */
void comm_delist(struct comm *comm)
{
	struct context *context = comm->context;
	struct comm **at = comm_slot(context, comm->context_id);

	if (!comm->prev && context->comms != comm)
		return;
	while (*at != comm)
		at = &(*at)->next_of_id;
	*at = comm->next_of_id;
	*(comm->prev ? &comm->prev->next : &context->comms) = comm->next;
	if (comm->next)
		comm->next->prev = comm->prev;
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
	comm->next_busy = NULL;
	comm->busy = to;
	context->resting += to == COMM_RESTS;
}

void comm_forget_busy(struct comm *comm)
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
	struct comm *comm = handle_pin(HANDLE_COMM, handle);

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
static inline struct comm *comm_enter_at(coll_comm_t handle, int lane, const char *what)
{
	struct comm *comm = handle_pin(HANDLE_COMM, handle);
	struct context *context;

	if (!comm)
		return comm_unknown(handle, what);
	comm = lane_at(comm, lane);
	context = comm->context;
	if (!lock_try(&context->lock))
		return comm_enter_slowly(comm);
	context_entered(context);
	return comm;
}

struct comm *comm_enter(coll_comm_t handle, const char *what)
{
	return comm_enter_at(handle, LANE_FIRST, what);
}

struct comm *comm_enter_host(coll_comm_t handle, const char *what)
{
	return comm_enter_at(handle, LANE_HOST, what);
}

void comm_leave(struct comm *comm)
{
	coll_comm_t handle = comm->handle;

	context_leave(comm->context);
	handle_unpin(handle);
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
