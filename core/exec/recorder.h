/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recorder.h - the flight recorder: the last operations of each communicator with their states and times, to
 * be read when the communicator has failed.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_EXEC_RECORDER_H
#define CORE_EXEC_RECORDER_H

#include "exec/call.h"

#include <string.h>

struct comm;

enum { RECORDER_SIZE = 64 };

/* One operation; its number in the communicator follows from its place in the ring. */
struct recorded {
	uint64_t meta[2]; /* its signature */
	uint64_t count; /* elements; v-forms: those that this rank sends, else those it receives */
	/* By context_now; 0: not yet. */
	int64_t issued_us, started_us, ended_us;
	uint32_t seq_or_tag; /* collectives: number among them; send and recv: tag */
	int32_t peer;        /* root, or peer of a send or recv */
	int32_t kind;
};

struct recorder {
	uint64_t issued; /* number of the newest operation; the first has number 1 */
	struct recorded op[RECORDER_SIZE]; /* operation `number` is at number % RECORDER_SIZE */
};

/*
 * Operation comm->issued was issued; seq: its number if it is a collective.  The times are those of
 * context_now.
 */
static inline void recorder_issue(struct recorder *recorder, uint64_t number,
				  const struct call *call, struct signature signature, uint32_t seq,
				  int64_t now_us)
{
	struct recorded *op = &recorder->op[number % RECORDER_SIZE];
	const coll_args_t *a = &call->args;

	recorder->issued = number;
	memcpy(op->meta, signature.meta, sizeof(op->meta));
	op->count = a->count;
	if (a->sendcounts || a->recvcounts)
		op->count = call->elements[!call->elements[COLL_BUFFER_SEND]];
	op->issued_us = now_us;
	op->started_us = op->ended_us = 0;
	op->kind = a->kind;
	op->peer = a->root;
	op->seq_or_tag = kind_is_collective(a->kind) ? seq : a->tag;
}

/* Operation `number`, or NULL if it was never issued or another has taken its place. */
static inline struct recorded *recorder_find(struct recorder *recorder, uint64_t number)
{
	if (!number || recorder->issued - number >= RECORDER_SIZE)
		return NULL;
	return &recorder->op[number % RECORDER_SIZE];
}

/* The engine runs the operation, or the backend has it. */
static inline void recorder_start(struct recorder *recorder, uint64_t number, int64_t now_us)
{
	struct recorded *op = recorder_find(recorder, number);

	if (op)
		op->started_us = now_us;
}

static inline void recorder_end(struct recorder *recorder, uint64_t number, int64_t now_us)
{
	struct recorded *op = recorder_find(recorder, number);

	if (op)
		op->ended_us = now_us;
}

/* Operations that the backend ends together: those after number `before` up to `number`. */
void recorder_end_all(struct recorder *recorder, uint64_t before, uint64_t number, int64_t now_us);
/* Writes "allreduce of 10 float32 (sum)" or "recv of 4 int32 from rank 2 with tag 7". */
void recorder_describe(const struct recorded *op, char *text, size_t size);

/*
 * The first communicator on its context was made: warns if the option `dump` names no directory in which this
 * process can make files.
 */
void recorder_check_dump(struct comm *comm);
/*
 * The communicator has failed.  Logs the operations that are not done, as a warning if `loud`, and with the
 * option `dump` writes all of them to a file.
 */
void recorder_report(struct comm *comm, int loud);

/* For recorder.c (recorder_dump.c): writes the file. */
void recorder_dump(struct comm *comm, const char *directory, int loud);

#endif
