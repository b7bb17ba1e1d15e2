/* SPDX-License-Identifier: BSD-3-Clause */
/* observed.c - fills in the events of a communicator for its observers: see observed.h. */
#include "comm/observed.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "comm/call_log.h"
#include "comm/lane.h"
#include "comm/lane_log.h"
#include "comm/op.h"
#include "comm/run.h"
#include "device/offload.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	OBSERVED_KEPT_FIRST = 64,
	/* Of calls that come when a backend has so many in its hands already, the END lacks the details. */
	OBSERVED_KEPT_MOST = 1 << 14
};

/*
 * The event that a lane has told last, under the lane's lock.  The next event of the same operation is this event with a few
 * fields changed: to fill in all fields costs 20 ns.
 */
struct observed_lane {
	const struct op *op; /* of `event`; NULL: none */
	coll_observed_t event;
	uint64_t count, bytes; /* of the call; its steps have others */
	int32_t peer;
	int64_t time_ns; /* of the last event of all */
	int at_once;     /* nothing that takes time has been done since time_ns */
	int begins;      /* the number of the short step that begins now, from 1; or 0 */
};

/* What all events of a communicator say. */
struct observed_comm {
	uint64_t number;
	int world_rank;
	int32_t *world_ranks;
	char id[32];
	_Atomic int failed; /* one lane has told of the failure */
	struct observed_lane lane[LANES];
	/*
	 * The calls in the hands of a backend without a transport, which have left the queue: call `number` is at
	 * number & kept_mask.  NULL: there was none yet, or memory has run out.
	 */
	coll_observed_t *kept;
	uint64_t kept_mask;
};

/* --------------------------------------------------------------------- communicators -- */

static struct observed_lane *observed_last(const struct lane *lane)
{
	return &lane->comm->observed->lane[lane->index];
}

/* When an event happens.  Reading the clock takes as long as all else that the core does for an event. */
enum observed_when {
	OBSERVED_NOW,
	OBSERVED_THEN /* with the last event of the lane: nothing that takes time has been done since */
};

static inline int64_t observed_time(const struct lane *lane, enum observed_when when)
{
	struct observed_lane *last = observed_last(lane);

	if (when == OBSERVED_NOW)
		last->time_ns = clock_now_ns();
	last->at_once = last->begins = 0;
	return last->time_ns;
}

static void observed_fill(coll_observed_t *event, const struct lane *lane, uint32_t what, int phase,
			  int64_t time_ns)
{
	const struct comm *comm = lane->comm;

	*event = (coll_observed_t){.size = sizeof(coll_observed_t),
				   .what = what,
				   .phase = phase,
				   .time_ns = time_ns,
				   .comm = comm->observed->number,
				   .comm_id = comm->observed->id,
				   .rank = comm->rank,
				   .nranks = comm->nranks,
				   .world_rank = comm->observed->world_rank,
				   .lane = lane->index,
				   .op = -1,
				   .peer = -1};
}

void observed_event(coll_observed_t *event, const struct lane *lane, uint32_t what, int phase)
{
	observed_fill(event, lane, what, phase, observed_time(lane, OBSERVED_NOW));
}

void observed_tell(const struct lane *lane, const coll_observed_t *event)
{
	observers_tell(lane->context->observers, &lane->seen->inside, event, 0);
}

/* Another event makes up for this one. */
static void observed_tell_all(const struct lane *lane, const coll_observed_t *event)
{
	if (LANE_OBSERVED(lane, OBSERVE_ALL))
		observers_tell(lane->context->observers, &lane->seen->inside, event, OBSERVE_ALL);
}

/* Returns NULL: memory has run out. */
static struct observed_comm *observed_new(const struct lane *lane)
{
	static _Atomic uint64_t numbers;
	const size_t n = (size_t)lane->comm->nranks;
	struct observed_comm *observed = calloc(1, sizeof(*observed));

	if (!observed)
		return NULL;
	observed->world_ranks = calloc(n, sizeof(*observed->world_ranks));
	if (!observed->world_ranks) {
		free(observed);
		return NULL;
	}
	for (size_t r = 0; r < n; r++)
		observed->world_ranks[r] = comm_world_rank(lane, (int)r);
	observed->world_rank = observed->world_ranks[lane->comm->rank];
	observed->number = atomic_fetch_add(&numbers, 1) + 1;
	comm_write_id(lane, observed->id);
	return observed;
}

/* Tells of the native lane, whose backend and id are the communicator's. */
static void observed_tell_comm(struct comm *comm, int phase)
{
	const struct lane *lane = comm->lane[LANE_FIRST];
	coll_observed_t event;

	if (!LANE_OBSERVED(lane, COLL_OBSERVE_COMM))
		return;
	observed_event(&event, lane, COLL_OBSERVE_COMM, phase);
	event.host = bootstrap_peer(lane->context->bootstrap, lane->context->rank)->host;
	event.backend = lane->context->plugin->backend.name;
	event.job = context_job(lane->context);
	event.parent = comm->parent;
	event.world_ranks = phase == COLL_OBSERVED_BEGIN ? comm->observed->world_ranks : NULL;
	event.code = phase == COLL_OBSERVED_END ? lane->error : 0;
	observed_tell(lane, &event);
}

void observed_comm_made(struct comm *comm)
{
	comm->observed = observed_new(comm->lane[LANE_FIRST]);
	if (!comm->observed) {
		lane_log(comm->lane[LANE_FIRST], COLL_LOG_WARN,
			 "rank %d: no memory to tell the observers of a communicator", comm->rank);
		return;
	}
	for (int i = 0; i < LANES; i++)
		if (comm->lane[i])
			comm->lane[i]->observed = comm->lane[i]->context->observed;
	observed_tell_comm(comm, COLL_OBSERVED_BEGIN);
}

void observed_comm_ends(struct comm *comm)
{
	observed_tell_comm(comm, COLL_OBSERVED_END);
}

void observed_comm_free(struct comm *comm)
{
	if (!comm->observed)
		return;
	free(comm->observed->world_ranks);
	free(comm->observed->kept);
	free(comm->observed);
}

uint64_t observed_number(const struct comm *comm)
{
	return comm->observed ? comm->observed->number : 0;
}

void observed_failure(struct lane *lane)
{
	coll_observed_t event;

	if (atomic_exchange(&lane->comm->observed->failed, 1))
		return;
	observed_event(&event, lane, COLL_OBSERVE_FAILURE, COLL_OBSERVED_BEGIN);
	event.code = lane->error;
	event.text = lane->comm->outcome->text;
	observed_tell(lane, &event);
}

/* ----------------------------------------------------------------------------- calls -- */

/* By the operation's engine: the queue hands a call that the backend declines to another engine than the call's. */
static const char *observed_algorithm(const struct op *op)
{
	const struct lane *lane = op->lane;

	if (op->call.slot && op->engine == lane->engine[ENGINE_NATIVE])
		return "native";
	return lane->client->algorithm ? lane->client->algorithm(&op->call) : NULL;
}

/* Fills in ISSUED of a call.  seq: of a collective its number, from 0. */
static void observed_call(coll_observed_t *event, const struct lane *lane, const struct call *call,
			  uint64_t number, uint32_t seq, int64_t time_ns)
{
	const coll_args_t *a = &call->args;
	const struct kind *kind = call->kind;
	struct record record;

	observed_fill(event, lane, COLL_OBSERVE_CALL, COLL_OBSERVED_ISSUED, time_ns);
	call_log_fill(&record, call, &call->signature);
	event->kind = a->kind;
	event->number = number;
	event->collective = kind->is_collective ? (uint64_t)seq + 1 : 0;
	event->dtype = a->dtype;
	event->op = kind->reduces ? a->op : -1;
	event->peer = kind->has_root || kind->is_p2p ? a->root : -1;
	event->tag = kind->is_p2p ? (int32_t)a->tag : 0;
	event->count = record.count;
	event->bytes = record.count * coll_dtype_size(a->dtype);
	event->send_memory = call->memory[COLL_BUFFER_SEND];
	event->recv_memory = call->memory[COLL_BUFFER_RECV];
	event->stream = (uint64_t)(uintptr_t)a->stream;
}

/* The library's own operations that are no calls (KIND_AWAIT) have no kind. */
static int observed_has_call(const struct op *op)
{
	return op->call.kind != NULL;
}

/* The event is of an earlier call of the same plan, which differs by its number, buffers and stream. */
static inline void observed_repeat(coll_observed_t *event, const struct op *op)
{
	event->number = op->number;
	event->collective = op->call.kind->is_collective ? (uint64_t)op->seq + 1 : 0;
	event->send_memory = op->call.memory[COLL_BUFFER_SEND];
	event->recv_memory = op->call.memory[COLL_BUFFER_RECV];
	event->stream = (uint64_t)(uintptr_t)op->call.args.stream;
	event->algorithm = NULL;
}

__attribute__((noinline)) static void observed_renew(struct observed_lane *last,
						     const struct op *op)
{
	observed_call(&last->event, op->lane, &op->call, op->number, op->seq, last->time_ns);
	last->op = op;
	last->count = last->event.count;
	last->bytes = last->event.bytes;
	last->peer = last->event.peer;
}

/*
 * Returns the event that the lane told last, if that is of the operation, or fills in a new event.  is_new: fills in a new one
 * anyway, for ISSUED and BEGIN: some fields of the call are known at its BEGIN only.
 */
static inline coll_observed_t *observed_of(const struct op *op, int is_new)
{
	struct observed_lane *last = observed_last(op->lane);
	const int is_same = last->op == op && last->event.number == op->number;

	/* The plan of an operation that is issued is whole if the call is the same as the operation's call before. */
	if (is_new && !is_same && last->op == op && op->stage == PLAN_PLACED)
		observed_repeat(&last->event, op);
	else if (is_new || !is_same)
		observed_renew(last, op);
	return &last->event;
}

static coll_observed_t *observed_op_event(struct op *op, int phase, int code,
					  enum observed_when when)
{
	coll_observed_t *event = observed_of(op, phase != COLL_OBSERVED_END);
	const struct observed_lane *last = observed_last(op->lane);

	event->time_ns = observed_time(op->lane, when);
	event->what = COLL_OBSERVE_CALL;
	event->phase = phase;
	event->count = last->count;
	event->bytes = last->bytes;
	event->peer = last->peer;
	event->step = event->index = 0;
	event->code = code;
	if (phase != COLL_OBSERVED_ISSUED && !event->algorithm)
		event->algorithm = observed_algorithm(op);
	if (phase == COLL_OBSERVED_ISSUED) {
		op->issued_ns = event->time_ns;
		op->begin_ns = 0;
	} else if (phase == COLL_OBSERVED_BEGIN) {
		op->begin_ns = event->time_ns;
	}
	event->issued_ns = phase == COLL_OBSERVED_ISSUED ? 0 : op->issued_ns;
	event->begin_ns = phase == COLL_OBSERVED_END ? op->begin_ns : 0;
	return event;
}

void observed_op(struct op *op, int phase, int code)
{
	if (observed_has_call(op))
		observed_tell(op->lane, observed_op_event(op, phase, code, OBSERVED_NOW));
}

void observed_op_at_once(struct op *op)
{
	coll_observed_t *event;

	if (!observed_has_call(op))
		return;
	event = observed_op_event(op, COLL_OBSERVED_ISSUED, COLL_SUCCESS, OBSERVED_NOW);
	if (op->stage < PLAN_PLACED) {
		observed_tell(op->lane, event);
		return;
	}
	observed_tell_all(op->lane, event);
	event->phase = COLL_OBSERVED_BEGIN;
	event->algorithm = observed_algorithm(op);
	event->issued_ns = op->begin_ns = event->time_ns;
	observed_tell(op->lane, event);
	observed_last(op->lane)->at_once = 1;
}

void observed_op_done(struct op *op)
{
	const int ends_with_step = op->sched.nsteps && !op->call.staged &&
				   LANE_OBSERVED(op->lane, COLL_OBSERVE_STEP) &&
				   observed_last(op->lane)->time_ns > op->begin_ns;

	if (observed_has_call(op))
		observed_tell(op->lane,
			      observed_op_event(op, COLL_OBSERVED_END, COLL_SUCCESS,
						ends_with_step ? OBSERVED_THEN : OBSERVED_NOW));
}

/* ------------------------------------------------- calls in the hands of a backend -- */

/* Makes room for one more call.  Returns 0: memory has run out, or the backend has too many. */
static int observed_keep_more(struct lane *lane)
{
	struct observed_comm *observed = lane->comm->observed;
	const uint64_t mask = observed->kept ? observed->kept_mask : 0;
	const uint64_t capacity = observed->kept ? (mask + 1) * 2 : OBSERVED_KEPT_FIRST;
	coll_observed_t *more;

	if (observed->kept && lane->issued - lane->finished <= mask)
		return 1;
	if (capacity > OBSERVED_KEPT_MOST)
		return 0;
	more = calloc(capacity, sizeof(*more));
	if (!more)
		return 0;
	for (uint64_t i = 0; observed->kept && i <= mask; i++)
		if (observed->kept[i].number) /* an empty slot has number 0 */
			more[observed->kept[i].number & (capacity - 1)] = observed->kept[i];
	free(observed->kept);
	observed->kept = more;
	observed->kept_mask = capacity - 1;
	return 1;
}

/* Keeps the BEGIN of a call, from which observed_native_end makes the END. */
static void observed_keep(struct lane *lane, const coll_observed_t *begin)
{
	struct observed_comm *observed = lane->comm->observed;
	coll_observed_t *kept;

	if (!observed_keep_more(lane))
		return;
	kept = &observed->kept[begin->number & observed->kept_mask];
	*kept = *begin;
	kept->begin_ns = begin->time_ns;
}

void observed_native_call(struct lane *lane, const struct call *call, uint32_t seq)
{
	coll_observed_t event;

	observed_call(&event, lane, call, lane->issued, seq, observed_time(lane, OBSERVED_NOW));
	observed_tell_all(lane, &event);
	event.algorithm = "native";
	event.phase = COLL_OBSERVED_BEGIN;
	event.issued_ns = event.time_ns;
	observed_keep(lane, &event);
	observed_tell(lane, &event);
}

void observed_native_op(struct op *op)
{
	coll_observed_t *event;

	if (!observed_has_call(op))
		return;
	event = observed_op_event(op, COLL_OBSERVED_BEGIN, COLL_SUCCESS, OBSERVED_NOW);
	event->algorithm = "native";
	observed_keep(op->lane, event);
	observed_tell(op->lane, event);
}

void observed_native_end(struct lane *lane, uint64_t before, uint64_t last, int code)
{
	const struct observed_comm *observed = lane->comm->observed;
	coll_observed_t blank;

	observed_event(&blank, lane, COLL_OBSERVE_CALL, COLL_OBSERVED_END);
	for (uint64_t number = before + 1; number <= last; number++) {
		coll_observed_t *kept =
			observed->kept ? &observed->kept[number & observed->kept_mask] : NULL;
		coll_observed_t event = kept && kept->number == number ? *kept : blank;

		event.number = number;
		event.phase = COLL_OBSERVED_END;
		event.time_ns = blank.time_ns;
		event.code = code;
		observed_tell(lane, &event);
	}
}

/* ----------------------------------------------------------------------------- steps -- */

static int observed_is_copy(const struct step *step)
{
	return step->kind >= STEP_COPY_IN;
}

/* Returns the event of the step, without its times. */
static coll_observed_t *observed_step_event(const struct op *op, int i, int phase)
{
	const struct step *step = &op->sched.step[i];
	const int copies = observed_is_copy(step);
	const uint32_t what = copies ? COLL_OBSERVE_COPY : COLL_OBSERVE_STEP;
	coll_observed_t *event = observed_of(op, 0);

	if (event->what != what || event->bytes != step->len) /* a division takes long */
		event->count = step->len / op->sched.elem;
	event->what = what;
	event->phase = phase;
	if (!event->algorithm)
		event->algorithm = observed_algorithm(op);
	event->peer = copies ? -1 : step->peer;
	event->bytes = step->len;
	event->step = copies ? step->kind == STEP_COPY_OUT : step->kind;
	event->index = i;
	event->code = COLL_SUCCESS;
	event->issued_ns = event->begin_ns = 0;
	return event;
}

/* A stream of the program copies, and nobody here sees when. */
static int observed_has_step(const struct op *op, int i)
{
	const int copies = observed_is_copy(&op->sched.step[i]);

	return LANE_OBSERVED(op->lane, copies ? COLL_OBSERVE_COPY : COLL_OBSERVE_STEP) &&
	       op->call.kind && !(copies && op->offload->on_stream);
}

void observed_step(const struct op *op, int i, int phase)
{
	const int ends = phase == COLL_OBSERVED_END;
	coll_observed_t *event;

	if (!observed_has_step(op, i))
		return;
	event = observed_step_event(op, i, phase);
	event->time_ns = observed_time(
		op->lane, observed_last(op->lane)->begins == i + 1 ? OBSERVED_THEN : OBSERVED_NOW);
	if (ends)
		event->begin_ns = op->run[i].begin_ns;
	else
		op->run[i].begin_ns = event->time_ns;
	observed_tell(op->lane, event);
	observed_last(op->lane)->at_once = ends;
}

void observed_short_step(const struct op *op, int i)
{
	const int at_once = observed_last(op->lane)->at_once;
	coll_observed_t *event;

	op->run[i].begin_ns = observed_time(op->lane, at_once ? OBSERVED_THEN : OBSERVED_NOW);
	if (LANE_OBSERVED(op->lane, OBSERVE_ALL) && observed_has_step(op, i)) {
		event = observed_step_event(op, i, COLL_OBSERVED_BEGIN);
		event->time_ns = op->run[i].begin_ns;
		observed_tell_all(op->lane, event);
	}
	observed_last(op->lane)->begins = i + 1;
}

void observed_short_steps_begun(const struct op *op)
{
	observed_last(op->lane)->begins = 0;
}

/* ----------------------------------------------------------------------------- waits -- */

void observed_wait(const struct lane *lane, uint64_t number, int phase, int64_t *since)
{
	const struct record *op = call_log_record(lane, number);
	coll_observed_t event;

	observed_event(&event, lane, COLL_OBSERVE_WAIT, phase);
	event.number = number;
	event.kind = op && kind_is_valid(op->kind) ? op->kind : 0;
	if (phase == COLL_OBSERVED_BEGIN)
		*since = event.time_ns;
	else
		event.begin_ns = *since;
	observed_tell(lane, &event);
}
