/* SPDX-License-Identifier: BSD-3-Clause */
/* op.h - operations: the plan of a call (plan.h), its turn in the communicator's queue, and the state of its steps. */
#ifndef CORE_COMM_OP_H
#define CORE_COMM_OP_H

#include "comm/call.h"
#include "comm/call_log.h"
#include "comm/comm.h"
#include "comm/counts.h"
#include "comm/observed.h"
#include "comm/plan.h"
#include "comm/scratch.h"
#include "schedule/stage.h"
#include "schedule/sched.h"
#include "device/caller_stream.h"

/*
 * States of an operation.
 *   IDLE       a plan, or of a persistent request
 *   DEFERRED   in the queue; its group is open, or its stream's work is not there
 *   QUEUED     waits for its turn
 *   RUNNING    the engine moves it
 *   SUBMITTED  a backend without a transport has it (native/native.h); it leaves the queue
 *   DONE       complete; it leaves the queue
 */
enum { OP_IDLE, OP_DEFERRED, OP_QUEUED, OP_RUNNING, OP_SUBMITTED, OP_DONE };

struct run;
struct stream_event;

/* COLL_BUFFER_SEND, COLL_BUFFER_RECV and the scalar of an operation may lie on a device: bits of call.staged. */
enum { STAGING_SCALAR = 2 };

/* The layout of an operation's device buffers in the memory that stands in for them: see device/offload.h. */
struct staging {
	struct stage
		stage; /* the offset of each buffer in the memory, and the bytes that this call needs */
	char *base[2]; /* the beginnings of the buffers there, which replace the user's in steps */
	const void *scalar; /* the factor of the operation, on the device */
};

struct op {
	struct op *next;
	struct lane *lane;
	int state;            /* OP_* */
	int rests;            /* nobody looks at it until a message for it has come: see moving.h */
	struct op_list *list; /* of its communicator, in which the operation is; or NULL */
	struct op *list_next, *list_prev;
	const struct engine *engine; /* executes it; set when it is appended to the queue */
	uint64_t number;             /* number of the operation in the communicator, from 1 */
	uint64_t group;              /* operations of one group run at the same time; 0: alone */
	uint32_t seq;                /* collectives: number in the communicator, for tags */
	const void *site;            /* the place in the program that called, or NULL */
	struct record *logged;       /* its slot in the log of calls: see op_is_logged */

	/* --- its plan, which outlives it */

	int stage;      /* enum plan_stage */
	int repeatable; /* later calls may have it */
	int collective; /* its kind is */
	struct call call;
	struct record record; /* for the log, as it is before the operation is issued */
	struct sched sched;
	struct run *run; /* the states of the steps, and their messages: see run.h */
	int cap_steps;   /* capacity of run, ready, ready_sends, local and sending */
	int in_pieces; /* a send or receive in pieces: its first step is the message without bytes */
	int few;       /* the steps are few and short, so that they start in their order */
	char *base[3];     /* addresses of send, receive and scratch memory */
	uint32_t where[3]; /* kinds of memory there: COLL_MEM_* */
	struct scratch scratch;
	size_t scratch_bytes; /* how much of it the schedule needs */
	/* v-forms: four of nranks entries, to which call.args points, and one of blocks without gaps */
	size_t *arrays;
	int persistent; /* belongs to a persistent request: other calls do not have the plan */
	struct op *persistent_next;

	/* --- the way of a composed operation through its steps */

	uint64_t tag;        /* tag of its messages, without their index */
	uint64_t pieces_tag; /* send and receive in pieces: tag of the pieces, once known; else 0 */
	int32_t *ready;      /* the receives that may start */
	int ready_count;
	int32_t *ready_sends; /* a ring buffer of the sends that may start */
	int ready_sends_head, ready_sends_count;
	int32_t *
		local; /* steps without a peer that may run: after all steps with a peer have started */
	int local_count;
	int32_t *sending; /* steps whose send is in flight */
	int sending_count;
	int started;     /* steps_start comes yet to the steps from this one on */
	int failed_send; /* a step whose send has failed, or -1 */
	int steps_left;  /* steps that are not complete */

	/* --- device memory, streams of the program, and other communicators */

	struct staging staging;
	struct stream_event *stream_events; /* which must have passed before it starts */
	struct caller_stream stream;        /* of a call with a stream, over a transport */
	struct offload *ordered;            /* orders such a call with its stream; else NULL */
	struct offload *dependencies;       /* whose streams the call waits for before it starts */
	struct offload *offload;     /* its memory for device buffers, or `ordered`, or NULL */
	struct order_point awaited;  /* KIND_AWAIT: with a reference */
	int64_t issued_ns, begin_ns; /* for observers */
	uint64_t counted;            /* for counters: the stamp of its issue */
	int32_t last_peer; /* for counters: of the message that came or left last, or -1 */
	uint64_t awaited_progress_count; /* progress_count of its context at the last look */
};

/* The context's lock is held in all of these. */

/* Has the log still the record of an operation in the queue? */
static inline int op_is_logged(const struct op *op)
{
	return op->lane->issued - op->number < LOG_RECORDS;
}
/* For an engine: the operation starts, and is in this state from now on. */
static inline void op_begin(struct op *op, int state)
{
	op->state = state;
	if (op_is_logged(op))
		op->logged->started_us = context_now(op->lane->context);
	/* A backend without a transport may end an operation before it returns, so native_start tells of the begin before. */
	if (state == OP_RUNNING && LANE_OBSERVED(op->lane, COLL_OBSERVE_CALL))
		observed_op(op, COLL_OBSERVED_BEGIN, COLL_SUCCESS);
}
/* For an engine: the operation is complete. */
static inline void op_end(struct op *op)
{
	op->state = OP_DONE;
	/* The time of the last reading: short operations would feel one more. */
	if (op_is_logged(op))
		op->logged->ended_us = op->lane->context->now_us;
	if (LANE_OBSERVED(op->lane, COLL_OBSERVE_CALL))
		observed_op(op, COLL_OBSERVED_END, COLL_SUCCESS);
}

/* Makes an idle operation for a checked call, of which it copies the arrays: see plan.h. */
int op_make(struct lane *lane, const struct call *call, struct op **op);
/*
 * Appends an idle operation to the queue, and returns its number; group 0: it starts when its turn comes.  If
 * stream_order_begin has prepared it, the lock is released meanwhile: the operation may have ended, and later operations may follow.
 */
uint64_t op_enqueue(struct op *op, uint64_t group);
/* Makes and enqueues a call of the library's own. */
int op_issue(struct lane *lane, const coll_args_t *args, uint64_t group);
/* Keeps the operation and its schedule for a persistent request; the second function ends this. */
void op_make_persistent(struct op *op);
void op_end_persistent(struct op *op);
/* Takes an operation out of its list (moving.h). */
void moving_leave(struct op *op);
/* The operation is out of the queue, and becomes a plan for later calls. */
static inline void op_retire(struct op *op)
{
	struct op **plans = &op->lane->queue.plans[op->call.args.kind];

	op->state = OP_IDLE;
	if (op->rests || op->list)
		moving_leave(op);
	if (op->offload)
		op->lane->client->retire(op);
	if (op->persistent)
		return;
	if (op->scratch.size > SCRATCH_SMALL) {
		scratch_rest(op->lane, &op->scratch);
		if (op->stage == PLAN_PLACED) /* in that block */
			op->stage = PLAN_FILLED;
	}
	op->next = *plans;
	*plans = op;
}
void op_free(struct op *op);

#endif
