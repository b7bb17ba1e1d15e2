/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h - what this rank knows of the other ranks of a communicator: which ranks answer, where they are, the last calls
 * of ranks that have left; and since when operations of this rank have not moved.  report.h fills it in, stall.h reads it.
 *
 * The context's lock is held in all functions.
 */
#ifndef CORE_WATCH_WATCH_H
#define CORE_WATCH_WATCH_H

#include "comm/comm_wait.h"
#include "comm/engines.h"
#include "comm/signature.h"

struct report;

/* Has a rank answered this rank's question where it is? */
enum answered {
	ANSWERED_NOT,
	ANSWERED,       /* the last question */
	ANSWERED_BEFORE /* an earlier question, since when this rank has done nothing */
};

struct rank_status {
	/* Last seen: the collective of which a message came last, and its kind; kind 0: no message has come. */
	uint32_t seen_seq;
	uint8_t seen_kind;
	uint8_t answered; /* enum answered */
};

/* A program that makes no calls, and may wait outside the library: see stall_outside.c. */
struct outside {
	uint64_t moves;   /* stall_moves, as it was seen last */
	int64_t since_us; /* the rank has been there since then; 0: not seen yet */
	int64_t next_us;  /* the next question comes after so long */
	int asked;        /* the other ranks were asked, and this rank is still there */
};

/* The last calls of a rank that has left: nobody can ask it any more. */
struct left_calls {
	uint32_t first,
		calls; /* the number of call[0], and the entries; the rank has made no more */
	struct signature call[];
};

/* How the hashes of the other ranks compare with the hashes of this rank. */
struct compared {
	/* The hash of a rank that is ahead, until this rank is there. */
	uint64_t ahead_hash;
	uint32_t ahead_number;
	int ahead_rank; /* -1: none */
	/* The last difference. */
	int64_t differ_us; /* when it was found; 0: there is none */
	uint32_t differ_number;
	int differ_rank;
	uint64_t left_looked; /* 1 more than lane->seq when report_check_left looked last */
	uint32_t number[];    /* per rank: the collectives that its last report has counted */
};

struct watch {
	struct report *report;     /* per rank: the last report that says where it is; NULL: none */
	struct left_calls **left;  /* per rank that has left; NULL: none */
	struct compared *compared; /* NULL: the ranks need not compare hashes */
	uint64_t asked_moves;      /* stall_moves when this rank asked last */
	int stalled; /* waits and polls for which the other ranks were asked, and that have not moved since: see stall_waits */
	struct stall polled; /* of calls that poll, and of streams that wait */
	struct outside outside;
	struct rank_status rank[];
};

/* hashed: the ranks compare hashes. */
int watch_new(struct lane *lane, int hashed);
void watch_free(struct lane *lane);

/* The wait is over, or something has moved. */
static inline void stall_end(struct stall *stall, struct lane *lane)
{
	lane->watch->stalled -= stall->counted;
	stall->counted = 0;
}

/* A message of an operation with this signature has come from a rank. */
static inline void watch_see(struct lane *lane, int rank, const uint64_t *meta, uint32_t seq)
{
	struct rank_status *status = &lane->watch->rank[rank];

	status->seen_seq = seq;
	status->seen_kind = (uint8_t)meta[0]; /* the bits of signature_kind */
}
/* Keeps the report of a rank, which says where it is.  Without memory it is not kept. */
void watch_keep(struct lane *lane, int rank, const struct report *report);
/* The last report of a rank that says where it is, or NULL. */
const struct report *watch_report(const struct lane *lane, int rank);
/* Keeps `calls` calls of a rank that has left, from number `first` on; bytes: their signatures.  Without memory it keeps none. */
void watch_keep_left(struct lane *lane, int rank, uint32_t first, uint32_t calls,
		     const void *bytes);
const struct left_calls *watch_left(const struct lane *lane, int rank);

#endif
