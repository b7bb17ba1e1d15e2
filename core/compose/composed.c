/* SPDX-License-Identifier: BSD-3-Clause */
/* composed.c - the engine that does calls by messages: see composed.h. */
#include "compose/composed.h"
#include "schedule/algo.h"
#include "schedule/sched.h"
#include "comm/op.h"
#include "comm/queue.h"
#include "compose/steps.h"
#include "compose/stream_order.h"
#include "compose/staging.h"
#include "watch/report.h"
#include "base/dtype.h"
#include "base/error.h"
#include "transport/traffic.h"

#include <stdlib.h>

int composed_new(struct lane *lane)
{
	const struct context *context = lane->context;

	lane->composed = calloc(1, sizeof(*lane->composed));
	if (!lane->composed || nodes_make(&lane->composed->nodes, context->node,
					  lane->to_context_rank, lane->comm->nranks))
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	lane->composed->cpus = context_cpus(context, lane->to_context_rank[0]);
	lane->composed->takes_turns =
		lane->composed->nodes.count == 1 && lane->composed->cpus != CPUS_OWN;
	return COLL_SUCCESS;
}

void composed_free(struct lane *lane)
{
	if (lane->composed)
		nodes_free(&lane->composed->nodes);
	free(lane->composed);
	lane->composed = NULL;
}

/* ------------------------------------------------------------------ the algorithm -- */

/*
 * The bytes of a v-form, for rules: of the mean count.  0 for kinds whose ranks may call with different counts: no rule
 * asks for their bytes.
 */
static uint64_t composed_mean_bytes(const struct lane *lane, const struct call *call)
{
	uint64_t sum = 0;

	if (call->kind->own_counts)
		return 0;
	for (int r = 0; r < lane->comm->nranks; r++)
		sum += call->args.recvcounts[r];
	return sum * coll_dtype_size(call->args.dtype) / (uint64_t)lane->comm->nranks;
}

static inline uint64_t composed_bytes(const struct lane *lane, const struct call *call)
{
	return call->kind->is_v ? composed_mean_bytes(lane, call)
				: call->args.count * coll_dtype_size(call->args.dtype);
}

/* Takes the algorithm that the program has named for this call, or fails. */
static int composed_take_named(struct call *call, const struct call_description *description,
			       uint32_t requirements)
{
	const int named = (int)(call->args.flags >> COLL_ARGS_ALGORITHM) - 1;

	if (call->slot)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "%s: args->flags names an algorithm, but the backend executes the "
				 "call by itself: set it to 0",
				 call->kind->name);
	if (!choose_can(named, description, requirements))
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"%s: args->flags names algorithm %d, which does not serve this call "
			"on %d ranks: `coll info --algorithms` lists the algorithms",
			call->kind->name, named, description->nranks);
	call->algorithm = named;
	return COLL_SUCCESS;
}

int composed_choose(const struct lane *lane, struct call *call)
{
	const struct selection *selection = &lane->traffic->selection;
	const coll_args_t *a = &call->args;
	uint32_t reproducible = choose_requirements(selection, a->kind);
	uint32_t requirements = reproducible | (call->redop.ordered ? COLL_ALGORITHM_ORDERED : 0);
	uint32_t kinds = call->memory[COLL_BUFFER_SEND] | call->memory[COLL_BUFFER_RECV];
	struct call_description description = {.kind = a->kind,
					       .nranks = lane->comm->nranks,
					       .nnodes = lane->composed->nodes.count,
					       .memory = COLL_MEM_HOST,
					       .cpus = lane->composed->cpus,
					       .bytes = composed_bytes(lane, call)};

	if (kinds & ~(uint32_t)COLL_MEM_HOST)
		description.memory = kinds & COLL_MEM_CUDA ? COLL_MEM_CUDA : COLL_MEM_CUDA_MANAGED;
	if (a->flags >> COLL_ARGS_ALGORITHM)
		return composed_take_named(call, &description, requirements);
	call->algorithm = choose_algorithm(selection, &description, requirements);
	if (call->slot || call->algorithm >= 0 || !lane->context->plugin->backend.transport)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_UNSUPPORTED, "%s: this version has no algorithm for it%s",
			 call->kind->name,
			 reproducible   ? " whose results are reproducible"
			 : requirements ? " that combines the ranks' inputs in their order"
					: "");
}

const char *composed_algorithm(const struct call *call)
{
	return call->algorithm >= 0 ? algo_at(call->algorithm)->name : NULL;
}

/* ------------------------------------------------------------------- starting -- */

/* Is an earlier message of the group to the same rank, of the same tag, still on its way from a device? */
static int composed_would_overtake(const struct lane *lane, const struct op *op)
{
	const coll_args_t *a = &op->call.args;

	for (const struct op *e = lane->queue.head; a->kind == COLL_KIND_SEND && e != op;
	     e = e->next)
		if (e->call.args.kind == COLL_KIND_SEND && e->state == OP_RUNNING &&
		    e->call.staged && e->call.args.root == a->root && e->call.args.tag == a->tag &&
		    !steps_has_sent(e))
			return 1;
	return 0;
}

/*
 * Ranks that share processors run one after the other.  If many operations ran beside each other, their messages would fill
 * the rings to ranks that do not run, and their buffers would leave the caches.  So the collectives of a group begin in their
 * order, and each waits until fewer than COMPOSED_BESIDE run or all that run, itself too, have at most so many bytes together.
 * The first that is not complete never waits.  Short ones do not wait, so that a group of many starts fast.  No collective waits
 * before a send or receive of its group, which would wait too: the peer's receive may stand before the peer's group.
 */
enum { COMPOSED_BESIDE = 2, COMPOSED_BESIDE_BYTES = 256 << 10, COMPOSED_SHORT = 1 << 10 };

__attribute__((noinline)) static int composed_is_crowded(struct lane *lane, const struct op *op)
{
	uint64_t bytes = composed_bytes(lane, &op->call);
	int beside = 0;

	if (!op->collective || bytes < COMPOSED_SHORT || op->number < lane->queue.message_number)
		return 0;
	for (const struct op *e = queue_oldest_collective(lane, op); e != op; e = e->next) {
		if (!e->collective || e->state != OP_RUNNING)
			continue;
		bytes += composed_bytes(lane, &e->call);
		if (++beside >= COMPOSED_BESIDE && bytes > COMPOSED_BESIDE_BYTES)
			return 1;
	}
	return 0;
}

/* An operation runs only once all its arrays exist, so that a failure before needs no cancellation. */
static int composed_prepare(struct op *op)
{
	struct lane *lane = op->lane;
	struct rank_name name;
	int code = composed_build(op);

	if (!code && op->stage < PLAN_FILLED)
		code = steps_reserve(op);
	if (!code && op->scratch.size < op->scratch_bytes)
		code = scratch_reserve(lane, &op->scratch, op->scratch_bytes);
	if (code) {
		comm_fail(lane, 0, code, "%s: no memory for the schedule",
			  comm_own_name(lane, &name));
		return code;
	}
	if (op->call.staged) {
		context_flush(lane->context); /* the memory may take long to allocate */
		code = staging_begin(op);
	}
	if (code)
		comm_fail(lane, 0, code, "%s: %s", comm_own_name(lane, &name), error_text());
	else
		steps_prepare(op);
	return code;
}

static enum engine_start composed_start(struct op *op)
{
	if (op->lane->stages_sends && composed_would_overtake(op->lane, op))
		return ENGINE_BLOCKED;
	if (op->lane->composed->takes_turns && composed_is_crowded(op->lane, op))
		return ENGINE_BLOCKED;
	if (op->stage < PLAN_PLACED && composed_prepare(op))
		return ENGINE_STARTED;
	/* Dates the operation before its steps, which may fail the communicator, whose record tells the time. */
	op_begin(op, OP_RUNNING);
	steps_start(op);
	return ENGINE_STARTED;
}

/* ------------------------------------------------------------------- running -- */

static int composed_advance(struct op *op)
{
	const int moved =
		(op->lane->traffic->match.done || steps_may_move_alone(op)) && steps_run(op);

	if (!op->lane->error && !op->steps_left && (!op->ordered || stream_order_drained(op)))
		op_end(op);
	return moved;
}

/* The copies of a result to a device may come after the last step. */
static int composed_rests(const struct op *op)
{
	return op->steps_left && !steps_may_move_alone(op) && !op->lane->traffic->match.done;
}

static int composed_awaits(const struct op *op, uint8_t *ranks)
{
	const struct lane *lane = op->lane;
	int any = 0;

	for (int i = 0; i < op->sched.nsteps; i++) {
		const struct step *step = &op->sched.step[i];
		const struct recv *recv = &op->run[i].u.recv;

		if (!sched_is_recv(step) || recv->state != RECV_POSTED ||
		    recv->peer == COLL_ANY_SOURCE)
			continue;
		ranks[lane->to_comm_rank[recv->peer]] = 1;
		any = 1;
	}
	return any;
}

static void composed_forget(struct op *op)
{
	sched_free(&op->sched);
	free(op->run);
	free(op->ready);
}

/* ------------------------------------------------------- an operation by itself -- */

/*
 * Has the context of a communicator that has not failed nothing to look at but messages for it?  So it is for most calls of
 * most programs.
 */
static inline int composed_is_quiet(const struct lane *lane)
{
	const struct traffic *traffic = lane->traffic;
	const struct context *context = &traffic->context;
	const void *objects = (void *)((uintptr_t)lane->order | (uintptr_t)lane->tasks.limited |
				       (uintptr_t)lane->tasks.awaited | (uintptr_t)lane->next_busy |
				       (uintptr_t)traffic->controls);
	const int counts = lane->nleft | lane->messages.looks | context->sleepers |
			   context->pending_events | traffic->match.controls | context->unflushed |
			   atomic_load_explicit(&context->notice.news, memory_order_relaxed);

	return !objects && !counts;
}

/*
 * Moves the only operation; moved: it has moved already.  Returns 0 if context_progress is due, which looks for the
 * cause of a loss before anything else.
 */
__attribute__((always_inline)) static inline int composed_move(struct lane *lane, struct op *op,
							       int moved)
{
	struct traffic *traffic = lane->traffic;
	struct context *context = &traffic->context;
	struct recv *recv;

	moved |= context->plugin->backend.transport->progress(context->ep);
	if (context->pending_events | traffic->match.controls)
		return 0;
	context->progress_count += moved != 0;
	while ((recv = match_next_done(&traffic->match)))
		steps_received(recv);
	if (op->steps_left && steps_may_move_alone(op) && steps_run(op))
		context->progress_count += !moved;
	if (!op->steps_left && !lane->error) {
		op->state = OP_DONE;
		op->logged->ended_us = context->now_us; /* the newest operation is in the log */
		if (LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
			observed_op_done(op);
		queue_pop(op);
	}
	return 1;
}

static int composed_at_once(struct op *op)
{
	struct lane *lane = op->lane;
	struct context *context = lane->context;

	if (lane->queue.head || (context->busy && context->busy != lane) ||
	    !composed_is_quiet(lane) || op->call.args.stream || queue_needs_barrier(lane, op))
		return 0;
	queue_append(op, 0, OP_QUEUED);
	if (LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
		observed_op_at_once(op);
	/* Most calls find nothing to compare. */
	if (op->collective && (lane->log->hash || lane->traffic->match.unexpected_count))
		report_compare_newest(lane);
	if (op->stage < PLAN_PLACED) {
		op->logged->issued_us = context_now(context);
		if (composed_prepare(op))
			return 1;
		op->logged->started_us = op->logged->issued_us;
		if (LANE_OBSERVED(lane, COLL_OBSERVE_CALL))
			observed_op(op, COLL_OBSERVED_BEGIN, COLL_SUCCESS);
	}
	op->state = OP_RUNNING;
	steps_start(op);
	/* The first messages have left: another rank may wait for them, and a look at the clock takes 6 ns. */
	op->logged->issued_us = op->logged->started_us = context_now(context);
	if (!lane->error && !composed_move(lane, op, 1)) {
		context->progress_count++;
		context_progress(context);
	}
	return 1;
}

int composed_poll(struct context *context)
{
	struct lane *lane = context->busy;
	struct op *op = lane ? lane->queue.head : NULL;

	return op && !op->next && op->state == OP_RUNNING && op->engine == &composed_engine &&
	       composed_is_quiet(lane) && composed_move(lane, op, 0);
}

const struct engine composed_engine = {
	.start = composed_start,
	.at_once = composed_at_once,
	.advance = composed_advance,
	.rests = composed_rests,
	.awaits = composed_awaits,
	.cancel = steps_cancel_op,
	.forget = composed_forget,
	.by_messages = 1,
};
