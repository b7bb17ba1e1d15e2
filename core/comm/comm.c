/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators: the names and tags of their ranks, their failure, which every rank learns of; entering. */
#include "comm/lane.h"
#include "base/error.h"
#include "base/handle.h"
#include "comm/lane_log.h"
#include "transport/match.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What match.h knows of tags. */
_Static_assert((int)TAG_SEQ_SHIFT == (int)CALL_TAG_SHIFT, "the bits of a call");
_Static_assert(MATCH_UNORDERED == (TAG_USER | TAG_UNORDERED), "the bits of unordered messages");

uint64_t tag_user(const struct lane *lane, uint32_t tag)
{
	return (uint64_t)lane->context_id << TAG_CONTEXT_SHIFT | TAG_USER | tag;
}

uint64_t tag_pieces(const struct lane *lane, uint32_t number)
{
	return tag_user(lane, number) | TAG_PIECES;
}

uint64_t tag_unordered(const struct lane *lane)
{
	return (uint64_t)lane->context_id << TAG_CONTEXT_SHIFT | TAG_USER | TAG_UNORDERED;
}

uint64_t tag_control(uint32_t context_id)
{
	return (uint64_t)context_id << TAG_CONTEXT_SHIFT | MATCH_CONTROL;
}

/* A control tag of the parent whose lower bits, which are 0 in every other control tag, are the number of the split and a 1. */
uint64_t tag_birth(uint32_t parent_context_id, uint32_t seq)
{
	return tag_control(parent_context_id) | (uint64_t)seq << 1 | 1;
}

int tag_is_birth(uint64_t tag)
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

int comm_world_rank(const struct lane *lane, int rank)
{
	const int on_context = lane->to_context_rank[rank];

	return lane->context->origin ? lane->context->origin[on_context] : on_context;
}

const char *comm_rank_name(const struct lane *lane, int rank, struct rank_name *name)
{
	const struct context *context = lane->context;
	int world = rank;

	if (rank >= 0 && rank < lane->comm->nranks)
		world = lane->to_context_rank[rank];
	if (context->origin && world >= 0 && world < context->nranks)
		world = context->origin[world];
	if (rank == COLL_ANY_SOURCE)
		snprintf(name->text, sizeof(name->text), "any rank");
	else
		snprintf(name->text, sizeof(name->text),
			 world == rank ? "rank %d" : "rank %d (world rank %d)", rank, world);
	return name->text;
}

const char *comm_own_name(const struct lane *lane, struct rank_name *name)
{
	return comm_rank_name(lane, lane->comm->rank, name);
}

/* ------------------------------------------------------- control messages -- */

/* left_too: also to ranks that have left the communicator. */
static void comm_send_others(struct lane *lane, int left_too, uint64_t tag, int kind, int code,
			     const char *text)
{
	for (int r = 0; r < lane->comm->nranks; r++)
		if (r != lane->comm->rank && (left_too || lane->peer_state[r] != PEER_LEFT))
			context_send_control(lane->context, lane->to_context_rank[r], tag, kind,
					     code, text);
}

void comm_send_control(struct lane *lane, int kind, int code, const char *text)
{
	comm_send_others(lane, 0, tag_control(lane->context_id), kind, code, text);
}

/* A rank that has left the parent may still use the new communicator. */
void comm_send_unmade(struct lane *parent, uint32_t seq, int code, const char *text)
{
	comm_send_others(parent, 1, tag_birth(parent->context_id, seq), CONTROL_UNMADE, code, text);
}

void comm_refuse(struct lane *parent, uint32_t context_id, int code, const char *text)
{
	comm_send_others(parent, 1, tag_control(context_id), CONTROL_UNMADE, code, text);
}

void comm_send_abort(struct lane *lane)
{
	struct rank_name name;
	char text[96];

	snprintf(text, sizeof(text), "%s aborted the communicator", comm_own_name(lane, &name));
	comm_send_others(lane, 1, tag_control(lane->context_id), CONTROL_FAIL, COLL_ERR_ABORTED,
			 text);
}

void comm_send_lost(struct lane *lane, int lost)
{
	const int32_t rank = lost;

	for (int r = 0; r < lane->comm->nranks; r++)
		if (r != lane->comm->rank && lane->peer_state[r] < PEER_LEFT)
			context_send_struct(lane->context, lane->to_context_rank[r],
					    tag_control(lane->context_id), CONTROL_LOST, &rank,
					    sizeof(rank));
}

/* A communicator with a context of its own is named by that context's number, every other communicator by its context id. */
void comm_write_id(const struct lane *lane, char text[32])
{
	if (lane->context->parent)
		snprintf(text, 32, "%08llx",
			 (unsigned long long)context_number(lane->context) & 0xffffffff);
	else
		snprintf(text, 32, "%u", lane->context_id);
}

/* ------------------------------------------------------------------ failing -- */

void lane_set_pending(struct lane *lane, int code, const char *fmt, ...)
{
	va_list ap;

	if (lane->pending.code)
		return;
	lane->pending.code = code;
	va_start(ap, fmt);
	vsnprintf(lane->pending.text, sizeof(lane->pending.text), fmt, ap);
	va_end(ap);
	lane->context->pending_events = 1;
}

/*
 * The native lane of two tells the other ranks, whichever lane has failed first, since their watchers read the control
 * channel at once.  The host lane tells a failure that this rank has found in it to the ranks that wait in their host lanes.
 */
void lane_end(struct lane *lane, int first)
{
	const coll_transport_t *transport = lane->context->plugin->backend.transport;
	const struct outcome *outcome = lane->comm->outcome;
	const int tells = !outcome->is_remote && (first || lane->index == LANE_FIRST);
	struct rank_name name;

	lane->error = atomic_load(&outcome->code);
	lane_log(lane, COLL_LOG_INFO, "communicator of %s failed: %s", comm_own_name(lane, &name),
		 outcome->text);
	/* Without cancel the endpoint may be closed now: the other ranks must learn the cause before. */
	if (tells || (transport && !transport->cancel))
		comm_send_control(lane, CONTROL_FAIL, lane->error, outcome->text);
	lane->client->failed(lane, !outcome->is_remote);
}

void comm_fail(struct lane *lane, int quiet, int code, const char *fmt, ...)
{
	va_list ap;
	int first;

	if (lane->error)
		return;
	va_start(ap, fmt);
	first = outcome_fail(lane->comm->outcome, quiet, code, fmt, ap);
	va_end(ap);
	lane_end(lane, first);
}

int comm_tell_error(const struct lane *lane)
{
	atomic_store(&lane->comm->outcome->is_told, 1);
	return error_set(lane->error, "%s", lane->comm->outcome->text);
}

/* ------------------------------------------------------------ finding, entering -- */

static struct lane **lane_slot(const struct context *context, uint32_t id)
{
	const uint32_t odd =
		0x9e3779b1; /* spreads the bits: ids count up, from a rank's first on */

	return (struct lane **)&context->lane_of_id[id * odd >> (32 - CONTEXT_COMMS_BITS)];
}

struct lane *lane_of_tag(const struct context *context, uint64_t tag)
{
	const uint32_t id = (uint32_t)(tag >> TAG_CONTEXT_SHIFT);
	struct lane *lane = *lane_slot(context, id);

	while (lane && lane->context_id != id)
		lane = lane->next_of_id;
	return lane;
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

void lane_enlist(struct lane *lane)
{
	struct context *context = lane->context;
	struct lane **slot = lane_slot(context, lane->context_id);

	lane->next_of_id = *slot;
	*slot = lane;
	lane->next = context->lanes;
	if (lane->next)
		lane->next->prev = lane;
	context->lanes = lane;
}

/* A communicator that could not be made is in no list. */
void lane_delist(struct lane *lane)
{
	struct context *context = lane->context;
	struct lane **at = lane_slot(context, lane->context_id);

	if (!lane->prev && context->lanes != lane)
		return;
	while (*at != lane)
		at = &(*at)->next_of_id;
	*at = lane->next_of_id;
	*(lane->prev ? &lane->prev->next : &context->lanes) = lane->next;
	if (lane->next)
		lane->next->prev = lane->prev;
}

void lane_list_busy(struct lane *lane)
{
	struct context *context = lane->context;

	context->resting -= lane->busy == LANE_RESTS;
	lane->busy = LANE_BUSY;
	lane->next_busy = context->busy;
	context->busy = lane;
	if (!lane->next_busy)
		context->last_busy = lane;
}

void lane_unlist_busy(struct lane *lane, struct lane *before, int to)
{
	struct context *context = lane->context;

	*(before ? &before->next_busy : &context->busy) = lane->next_busy;
	if (context->last_busy == lane)
		context->last_busy = before;
	lane->next_busy = NULL;
	lane->busy = to;
	context->resting += to == LANE_RESTS;
}

void lane_forget_busy(struct lane *lane)
{
	struct lane *before = NULL;

	if (lane->busy == LANE_RESTS) {
		lane->context->resting--;
		lane->busy = LANE_IDLE;
	}
	if (lane->busy == LANE_IDLE)
		return;
	for (struct lane *other = lane->context->busy; other != lane; other = other->next_busy)
		before = other;
	lane_unlist_busy(lane, before, LANE_IDLE);
}

int comm_lost(const struct lane *lane)
{
	return error_set(atomic_load(&lane->comm->aborted) ? COLL_ERR_ABORTED : COLL_ERR_TIMEOUT,
			 "timed out: another thread is in a call on the same connections and has "
			 "not given them back, or a thread has left its call there by siglongjmp "
			 "or its own end: then abort and destroy the communicators");
}

int comm_leave_lost(const struct lane *lane)
{
	const int code = comm_lost(lane);

	handle_unpin(lane->comm->handle);
	return code;
}

void *comm_unknown(coll_comm_t handle, const char *what)
{
	error_set(COLL_ERR_INVALID_ARGUMENT, "%s: comm is %s", what, handle_trouble(handle));
	return NULL;
}

struct lane *comm_pin_lane(coll_comm_t handle, int lane_index)
{
	struct comm *comm = handle_pin(HANDLE_COMM, handle);

	return comm ? comm->lane[lane_index] : NULL;
}

struct comm *comm_pin(coll_comm_t handle, const char *what)
{
	struct comm *comm = handle_pin(HANDLE_COMM, handle);

	return comm ? comm : comm_unknown(handle, what);
}

struct lane *comm_enter_slowly(struct lane *lane)
{
	if (context_await_lock(lane->context, lane->comm->timeout_us)) {
		context_entered(lane->context);
		return lane;
	}
	atomic_store(&lane->context->lost, 1);
	(void)comm_leave_lost(lane);
	return NULL;
}

struct lane *comm_enter(coll_comm_t handle, const char *what)
{
	return comm_enter_here(handle, LANE_FIRST, what);
}

struct lane *comm_enter_lane(coll_comm_t handle, int lane_index, const char *what)
{
	return comm_enter_here(handle, lane_index, what);
}

void comm_leave(struct lane *lane)
{
	comm_leave_here(lane);
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
