/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_log.h - the log of the calls that this rank has made on a communicator.  Everything that is kept of a call after its
 * end is here, in three parts:
 *
 *   call[]    The signatures of the last collectives, by number.  The messages and the reports of other ranks are compared
 *             with them (report.h), so that ranks which make different calls find out.
 *   hash      A hash of all collectives.  The messages of a backend that has functions of its own carry no signature, so
 *             its ranks compare hashes; they keep more signatures, to find the first call that differs.
 *   op[]      Records with times: of the last operations and, apart from them, of the last messages outside the order of
 *             the operations.  A communicator that fails logs them, and writes them to a file (call_log_dump.c).  They are
 *             in lane->seen, which lies in the page of the rank if it has one, so that other processes see them (page/page.h).
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_COMM_CALL_LOG_H
#define CORE_COMM_CALL_LOG_H

#include "comm/call.h"
#include "comm/comm.h"
#include "page/page.h"
#include "transport/same_call.h"

enum {
	LOG_CALLS = 32,
	/* The ranks compare hashes each so many collectives: a message takes microseconds, and these are some nanoseconds each. */
	LOG_MARK_EVERY = 1024,
	/* With hashes, 128 KiB: a rank goes on while other ranks come to a comparison, and while their reports are on the way. */
	LOG_HASHED_CALLS = 8 * LOG_MARK_EVERY,
	/* No two ranks are more than TAG_SEQ_APART collectives apart. */
	LOG_MARKS = 2 * TAG_SEQ_APART / LOG_MARK_EVERY
};

/*
 * The messages.  When a communicator fails, the log keeps the oldest open messages, up to half of its records, because
 * the oldest hold up the later messages.
 */
struct message_log {
	uint64_t count;        /* ever kept; number k, from 0, is at k % LOG_RECORDS */
	int open;              /* messages that the failure has ended */
	struct record *record; /* an array of LOG_RECORDS records: in the page, or `own` */
	struct record own[];
};

struct call_hash {
	uint64_t now;             /* of all collectives up to lane->seq */
	uint64_t mark[LOG_MARKS]; /* its values at the last multiples of LOG_MARK_EVERY */
};

struct call_log {
	struct message_log *messages; /* NULL: no message has ended yet, or there is no memory */
	struct call_hash *hash;       /* NULL: the ranks need not compare hashes */
	uint32_t mask;                /* entries of call[], a power of two, less 1 */
	struct signature call[];      /* collective `seq` is at seq & mask; zeroed: not issued */
};

int call_log_new(struct lane *lane);
/* Of a new communicator: its ranks compare hashes of their calls. */
int call_log_hash_calls(struct lane *lane);
void call_log_free(struct lane *lane);

/* ------------------------------------------------------------------- signatures and hashes -- */

/* The algorithm is no part of a call whose hash is compared: a backend that executes the call by itself does not run it. */
static inline struct signature call_log_plain(const struct signature *call)
{
	return (struct signature){{call->meta[0] & ~SIGNATURE_ALGORITHM, call->meta[1]}};
}

/*
 * What the hash has of a call.  Where each rank has counts of its own a rank without elements may name another type
 * than the other ranks, so the hash leaves out the types of these calls.
 */
static inline struct signature call_log_hashed(const struct signature *call)
{
	const int kind = signature_kind(call->meta);
	const int own_counts = kind >= COLL_KIND_ALLTOALLV && kind <= COLL_KIND_SCATTERV;
	const uint64_t unused = SIGNATURE_ALGORITHM | (own_counts ? MATCH_TYPE_BITS : 0);

	return (struct signature){{call->meta[0] & ~unused, call->meta[1]}};
}

/* The hash with one more call, of which call_log_hashed has made `hashed`. */
static inline uint64_t call_log_hash(uint64_t hash, const struct signature *hashed)
{
	return signature_hash(signature_hash(hash, hashed->meta[0]), hashed->meta[1]);
}

/* The slot for the signature of collective lane->seq - 1, the newest one. */
static inline struct signature *call_log_newest_call(const struct lane *lane)
{
	return &lane->log->call[(lane->seq - 1) & lane->log->mask];
}

/*
 * Adds the newest collective to the hash, which exists; `hashed` is what call_log_hashed has made of it.  Returns 1 if the
 * number of collectives is a multiple of LOG_MARK_EVERY.
 */
static inline int call_log_add_hash(struct lane *lane, const struct signature *hashed)
{
	struct call_hash *hash = lane->log->hash;

	hash->now = call_log_hash(hash->now, hashed);
	if (lane->seq % LOG_MARK_EVERY)
		return 0;
	hash->mark[lane->seq / LOG_MARK_EVERY % LOG_MARKS] = hash->now;
	return 1;
}

/* The signature of collective `seq`, or NULL: it is not issued yet, or is not one of the last. */
const struct signature *call_log_at(const struct lane *lane, uint32_t seq);
/* The hash at the last multiple of LOG_MARK_EVERY up to `number`. */
uint64_t call_log_mark(const struct lane *lane, uint32_t number);
/* Finds the hash of the first `number` collectives, which this rank has issued.  Returns 1 if the hash is known. */
int call_log_find_hash(const struct lane *lane, uint32_t number, uint64_t *hash);

/* --------------------------------------------------------------------------------- records -- */

/* Fills in the record of a call that is not issued yet. */
static inline void call_log_fill(struct record *record, const struct call *call,
				 const struct signature *signature)
{
	const coll_args_t *a = &call->args;

	record->meta[0] = signature->meta[0];
	record->meta[1] = signature->meta[1];
	record->count = a->sendcounts || a->recvcounts
				? call->elements[!call->elements[COLL_BUFFER_SEND]]
				: a->count;
	record->issued_us = record->started_us = record->ended_us = 0;
	record->seq_or_tag = (uint32_t)a->tag;
	record->label = call->kind && call->kind->is_collective ? (uint32_t)a->tag : 0;
	record->peer = a->root;
	record->kind = a->kind;
}

/* The slot for the record of operation `number`, which is one of the last. */
static inline struct record *call_log_slot(const struct lane *lane, uint64_t number)
{
	return &lane->seen->op[number % LOG_RECORDS];
}

/* The slot for the record of the next operation, which is issued now: lane->issued is its number from now on. */
static inline struct record *call_log_next(struct lane *lane)
{
	const uint64_t number = ++lane->issued;

	/* From now on a reader of the page passes over the old record in the slot. */
	atomic_store_explicit(&lane->seen->issued, number, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	return &lane->seen->op[number % LOG_RECORDS];
}

/* The log has the operations after this number. */
static inline uint64_t call_log_before(const struct lane *lane)
{
	return lane->issued < LOG_RECORDS ? 0 : lane->issued - LOG_RECORDS;
}

/* The record of operation `number`, or NULL: it was never issued, or is not one of the last. */
static inline struct record *call_log_record(const struct lane *lane, uint64_t number)
{
	return number && lane->issued - number < LOG_RECORDS ? call_log_slot(lane, number) : NULL;
}

/* The backend has ended the operations after number `before` up to lane->finished. */
void call_log_end_all(struct lane *lane, uint64_t before);

/* Keeps a message outside the order of the operations, which has ended.  stamp: when it was issued, for counters. */
void call_log_add_message(struct lane *lane, const struct record *message, uint64_t stamp);
/* Message number `n` of the log, the oldest first, or NULL. */
const struct record *call_log_message(const struct lane *lane, uint64_t n);

/* Writes "allreduce of 10 float32 (sum)" or "recv of 4 int32 from rank 2 with tag 7", of an operation. */
void call_log_describe(const struct lane *lane, const struct record *op, char *text, size_t size);

#endif
