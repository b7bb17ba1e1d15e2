/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - operations, and the one engine that runs their schedules without blocking. */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "comm.h"

/* A bit of args.flags: the operation is part of a split, and called so in messages. */
enum { OP_OF_SPLIT = 1 };

enum { OP_HELD, OP_QUEUED, OP_RUNNING, OP_DONE };

/* The state of one step while its operation runs. */
struct run {
	uint32_t earlier; /* steps it still waits for */
	union {
		coll_send_t send;
		struct recv recv;
	} u;
};

struct op {
	struct op *next;
	struct comm *comm;
	coll_args_t args;
	struct print print;
	uint64_t number; /* in the communicator, from 1 */
	uint64_t group;  /* operations of one group run at the same time; 0: alone */
	uint32_t seq;
	int algorithm; /* row of the table, or -1 */
	int in_place;  /* the buffers overlap as coll.h allows */
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
	int failed_send; /* a step whose send has failed, or -1 */
	int native;      /* was handed to the backend whole */
	int left;        /* steps not complete */
	int cap_steps;   /* what the arrays hold */
	char *base[3];   /* of send, receive and scratch memory */
	void *scratch;
	size_t scratch_size;
};

/* Appends an operation to the queue; it starts when its turn comes.  The lock is held. */
int op_issue(struct comm *comm, const coll_args_t *args, uint64_t group);
void op_free(struct op *op);
/* Lets a group's operations begin. */
void op_release(struct comm *comm, uint64_t group);

/* Runs what can run on the communicator: 1 if anything moved. */
int engine_progress(struct comm *comm);
/* A receive of op's has completed. */
void engine_received(struct recv *recv);
/* Ends every operation of the communicator: nothing of theirs is touched afterwards. */
void engine_cancel(struct comm *comm);

/* "allreduce of 10 float32 (sum)" for a message header or an operation. */
void print_describe(const struct print *print, char *text, size_t size);
struct print print_of(const coll_args_t *args);

/* The backend's own slot for a kind of operation, or NULL. */
typedef int32_t (*native_fn)(void *ep, const coll_args_t *args, coll_error_t *err);
native_fn choose_native(const struct comm *comm, int kind);

/* The algorithm for an operation over the transport: a row of the table, or -1. */
int choose_algorithm(const struct comm *comm, const coll_args_t *args);
/* Fills op->sched for the communicator's transport (choose.c); COLL_ERR_UNSUPPORTED if nobody can.
 */
int choose_build(struct op *op);
/* Can the communicator do this kind at all?  COLL_ERR_UNSUPPORTED with a sentence if not. */
int choose_check(const struct comm *comm, int kind);

/* Checks the arguments of an operation against the communicator (check.c). */
int check_args(const struct comm *comm, const coll_args_t *args);
/* Do the buffers overlap in the way that asks for an operation in place? */
int check_in_place(const struct comm *comm, const coll_args_t *args);
const char *check_kind_name(int kind);
int check_reduces(int kind);

#endif
