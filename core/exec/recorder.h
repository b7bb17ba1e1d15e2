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
struct op;

enum { RECORDER_SIZE = 64 };

/* One operation. */
struct recorded {
	uint64_t meta[2]; /* its signature */
	uint64_t count; /* elements; v-forms: those that this rank sends, else those it receives */
	/* By context_now; 0: not yet. */
	int64_t issued_us, started_us, ended_us;
	uint32_t seq_or_tag; /* collectives: number among them; send and recv: tag */
	int32_t peer;        /* root, or peer of a send or recv */
	int32_t kind;
};

/*
 * The operations that have left the queue.  Those in the queue carry their records (struct op), so that an
 * operation is written here once, when it leaves.
 */
struct recorder {
	uint64_t newest; /* number of the newest operation here; the first has number 1 */
	struct recorded op[RECORDER_SIZE]; /* operation `number` is at number % RECORDER_SIZE */
};

/* The record of a call that is not issued yet. */
static inline struct recorded recorder_of(const struct call *call, struct signature signature)
{
	const coll_args_t *a = &call->args;
	struct recorded op = {.count = a->count, .kind = a->kind, .peer = a->root};

	memcpy(op.meta, signature.meta, sizeof(op.meta));
	if (a->sendcounts || a->recvcounts)
		op.count = call->elements[!call->elements[COLL_BUFFER_SEND]];
	if (!kind_is_collective(a->kind))
		op.seq_or_tag = a->tag;
	return op;
}

/* Operation `number` follows the newest one here. */
static inline struct recorded *recorder_add(struct recorder *recorder, uint64_t number,
					    const struct recorded *op)
{
	struct recorded *place = &recorder->op[number % RECORDER_SIZE];

	recorder->newest = number;
	*place = *op;
	return place;
}

/* The last operations are those after this number. */
uint64_t recorder_before(const struct comm *comm);
/*
 * Operation `number`, or NULL if it was never issued or is not one of the last.  The search begins at `*from`, at the
 * oldest operation if that is NULL, and leaves there where a search for a later number may begin.
 */
const struct recorded *recorder_find(const struct comm *comm, uint64_t number,
				     const struct op **from);
/* The backend has ended the operations after number `before` up to comm->finished. */
void recorder_end_all(struct comm *comm, uint64_t before);
/* Writes "allreduce of 10 float32 (sum)" or "recv of 4 int32 from rank 2 with tag 7". */
void recorder_describe(const struct comm *comm, const struct recorded *op, char *text, size_t size);

/* --- recorder_dump.c */

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

#endif
