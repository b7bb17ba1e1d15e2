/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - the one message by which a rank tells other ranks how far it has come on a communicator, and what a rank learns
 * when it compares such a report with its own log (comm/call_log.h).  Ranks that make different calls would wait for each other
 * for ever; the comparison names the first call that differs, and fails the communicator.
 *
 * A rank sends a report
 *   - to all other ranks when it has waited for long (REPORT_ASKS); each rank answers (REPORT_ANSWERS) where it is;
 *   - to all other ranks when it leaves (REPORT_LEAVES), with its last calls, since nobody can ask it any more;
 *   - to the next rank every LOG_MARK_EVERY collectives, where messages carry no signatures: hashes alone;
 *   - to a rank whose hashes differ (REPORT_DIFFERS), with its calls: the receiver finds the first call that differs.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_WATCH_REPORT_H
#define CORE_WATCH_REPORT_H

#include "comm/call_log.h"
#include "watch/watch.h"
#include "transport/traffic.h"

/* Values of a position's kind that are no COLL_KIND_*: for the last two the tag is COLL_ANY_TAG or the program's tag. */
enum { POSITION_NONE = -1, POSITION_PROBE = -2, POSITION_IRECV = -3 };

/* Nothing has moved for long: outside of the library, or while a thread or a stream waits. */
enum { STALLED_NOT, STALLED_OUTSIDE, STALLED_WAITS };

/*
 * Where a rank is: the hashes of its collectives, and its oldest operation that is not finished.  A backend without a transport
 * does not say which operations it has finished: there the newest operation stands instead.
 */
struct position {
	uint64_t hash;       /* of all collectives */
	uint64_t mark;       /* of the collectives up to the last multiple of LOG_MARK_EVERY */
	uint64_t meta[2];    /* the operation's signature */
	uint32_t number;     /* of collectives issued */
	uint32_t seq_or_tag; /* the operation's number, if it is a collective; else its tag */
	int32_t kind;      /* COLL_KIND_* or POSITION_*; POSITION_NONE: the rank has no operation */
	int32_t peer;      /* of a send or recv */
	uint32_t stalled;  /* STALLED_*: of operations that are not known to be complete */
	uint32_t reserved; /* 0: without it the message has bytes that nobody sets */
};

enum {
	/* REPORT_ASKS and REPORT_ANSWERS: the report says where the sender is in both lanes (comm/lane.h). */
	REPORT_ASKS = 1,    /* the sender waits for long: the receiver answers with its report */
	REPORT_ANSWERS = 2, /* the answer */
	REPORT_LEAVES = 4,  /* the sender destroys its communicator */
	REPORT_DIFFERS = 8, /* the hashes of the first `first + calls` calls differ */
	REPORT_OTHER = 16 /* `other` is known: the sender has another lane, and could look at it */
};

/* A rank that has no operation in the communicator may wait in its shrink, or in another communicator. */
enum { ELSEWHERE_SHRINK = -1, ELSEWHERE_NOWHERE = 0 };

/* In the message the signatures of calls follow. */
struct report {
	uint32_t flags;    /* REPORT_* */
	int32_t elsewhere; /* ELSEWHERE_*, or the kind of the operation in another communicator */
	uint32_t first;    /* the number of the first call that follows */
	uint32_t calls;    /* how many follow */
	struct position here;  /* in the communicator of the report */
	struct position other; /* in the other lane (comm/lane.h) */
};

/* This rank's report, without calls. */
struct report report_make(const struct lane *lane, uint32_t flags);
/* The program's newest call that the log still has, or NULL. */
const struct record *report_newest_call(const struct lane *lane);
/* Takes the report of another rank and compares it with the log.  Returns 1 if the rank has left with it. */
int report_take(struct lane *lane, int rank, const void *bytes, size_t len);

/* Can other ranks be asked? */
int report_can_ask(const struct lane *lane);
/* Asks the other ranks where they are, if there is a way to. */
void report_ask(struct lane *lane);
/* Tells all other ranks that this rank leaves. */
void report_leave(struct lane *lane);

/* ------------------------------------------------------- what arrives, compared with the log -- */

/*
 * Compares the calls that a rank has named when it left.  Returns 1 if this rank has made a different call under the
 * number of one of these, which fails the communicator soon, or if the communicator fails anyway.
 */
int report_compare_left(struct lane *lane, int rank);
/*
 * With hashes: fails the communicator soon if a rank that has left has made another call, or lacks a call for which
 * this rank does not wait.  leaves: this rank makes no more calls, so the calls that it lacks count too.
 */
void report_check_left(struct lane *lane, int leaves);
/*
 * With hashes: has the rank not issued collective `seq`, as far as this rank knows?  Of a rank that has left this rank
 * knows all calls.
 */
int report_lacks(const struct lane *lane, int rank, uint32_t seq);
/*
 * A message of collective `seq`, modulo 2^16, has come from a rank before this rank awaits it.  Returns 1 if the
 * collective is another one here, which fails the communicator soon.
 */
int report_message_differs(struct lane *lane, int rank, uint32_t seq, const uint64_t *theirs);

/* ------------------------------------------------------------------------- calls of this rank -- */

/* For report_native_call: the hashes have come to a multiple of LOG_MARK_EVERY. */
void report_mark(struct lane *lane);
/* For comm_client: compares the newest collective with the messages that came for it, and adds it to the hashes. */
void report_compare_newest(struct lane *lane);

/*
 * The newest collective (lane->seq - 1), of a backend without a transport: adds it to the log if the ranks compare hashes.
 * hashed: what call_log_hashed has made of the call.
 */
static inline void report_native_call(struct lane *lane, const struct signature *call,
				      const struct signature *hashed)
{
	if (!lane->log->hash)
		return;
	*call_log_newest_call(lane) = *call;
	if (call_log_add_hash(lane, hashed))
		report_mark(lane);
}

#endif
