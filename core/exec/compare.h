/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.h - compares the calls of the ranks where a backend has functions of its own.  Their messages carry
 * no signature, so each rank hashes the signatures of all its collectives; messages between two ranks are left
 * out.  The ranks compare hashes every COMPARE_EVERY collectives, each rank with the rank before it, and all
 * ranks when one of them stalls.  A backend without a transport needs a companion for that.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_EXEC_COMPARE_H
#define CORE_EXEC_COMPARE_H

#include "exec/comm.h"

enum {
	/* A message costs some microseconds: spread over so many collectives, some nanoseconds each. */
	COMPARE_EVERY = 1024,
	/* The signatures kept, 128 KiB: a rank goes on while the others come to a comparison and their letters to it. */
	COMPARE_CALLS = 8 * COMPARE_EVERY,
	/* No two ranks are more than TAG_SEQ_APART collectives apart. */
	COMPARE_MARKS = 2 * TAG_SEQ_APART / COMPARE_EVERY
};

/* CONTROL_CALLS and CONTROL_LAST: calls of the first `number` collectives, from `first` on. */
struct compare_list {
	uint32_t number, first;
	struct signature call[COMPARE_EVERY];
};

struct left_calls;

struct compare {
	uint64_t hash;                /* of all collectives up to comm->seq */
	uint64_t mark[COMPARE_MARKS]; /* its values at the last multiples of COMPARE_EVERY */
	struct signature call[COMPARE_CALLS]; /* by number, without algorithms */
	struct hashes held; /* of a rank that is ahead, until this rank is there; */
	int held_rank;      /* -1: none */
	int64_t differ_us;  /* when a difference was found; 0: none */
	int differ_rank;
	uint32_t differ_number;
	struct left_calls *left; /* the last calls of ranks that have left */
	uint64_t left_looked;    /* 1 more than comm->seq when compare_look_at_left looked last */
	uint32_t number[]; /* per rank: the collectives that it had issued when last heard of */
};

/* A communicator whose backend has own functions; `compare` stays NULL for all others. */
int compare_new(struct comm *comm);
void compare_free(struct comm *comm);

/* Every COMPARE_EVERY collectives: tells the next rank. */
void compare_mark(struct comm *comm);

/* The algorithm of an operation is no part of the call: the ranks' engines do not run it. */
static inline struct signature compare_call(const struct signature *signature)
{
	return (struct signature){{signature->meta[0] & ~SIGNATURE_ALGORITHM, signature->meta[1]}};
}

/*
 * The hash with one more call.  Where each rank has counts of its own a rank without elements may name another type than
 * the others, so the hash leaves out the types of these calls.
 */
static inline uint64_t compare_add(uint64_t hash, const struct signature *call)
{
	const int own_counts = kind_has_own_counts(signature_kind(call->meta));
	const uint64_t word = call->meta[0] & ~(own_counts ? MATCH_TYPE_BITS : 0);

	return signature_hash(signature_hash(hash, word), call->meta[1]);
}

/* The newest collective (comm->seq - 1) was issued. */
static inline void compare_note(struct comm *comm, const struct signature *signature)
{
	struct compare *c = comm->compare;
	const struct signature call = compare_call(signature);

	if (!c)
		return;
	c->call[(comm->seq - 1) % COMPARE_CALLS] = call;
	c->hash = compare_add(c->hash, &call);
	if (comm->seq % COMPARE_EVERY == 0)
		compare_mark(comm);
}

/* This rank's hashes, for CONTROL_HASHES and positions. */
struct hashes compare_hashes(const struct comm *comm);
/* Another rank's: compares those of a number that both ranks have reached. */
void compare_take(struct comm *comm, int rank, const struct hashes *theirs);
/* CONTROL_CALLS: the calls of a rank that has found a difference. */
void compare_take_calls(struct comm *comm, int rank, const void *bytes, size_t len);
/* Has the rank not issued collective `seq`, as far as this rank knows?  Of a rank that has left it knows all. */
int compare_lacks(const struct comm *comm, int rank, uint32_t seq);
/* This rank leaves the communicator: tells all ranks its last calls, and how far it has come. */
void compare_leave(struct comm *comm);
/* Sends a rank the calls before `number` that are still known here, `most` (up to COMPARE_EVERY) of them. */
int compare_send_calls(struct comm *comm, int rank, int kind, uint32_t number, uint32_t most);

/* --- compare_left.c: ranks that have left the communicator, which nobody can ask. */

/* CONTROL_LAST: the last calls of a rank that leaves. */
void compare_take_last(struct comm *comm, int rank, const void *bytes, size_t len);
/* Fails the communicator soon if a call that the rank has named when it left is another one here: 1. */
int compare_name_left(struct comm *comm, int rank);
/* The rank has left. */
void compare_left(struct comm *comm, int rank);
/*
 * Fails the communicator soon if a rank that has left has made another call, or lacks one for which this rank does not
 * wait.  leaves: this rank makes no more calls, so those that it lacks count too.
 */
void compare_look_at_left(struct comm *comm, int leaves);
void compare_free_left(struct compare *compare);

#endif
