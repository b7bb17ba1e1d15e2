/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrinks.h - the questions and answers of coll_comm_shrink over a transport: the survivors ask one survivor, the leader, and
 * it answers each (api/derive_transport.c).  The lock is held in all functions.
 */
#ifndef CORE_COMM_SHRINKS_H
#define CORE_COMM_SHRINKS_H

#include "comm/comm.h"

/* The answer of the leader of a shrink. */
struct shrunk {
	struct shrunk *next;
	uint64_t hash; /* of the list of excluded ranks */
	uint32_t context_id;
	int failed_rank; /* the rank that prevents the new communicator, or -1 */
};

struct shrinks {
	uint64_t awaited;      /* the hash in this rank's question; 0: no answer is awaited */
	struct shrunk answer;  /* to that question; hash 0: it has not come */
	struct shrunk *behind; /* answers to later calls, which this rank will make */
	int lost;              /* the rank whose loss ended the last wait for an answer, or -1 */
	int waits;             /* this rank is in coll_comm_shrink */
	uint64_t asked[];      /* per rank: the hash in its question to this rank; 0: none */
};

int shrinks_new(struct lane *lane);
/* The communicator is freed next: drops the answers that nobody takes. */
void shrinks_end(struct lane *lane);
/* Takes the leader's answer; this rank may have given up before. */
void shrinks_take_answer(struct lane *lane, const struct control_body *body);
/*
 * Takes from shrinks->behind the answer for this hash, and drops the answers before it, of calls that this rank has not
 * made.  Returns 1 if there was such an answer.
 */
int shrinks_before(struct lane *lane, uint64_t hash, struct shrunk *answer);

#endif
