/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - operations, and the one engine that runs their schedules without blocking. */
#ifndef CORE_EXEC_ENGINE_H
#define CORE_EXEC_ENGINE_H

#include "base/kind.h"
#include "exec/comm.h"
#include "device/copy_stream.h"
#include "exec/extent.h"
#include "exec/native.h"

/* A bit of args.flags: the operation is part of a split, and called so in messages. */
enum { OP_OF_SPLIT = 1 };

/* Kinds of operation that are the library's own: only in signatures; waiting for another communicator. */
enum { KIND_SPLIT = COLL_KIND_RECV + 1, KIND_AWAIT = COLL_KIND_RECV + 2 };

/* IDLE: not in the queue; HELD: in it, but its group is still open; GIVEN: see native.h. */
enum { OP_IDLE, OP_DEFERRED, OP_QUEUED, OP_RUNNING, OP_SUBMITTED, OP_DONE };

/* The state of one step while its operation runs. */
struct run {
	uint32_t earlier; /* steps it still waits for */
	union {
		coll_send_t send;
		struct recv recv;
		int32_t next; /* copies to and from devices: the one to be started next, or -1 */
	} u;
};

/*
 * Host memory in which an operation's buffers of a device are staged (staging.c); kept with it.  It has
 * a part for the send and one for the receive buffer; in place they are the same.
 */
struct staging {
	char *memory;
	size_t size, need;
	int pinned;
	size_t at[2];  /* where in the memory the buffers would begin: modulo 2^N */
	char *base[2]; /* the same as addresses: they stand in for the buffers */
	uintptr_t
		user[2]; /* what an offset in the memory is to be added to, for the user's bytes */
	uintptr_t near[2];  /* the first byte used */
	const void *scalar; /* of the operation, on the device */
	struct copy_stream *copy_stream[COPY_STREAMS];
	int first[COPY_STREAMS],
		last[COPY_STREAMS]; /* copies that wait for their copy_stream, or -1: through run.u.next */
};

struct op {
	struct op *next;
	struct comm *comm;
	coll_args_t args;
	struct signature signature;
	uint64_t number; /* in the communicator, from 1 */
	uint64_t group;  /* operations of one group run at the same time; 0: alone */
	uint32_t seq;
	struct redop redop; /* blank where nothing is reduced */
	int algorithm;      /* row of the table, or -1 */
	int in_place;       /* the buffers overlap as coll.h allows */
	int state;
	struct sched sched;
	struct run *run;
	int32_t *ready; /* steps that may run: a ring buffer as long as the schedule */
	int ready_head, ready_count;
	int32_t *local; /* the same for steps that need no peer: they run when all others are
			   started */
	int local_count;
	int32_t *sending; /* steps whose send is not complete */
	int sending_count;
	int failed_send;   /* a step whose send has failed, or -1 */
	int native;        /* was handed to the backend whole */
	int left;          /* steps not complete */
	int cap_steps;     /* what the arrays hold */
	char *base[3];     /* of send, receive and scratch memory */
	uint32_t where[3]; /* kinds of memory there: COLL_MEM_* */
	void *scratch;
	size_t scratch_size;
	uint32_t memory[2]; /* kinds of the send and the receive buffer; 0: not used here */
	int staged;         /* over the transport, bit by bit: see staging.c */
	struct staging staging;
	size_t *arrays;  /* v-forms: four of nranks entries, to which args points */
	int sched_ready; /* the schedule is there and fits */
	int cacheable;   /* a call of the same kind, types, root and count is the same */
	int persistent;  /* belongs to a persistent request: not to be reused for others */
	struct op *persistent_next;
	coll_comm_t awaited;     /* KIND_AWAIT: the communicator, and */
	uint64_t awaited_number; /* the operation that must be done there */
	uint64_t awaited_moves;  /* of its context, when last looked at */
};

/* The lock is held in all of these. */

/* An operation from checked arguments, not yet in the queue; arrays are copied. */
int op_make(struct comm *comm, const coll_args_t *args, struct op **op);
/*
 * A finished operation that was called with exactly these arguments, to be enqueued, or NULL.  Only
 * where the buffers are is looked at: all else that was right then is right now.
 */
struct op *op_again(struct comm *comm, const coll_args_t *args);
/* Appends it to the queue; it starts when its turn comes.  Now and then a barrier goes before it. */
void op_enqueue(struct op *op, uint64_t group);
/* Both. */
int op_issue(struct comm *comm, const coll_args_t *args, uint64_t group);
/* Keeps it, and the schedule in it, to be enqueued again when it is done; and no longer. */
void op_make_persistent(struct op *op);
void op_end_persistent(struct op *op);
/* It is done and out of the queue. */
void op_retire(struct op *op);
void op_free(struct op *op);
/* Lets a group's operations begin. */
void op_release(struct comm *comm, uint64_t group);

/* Makes the arrays and the scratch memory that an operation's schedule needs. */
int engine_room(struct op *op);
/* Makes its first steps ready. */
void engine_begin(struct op *op);
/* A step is done: makes those ready that waited for it. */
void engine_complete(struct op *op, int step);
/* Runs what can run of it: 1 if anything moved. */
int engine_run(struct op *op);
/* A receive of op's has completed. */
void engine_received(struct recv *recv);
/* Puts bytes where a receive wants them, on a device. */
int engine_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
/* Ends it: nothing of it is touched afterwards. */
void engine_cancel_op(struct op *op);

/* Runs what can run on the communicator: 1 if anything moved. */
int queue_progress(struct comm *comm);
/* The same without asking a backend how far it is with what it does whole. */
int queue_run(struct comm *comm);
/* After something was issued: sends go out first, then a transport is asked what has come. */
void queue_issued(struct comm *comm);
/* The backend's own begin (0) or end (1) of a group, if it has them. */
void queue_native_group(struct comm *comm, int end);
/* Asks an engine of the backend's own how it is, also while nothing is under way. */
void queue_check_engine(struct comm *comm);
/* Ends every operation of the communicator. */
void queue_cancel(struct comm *comm);

/* "allreduce of 10 float32 (sum)" for a message header or an operation. */
void signature_describe(const struct signature *signature, char *text, size_t size);
/* Fowler, Noll and Vo's FNV-1a over 64-bit words: the hash of one word more. */
#define SIGNATURE_HASH_BEGIN 0xcbf29ce484222325u
uint64_t signature_hash(uint64_t hash, uint64_t word);
/* The name of the algorithm that an operation uses. */
const char *signature_algorithm(const struct signature *signature);
struct signature signature_of(const struct comm *comm, const struct op *op);

/* The backend's own slot for a kind of operation, or NULL. */
native_fn dispatch_native(const struct comm *comm, int kind);

/* An operation that waits for another communicator: see await.c. */
enum { AWAIT_IDLE, AWAIT_MOVED, AWAIT_DONE };
int await_check(struct op *op);

/* The backend's slot for an operation, or NULL (queue.c). */
native_fn dispatch_op_slot(const struct op *op);

/*
 * Finds where an operation's buffers are: op->memory, op->staged.  COLL_ERR_UNSUPPORTED, with a
 * sentence, if nobody can do it with them.
 */
int staging_look(struct op *op);
/* For an operation of which something is staged, before its steps: memory to stage it in. */
int staging_begin(struct op *op);
void staging_free(struct op *op);
/* Where each buffer lies in that memory: the same for all calls that share a schedule. */
void staging_layout(struct op *op);
/* Adds the copies to and from staged buffers to an operation's schedule. */
void stage_schedule(struct op *op);

/* Copies to and from staged buffers (staging_copy.c).  None is ready yet. */
void staging_copy_begin(struct op *op);
/* The step may be started. */
void staging_copy_ready(struct op *op, int step);
/* Starts what has a place on its copy_stream and sees what is done: 1 if anything moved. */
int staging_copy_run(struct op *op);
/* Waits, a bounded time, until no copy of the operation is under way. */
void staging_copy_cancel(struct op *op);

/* The algorithm for an operation over the transport: a row of the table, or -1. */
int dispatch_algorithm(const struct op *op);
/* Fills op->sched for the communicator's transport (dispatch.c); COLL_ERR_UNSUPPORTED if nobody can.
 */
int dispatch_build(struct op *op);
/* Can the communicator do this kind at all?  COLL_ERR_UNSUPPORTED with a sentence if not. */
int dispatch_check(struct comm *comm, int kind);
/* Asks a backend without a transport whether it will do an operation. */
int dispatch_takes(const struct op *op);

#endif
