/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.c - runs schedules: starts the steps whose predecessors are complete, and never blocks. */
#include "compose/steps.h"
#include "compose/composed.h"
#include "comm/moving.h"
#include "watch/watch.h"
#include "compose/staging.h"
#include "device/device.h"
#include "base/copy.h"
#include "base/error.h"
#include "transport/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* The transport has at most so many sends of one operation at a time. */
	STEPS_SENDS = 64,
	/* Before work on more bytes than this, all messages leave: about 10 microseconds. */
	STEPS_LONG = 64 << 10,
	/*
	 * So many steps of so many bytes each start without lists.  Before a long step all messages leave, in whichever order
	 * the algorithm has appended them.
	 */
	STEPS_FEW = 8,
	STEPS_SHORT = 4 << 10,
	STEPS_OBSERVED = COLL_OBSERVE_STEP | COLL_OBSERVE_COPY
};

/* For observers: the step begins. */
static inline void steps_tell(const struct op *op, int i)
{
	if (LANE_OBSERVED(op->lane, COLL_OBSERVE_STEP))
		observed_step(op, i, COLL_OBSERVED_BEGIN);
}

static char *steps_at(const struct op *op, struct slice slice)
{
	return op->base[slice.buf] ? op->base[slice.buf] + slice.off : NULL;
}

/* ------------------------------------------------------------ ready and complete -- */

static void steps_make_ready(struct op *op, int step)
{
	int at = op->ready_sends_head + op->ready_sends_count;

	if (op->sched.step[step].kind >= STEP_COPY_IN) {
		staging_copy(op, step);
		return;
	}
	if (op->sched.step[step].peer < 0 && op->call.args.kind != COLL_KIND_RECV) {
		op->local[op->local_count++] = step;
		return;
	}
	if (sched_is_recv(&op->sched.step[step])) {
		op->ready[op->ready_count++] = step;
		return;
	}
	op->ready_sends[at < op->cap_steps ? at : at - op->cap_steps] = step;
	op->ready_sends_count++;
}

static inline void steps_finish_step(struct op *op, int step)
{
	const struct sched *s = &op->sched;

	op->steps_left--;
	op->lane->steps++;
	if (LANE_OBSERVED(op->lane, STEPS_OBSERVED))
		observed_step(op, step, COLL_OBSERVED_END);
	for (int e = s->step[step].edge; e >= 0; e = s->edge[e].next) {
		int later = s->edge[e].later;

		if (--op->run[later].earlier == 0 && later < op->started)
			steps_make_ready(op, later);
	}
}

void steps_complete(struct op *op, int step)
{
	steps_finish_step(op, step);
}

void steps_peer_failed(struct lane *lane, int rank, int code)
{
	const char *cause = lane->context->failure[lane->to_context_rank[rank]];
	struct rank_name name, own;

	/* lane_check is due: it tells of the loss, unless a message has come that tells why the rank ended. */
	if (cause && lane->context->pending_events && lane->peer_state[rank] != PEER_LEFT)
		return;
	if (code == COLL_ERR_DEVICE && !cause)
		comm_fail(lane, 0, code,
			  "%s: the device failed in a message from or to %s, as backend "
			  "'%s' may have logged",
			  comm_own_name(lane, &own), comm_rank_name(lane, rank, &name),
			  lane->context->plugin->backend.name);
	else
		comm_fail(lane, 0, code, "%s was lost: %s", comm_rank_name(lane, rank, &name),
			  cause ? cause : "a message failed");
}

/* The rare ends of a receive: it has failed, it announces pieces, or its operation rests.  Returns 0 if it has failed. */
static int steps_received_rare(struct op *op, const struct recv *recv)
{
	/* A mismatch or a failed copy has set the communicator's pending failure. */
	if (recv->status && recv->status != COLL_ERR_MISMATCH && !recv->broken)
		steps_peer_failed(op->lane, op->lane->to_comm_rank[recv->peer], recv->status);
	if (recv->status)
		return 0;
	if (op->rests)
		moving_wake(op);
	if (recv->numbered)
		op->pieces_tag = tag_pieces(op->lane, (uint32_t)(recv->meta[0] >> 32));
	return 1;
}

void steps_received(struct recv *recv)
{
	struct op *op = recv->op;
	int from;

	if (!op) {
		((struct unordered_recv *)recv)->received(recv);
		return;
	}
	if ((recv->status | recv->numbered | op->rests) && !steps_received_rare(op, recv))
		return;
	from = op->lane->to_comm_rank[recv->peer];
	watch_see(op->lane, from, op->call.signature.meta, op->seq);
	op->last_peer = from;
	steps_finish_step(op, recv->step);
}

/* A copy to or from a device.  If it fails, the communicator fails when the transport has moved. */
static int steps_copy(struct lane *lane, void *dst, const void *src, size_t n)
{
	int code = device_copy(dst, src, n);
	struct rank_name name;

	if (code)
		lane_set_pending(lane, code, "%s: %s", comm_own_name(lane, &name), error_text());
	return code;
}

int steps_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n)
{
	return steps_copy(recv->op->lane, dst, bytes, n);
}

/* ------------------------------------------------------------------- the steps -- */

/*
 * Fills the parts of messages and receives that are the same each time the schedule runs.  A call that repeats an
 * earlier call has the signature, the kinds of memory and the operation of that call.
 */
static void steps_prepare_step(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	coll_send_t *send = &op->run[i].u.send;
	struct recv *recv = &op->run[i].u.recv;

	memset(&op->run[i].u, 0, sizeof(op->run[i].u));
	if (step->kind == STEP_SEND) {
		memcpy(send->header.meta, op->call.signature.meta, sizeof(send->header.meta));
		send->header.len = step->len;
		send->peer = (uint32_t)op->lane->to_context_rank[step->peer];
		send->memory = step->len ? op->where[step->src.buf] : COLL_MEM_HOST;
	}
	if (!sched_is_recv(step))
		return;
	memcpy(recv->meta, op->call.signature.meta, sizeof(recv->meta));
	recv->len = step->len;
	recv->peer = step->peer < 0 ? COLL_ANY_SOURCE : op->lane->to_context_rank[step->peer];
	recv->op = op;
	recv->step = i;
	recv->numbered = i == 0 && op->in_pieces;
	if (step->len && op->where[step->dst.buf] != COLL_MEM_HOST)
		recv->device = op->where[step->dst.buf];
	if (step->kind == STEP_RECV_REDUCE) {
		recv->redop = &op->call.redop;
		recv->swapped = step->swapped;
		if (sched_scales(&op->sched, step->src))
			recv->divisor = op->lane->comm->nranks;
		recv->unscaled = step->unscaled;
		recv->elem = (uint32_t)op->sched.elem;
		if (!recv->divisor && !recv->unscaled && !recv->device && step->len)
			recv->kernel = op->call.redop.kernel;
	}
}

static void steps_send_failed(const struct op *op, int i, int code, const coll_error_t *err)
{
	struct lane *lane = op->lane;
	struct rank_name name, own;

	error_take(code, err);
	lane_set_pending(lane, code, "%s cannot send to %s: %s", comm_own_name(lane, &own),
			 comm_rank_name(lane, op->sched.step[i].peer, &name), error_text());
}

/* in_pieces: op->in_pieces, which few and short steps do not have; likewise of steps_recv. */
__attribute__((always_inline)) static inline void steps_send(struct op *op, int i, int in_pieces)
{
	coll_send_t *send = &op->run[i].u.send;
	struct context *context = op->lane->context;
	coll_error_t err;
	int code;

	send->header.tag = op->tag | (op->sched.step[i].msg & TAG_MSG_MASK);
	if (in_pieces && i) /* the message before the pieces has their number */
		send->header.tag = op->pieces_tag;
	else if (in_pieces)
		send->header.meta[0] = op->call.signature.meta[0] | op->pieces_tag << 32;
	error_clear(&err);
	memset(send->plugin, 0, sizeof(send->plugin));
	send->status = COLL_IN_PROGRESS;
	/* Only a message that others may follow waits for them: a lone one leaves before anything else is done. */
	code = op->next ? context_send_more(context, send, &err)
			: context->plugin->backend.transport->send(context->ep, send, &err);
	if (code)
		steps_send_failed(op, i, code, &err);
	else if (send->status == COLL_SUCCESS)
		steps_finish_step(op, i);
	else
		op->sending[op->sending_count++] = i;
}

__attribute__((always_inline)) static inline void steps_recv(struct op *op, int i, int in_pieces)
{
	const struct step *step = &op->sched.step[i];
	struct recv *recv = &op->run[i].u.recv;
	struct lane *lane = op->lane;

	recv->tag = op->tag | (step->msg & TAG_MSG_MASK);
	if (step->peer < 0)
		recv->peer = COLL_ANY_SOURCE;
	if (in_pieces && i) {
		/* The pieces come from the rank that the message before them came from. */
		recv->tag = op->pieces_tag;
		recv->peer = op->run[0].u.recv.peer;
	} else if (in_pieces) {
		recv->meta[0] = op->call.signature.meta[0];
	}
	match_post_ordered(&lane->traffic->match, recv);
	if (lane->nleft && recv->state == RECV_POSTED && step->peer >= 0)
		lane->queue.left_awaited |= lane->peer_state[step->peer] == PEER_LEFT;
}

static void steps_reduce(struct op *op, const struct step *step)
{
	char *dst = steps_at(op, step->dst), *src = steps_at(op, step->src);
	char *other = steps_at(op, step->other);
	const struct redop *redop = &op->call.redop;
	size_t count = step->len / op->sched.elem;

	if (sched_scales(&op->sched, step->src))
		redop_apply_divided(redop, dst, src, other, count, op->lane->comm->nranks);
	else if (sched_scales(&op->sched, step->other))
		redop_apply_divided(redop, dst, other, src, count, op->lane->comm->nranks);
	else
		redop_apply(redop, dst, src, other, count);
}

/* A step without a peer.  A copy that fails does not complete: the communicator fails. */
static void steps_local(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	char *dst = steps_at(op, step->dst), *src = steps_at(op, step->src);

	if (step->kind == STEP_COPY && step->len <= STEPS_SHORT && !op->sched.scale &&
	    (op->where[step->dst.buf] | op->where[step->src.buf]) == COLL_MEM_HOST) {
		if (step->len && dst != src)
			memcpy(dst, src, step->len);
		steps_finish_step(op, i);
		return;
	}
	if (step->len > STEPS_LONG)
		context_flush(op->lane->context);
	if (step->kind == STEP_REDUCE) {
		steps_reduce(op, step);
	} else if (step->kind == STEP_FINISH) {
		redop_divide(&op->call.redop, dst, dst, step->len / op->sched.elem,
			     op->lane->comm->nranks);
	} else if (step->kind == STEP_COPY && step->len && sched_scales(&op->sched, step->src)) {
		redop_divide(&op->call.redop, dst, src, step->len / op->sched.elem,
			     op->lane->comm->nranks);
	} else if (step->kind == STEP_COPY && step->len && dst != src) {
		if ((op->where[step->dst.buf] | op->where[step->src.buf]) == COLL_MEM_HOST)
			copy_payload(dst, src, step->len);
		else if (steps_copy(op->lane, dst, src, step->len))
			return;
	}
	steps_finish_step(op, i);
}

/* ------------------------------------------------------------ one operation -- */

static int steps_reap_sends(struct op *op)
{
	int in_flight = 0, moved = 0, n = op->sending_count;

	for (int k = 0; k < n; k++) {
		int i = op->sending[k];
		int status = op->run[i].u.send.status;

		if (status == COLL_IN_PROGRESS) {
			op->sending[in_flight++] = i;
			continue;
		}
		moved = 1;
		op->last_peer = op->sched.step[i].peer;
		if (status)
			op->failed_send = i;
		else
			steps_finish_step(op, i);
	}
	op->sending_count = in_flight;
	return moved;
}

static void steps_report_send(struct op *op)
{
	int i = op->failed_send, peer = op->sched.step[i].peer;
	struct lane *lane = op->lane;
	struct rank_name name, own;

	op->failed_send = -1;
	if (lane->peer_state[peer] == PEER_LEFT)
		comm_fail(lane, 0, COLL_ERR_PEER_LOST,
			  "%s destroyed its communicator before %s could send to it",
			  comm_rank_name(lane, peer, &name), comm_own_name(lane, &own));
	else
		steps_peer_failed(lane, peer, op->run[i].u.send.status);
}

/* Can a step start without a further event? */
static int steps_has_ready(const struct op *op)
{
	return (op->ready_count | op->local_count) != 0 ||
	       (op->ready_sends_count && op->sending_count < STEPS_SENDS);
}

static int steps_run_ready(struct op *op)
{
	int moved = op->ready_count > 0;

	while (op->ready_sends_count && op->sending_count < STEPS_SENDS && !op->lane->error) {
		int i = op->ready_sends[op->ready_sends_head];

		if (++op->ready_sends_head == op->cap_steps)
			op->ready_sends_head = 0;
		op->ready_sends_count--;
		steps_tell(op, i);
		steps_send(op, i, op->in_pieces);
		moved = 1;
	}
	for (int k = 0; k < op->ready_count && !op->lane->error; k++) {
		/* The message may be here, and is then reduced now. */
		if (op->sched.step[op->ready[k]].len > STEPS_LONG)
			context_flush(op->lane->context);
		steps_tell(op, op->ready[k]);
		steps_recv(op, op->ready[k], op->in_pieces);
	}
	op->ready_count = 0;
	return moved;
}

int steps_run(struct op *op)
{
	struct traffic *traffic = op->lane->traffic;
	struct recv *recv;
	int moved = 0, again;

	do {
		while ((recv = match_next_done(&traffic->match)))
			steps_received(recv);
		if (!op->steps_left && !op->lane->error)
			return moved;
		again = steps_run_ready(op);
		if (op->sending_count)
			again |= steps_reap_sends(op);
		if (op->failed_send >= 0) {
			steps_report_send(op);
			return 1;
		}
		if (op->lane->error)
			return 1;
		if (op->local_count) {
			steps_tell(op, op->local[op->local_count - 1]);
			steps_local(op, op->local[--op->local_count]);
			again = 1;
		}
		if (op->call.staged && traffic->copies.pending)
			again |= copies_progress(&traffic->copies);
		moved |= again;
	} while (op->steps_left &&
		 (traffic->match.done || (again && (op->call.staged || steps_has_ready(op)))));
	return moved;
}

/* Bytes of a pre-multiplied sum's scaled input, which lies behind the schedule's own scratch memory. */
static size_t steps_scaled_bytes(const struct op *op)
{
	return op->call.elements[COLL_BUFFER_SEND] * op->sched.elem;
}

/* Scales the input of a pre-multiplied sum; the blocks of a list follow one another in the copy. */
static void steps_scale(const struct op *op, char *to, const char *input, size_t bytes)
{
	const size_t elem = op->sched.elem, count = op->call.args.count;

	if (!(op->call.list & 1 << COLL_BUFFER_SEND)) {
		redop_scale(&op->call.redop, to, input, bytes / elem);
		return;
	}
	for (int r = 0; r < op->lane->comm->nranks; r++)
		redop_scale(&op->call.redop, to + (size_t)r * count * elem,
			    input + op->call.args.senddispls[r] * elem, count);
}

/*
 * Bytes for long elements that come in parts, one for each step.  They lie behind the schedule's own scratch memory:
 * only the application's functions reduce long elements, and such a reduction has no scaled input.
 */
static size_t steps_carry_bytes(const struct op *op)
{
	const struct recv *recv = NULL;

	if (op->sched.elem <= sizeof(recv->carry))
		return 0;
	return (size_t)op->sched.nsteps * op->sched.elem;
}

int steps_reserve(struct op *op)
{
	int n = op->sched.nsteps;

	if (n > op->cap_steps) {
		free(op->run);
		free(op->ready);
		op->cap_steps = 0;
		op->run = malloc((size_t)n * sizeof(*op->run));
		op->ready = malloc(4 * (size_t)n * sizeof(*op->ready));
		if (!op->run || !op->ready)
			return COLL_ERR_NO_MEMORY;
		op->cap_steps = n;
		op->ready_sends = op->ready + n;
		op->local = op->ready_sends + n;
		op->sending = op->local + n;
	}
	op->scratch_bytes = op->sched.scratch;
	if (op->call.redop.premul_sum)
		op->scratch_bytes += steps_scaled_bytes(op);
	if (op->call.redop.fn)
		op->scratch_bytes += steps_carry_bytes(op);
	return COLL_SUCCESS;
}

/* Finds the buffers of the schedule: staging memory may stand for the caller's. */
static void steps_find_buffers(struct op *op)
{
	op->base[SCHED_SEND] = (char *)(uintptr_t)op->call.args.sendbuf;
	op->base[SCHED_RECV] = op->call.args.recvbuf;
	op->base[SCHED_SCRATCH] = op->scratch.at;
	op->where[SCHED_SCRATCH] = COLL_MEM_HOST;
	for (int buf = SCHED_SEND; buf <= SCHED_RECV; buf++) {
		int staged = op->call.staged & 1 << buf;

		op->base[buf] = staged ? op->staging.base[buf] : op->base[buf];
		op->where[buf] = staged ? COLL_MEM_HOST : op->call.memory[buf];
	}
}

/* Puts the scaled copy of a pre-multiplied sum's input in its place. */
static void steps_scale_input(struct op *op)
{
	const size_t scaled = steps_scaled_bytes(op);
	const char *input = op->base[SCHED_SEND];

	if (!scaled)
		return;
	if (scaled > STEPS_LONG)
		context_flush(op->lane->context);
	op->base[SCHED_SEND] = (char *)op->scratch.at + op->sched.scratch;
	/* A staged input is scaled when its copy in ends: see staging_copied. */
	if (!(op->call.staged & 1 << SCHED_SEND))
		steps_scale(op, op->base[SCHED_SEND], input, scaled);
}

/* Fills in the addresses of messages and receives, which are the same while the buffers of the call are. */
static void steps_place_step(struct op *op, int i)
{
	const struct step *step = &op->sched.step[i];
	struct recv *recv = &op->run[i].u.recv;

	if (step->kind == STEP_SEND)
		op->run[i].u.send.buf = step->len ? steps_at(op, step->src) : NULL;
	if (!sched_is_recv(step))
		return;
	recv->state = RECV_IDLE;
	recv->dst = steps_at(op, step->dst);
	if (step->kind != STEP_RECV_REDUCE)
		return;
	recv->own = steps_at(op, step->src);
	if (op->sched.elem > sizeof(recv->carry))
		recv->long_carry =
			(uint8_t *)op->scratch.at + op->sched.scratch + (size_t)i * op->sched.elem;
}

void steps_prepare(struct op *op)
{
	const int n = op->sched.nsteps;

	steps_find_buffers(op);
	if (op->call.redop.premul_sum)
		steps_scale_input(op);
	op->pieces_tag = op->call.args.kind == COLL_KIND_SEND && op->in_pieces
				 ? tag_pieces(op->lane, ++op->lane->composed->cut_messages)
				 : 0;
	op->ready_count = op->ready_sends_head = op->ready_sends_count = 0;
	op->local_count = op->sending_count = 0;
	op->failed_send = -1;
	if (op->stage < PLAN_FILLED)
		op->few = n <= STEPS_FEW && !op->call.staged && !op->in_pieces;
	for (int i = 0; i < n; i++) {
		if (op->stage < PLAN_FILLED) {
			steps_prepare_step(op, i);
			op->few &= op->sched.step[i].len <= STEPS_SHORT;
		}
		steps_place_step(op, i);
		op->run[i].earlier = op->sched.step[i].earlier;
	}
	op->stage = op->call.staged || op->call.redop.premul_sum || op->in_pieces ? PLAN_FILLED
										  : PLAN_PLACED;
}

static void steps_start_many(struct op *op)
{
	const struct sched *s = &op->sched;

	op->started = s->nsteps;
	for (int i = 0; i < s->nsteps; i++)
		if (!s->step[i].earlier)
			steps_make_ready(op, i);
	steps_run(op);
}

/*
 * Few steps start in the order in which the algorithm has appended them: a step that completes at once has released the
 * later steps when their turn comes.  steps_finish_step releases the steps that must wait, as in any schedule.
 */
void steps_start(struct op *op)
{
	const struct sched *s = &op->sched;
	const int n = s->nsteps, observed = LANE_OBSERVED(op->lane, COLL_OBSERVE_STEP);

	op->tag = op->collective ? tag_collective(op->lane, op->seq, 0)
				 : tag_user(op->lane, op->call.args.tag);
	op->steps_left = n;
	for (int i = 0; s->nedges && i < n; i++) /* the last run has counted down */
		op->run[i].earlier = s->step[i].earlier;
	if (!op->few) {
		steps_start_many(op);
		return;
	}
	for (int i = 0; i < n; i++) {
		op->started = i + 1;
		if (op->run[i].earlier)
			continue;
		if (observed)
			observed_short_step(op, i);
		switch (s->step[i].kind) {
		case STEP_SEND: steps_send(op, i, 0); break;
		case STEP_RECV:
		case STEP_RECV_REDUCE: steps_recv(op, i, 0); break;
		default: steps_local(op, i); break;
		}
	}
	if (observed)
		observed_short_steps_begun(op);
}

/* ------------------------------------------------------------------ cancelling -- */

void steps_cancel_recv(struct context *context, struct recv *recv)
{
	const coll_transport_t *t = context->plugin->backend.transport;
	const uint64_t cookie = match_withdraw(&traffic_of(context)->match, recv);

	if (cookie && context->ep && t->drop)
		t->drop(context->ep, cookie);
	else if (cookie)
		context_shut(context);
}

void steps_cancel_send(struct context *context, coll_send_t *send)
{
	const coll_transport_t *t = context->plugin->backend.transport;

	if (send->status != COLL_IN_PROGRESS || !context->ep)
		return;
	if (t->cancel)
		t->cancel(context->ep, send);
	else
		context_shut(context);
}

void steps_cancel_op(struct op *op)
{
	struct context *context = op->lane->context;

	for (int k = 0; k < op->sending_count; k++)
		steps_cancel_send(context, &op->run[op->sending[k]].u.send);
	for (int i = 0; op->cap_steps && i < op->sched.nsteps; i++)
		if (sched_is_recv(&op->sched.step[i]))
			steps_cancel_recv(context, &op->run[i].u.recv);
	staging_cancel(op);
}
